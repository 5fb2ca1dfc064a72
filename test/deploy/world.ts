import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import JSON5 from "json5";
import type { Config } from "../../src/config/schema/index.ts";
import { createCli } from "../cli/world.ts";

export const ROOT = resolve(import.meta.dirname, "../..");
export const DEPLOY = join(ROOT, "deploy");
/** The time that a gateway may need after its turns have ended: for open answers, deliveries, and closing. */
export const AFTER_DRAIN_SECONDS = 10;

export const deployed = (path: string): string => readFileSync(join(DEPLOY, path), "utf8");

/** True if a program is on this machine. */
export function has(program: string): boolean {
  try {
    execFileSync("sh", ["-c", `command -v ${program}`], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** `40s`, `1m30s`, `1h` of a compose file, in seconds. */
export function secondsOf(text: string): number {
  const units: Record<string, number> = { h: 3600, m: 60, s: 1 };
  const parts = [...text.matchAll(/(\d+)([hms])/g)];
  if (parts.map(([whole]) => whole).join("") !== text) throw new Error(`no duration: ${text}`);
  return parts.reduce(
    (sum, [, count, unit]) => sum + Number(count) * (units[unit ?? ""] ?? NaN),
    0,
  );
}

/** The files that a config reads with `{ file: "…" }`. */
export function filesIn(config: string): string[] {
  const found: string[] = [];
  JSON5.parse(config, (_key, value: unknown) => {
    if (typeof value === "object" && value !== null && "file" in value)
      found.push(String(value.file));
    return value;
  });
  return found;
}

interface Settled {
  dir: string;
  /** The config as it was written, with the places of its secrets moved below `dir`. */
  file: string;
  remove(): void;
}

/** Puts a deployed config into a folder of its own, its secret files beside it. `secrets` is by the last part of their names. */
export function settle(
  config: string,
  secretsAt: string,
  secrets: Record<string, string>,
): Settled {
  const dir = mkdtempSync(join(tmpdir(), "rouse-deploy-"));
  const file = join(dir, "etc", "rouse.json5");
  mkdirSync(dirname(file));
  mkdirSync(join(dir, "secrets"));
  for (const [name, text] of Object.entries(secrets))
    writeFileSync(join(dir, "secrets", name), `${text}\n`, { mode: 0o600 });
  writeFileSync(file, config.replaceAll(secretsAt, join(dir, "secrets")));
  return { dir, file, remove: () => rmSync(dir, { recursive: true, force: true }) };
}

/** The output of `rouse config validate` and `rouse config` for a config. */
export async function checked(
  file: string,
  env: Record<string, string>,
): Promise<{ code: number; err: string; config: Config }> {
  const cli = await createCli();
  try {
    const { code, err } = await cli.rouse(`config validate -c ${file}`, { env });
    const shown = await cli.rouse(`config --json -c ${file}`, { env });
    return { code, err, config: (shown.out === "" ? {} : JSON.parse(shown.out)) as Config };
  } finally {
    await cli.close();
  }
}

/** The arguments that `rouse` does not take: words that are no command, or flags that are not in the command's help. */
export async function misunderstood(args: readonly string[]): Promise<string[]> {
  const end = args.findIndex((word) => word.startsWith("-"));
  const words = end < 0 ? args : args.slice(0, end);
  const flags = args.filter((word) => word.startsWith("-"));
  const cli = await createCli();
  try {
    const { out } = await cli.rouse([...words, "--help"]);
    if (!out.includes(`Usage: rouse ${words.join(" ")}`)) return [words.join(" ")];
    return flags.filter((flag) => !new RegExp(`(?:^|[\\s,])${flag}(?:[\\s,]|$)`, "m").test(out));
  } finally {
    await cli.close();
  }
}

/** Environment variables named ROUSE_… that neither the program nor a given config reads. */
export function unreadVariables(names: readonly string[], config: string): string[] {
  const source = execFileSync("grep", ["-rhoE", "ROUSE_[A-Z_]+", join(ROOT, "src")], {
    encoding: "utf8",
  });
  const known = new Set([
    ...source.split("\n"),
    ...[...config.matchAll(/\$\{([A-Z_]+)\}/g)].map(([, name]) => name ?? ""),
  ]);
  return names.filter((name) => name.startsWith("ROUSE_") && !known.has(name));
}
