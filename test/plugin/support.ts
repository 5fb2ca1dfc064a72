import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { onTestFinished } from "vitest";
import { configSchema, type ConfigInput } from "../../src/config/schema/index.ts";
import { createLogger } from "../../src/core/log.ts";
import { loadPlugins, type LoadedPlugins } from "../../src/plugin/host.ts";

export const BUILTIN = resolve(import.meta.dirname, "../../plugins");

/** A folder of a user, outside the repository, with these files; it goes when the test ends. */
export function userFolder(files: Record<string, string>): {
  dir: string;
  write: (name: string, text: string) => void;
} {
  const dir = mkdtempSync(join(tmpdir(), "rouse-user-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const write = (name: string, text: string): void => {
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), text);
  };
  for (const [name, text] of Object.entries(files)) write(name, text);
  return { dir, write };
}

export interface Loaded extends LoadedPlugins {
  printed: string[];
  logged: string[];
}

/** Loads the plugins of a config as a gateway does. */
export async function load(
  dir: string,
  config: ConfigInput = {},
  options: { builtinDir?: string; signal?: AbortSignal; now?: () => number } = {},
): Promise<Loaded> {
  const printed: string[] = [];
  const logged: string[] = [];
  const found = await loadPlugins({
    config: configSchema.parse(config),
    variables: new Map(),
    baseDir: dir,
    builtinDir: options.builtinDir ?? BUILTIN,
    stateDir: join(dir, ".rouse"),
    env: {},
    fetch: globalThis.fetch,
    clock: { now: options.now ?? (() => 1) },
    log: createLogger("trace", { write: (line: string) => void logged.push(line) }),
    signal: options.signal ?? new AbortController().signal,
    print: (text) => void printed.push(text),
  });
  return { ...found, printed, logged };
}
