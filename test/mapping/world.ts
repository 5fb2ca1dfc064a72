import { mkdtempSync, mkdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll } from "vitest";
import gmail from "../../plugins/gmail/index.ts";
import { configSchema } from "../../src/config/schema/index.ts";
import { findRouteProblem, type Channels } from "../../src/delivery/channels.ts";
import { compileMappings } from "../../src/mapping/compile.ts";
import { listJson } from "../../src/core/files.ts";
import { createTransformPool, type TransformPool } from "../../src/mapping/transforms/pool.ts";
import { createPermissions } from "../../src/mapping/transforms/permissions.ts";
import type { MappingInput } from "../../src/mapping/types.ts";

export const PRESETS = resolve(import.meta.dirname, "../../mappings");
export const SCHEMES = { dir: join(PRESETS, "schemes") };
/** The names of the presets in the folder; plugins bring others. */
export const presetNames = listJson(PRESETS);

/** Presets whose requests carry the hook token, on purpose. */
export const byHookToken = (names: readonly string[]): { use: string; auth: "token" }[] =>
  names.map((use) => ({ use, auth: "token" }));

/** The rights of modules in a folder if the config grants nothing, and the time limit for loading them. */
export const confinedTo = (folder: string) => ({
  permissions: createPermissions(folder, configSchema.parse({}).hooks.transformPermissions),
  loadMs: 10_000,
});

const folders: string[] = [];
afterAll(() => {
  for (const dir of folders) rmSync(dir, { recursive: true, force: true });
});

/** Compiles hooks as a config would have them, in a folder of their own with the given files. */
export async function compile(
  hooks: object,
  files: Record<string, string> = {},
  pool?: TransformPool,
  channels?: Channels,
) {
  const dir = mkdtempSync(join(tmpdir(), "rouse-mapping-"));
  folders.push(dir);
  for (const folder of ["mappings", "transforms"]) mkdirSync(join(dir, folder));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), text);
  }
  const config = configSchema.parse({ hooks: { ...hooks } });
  const compiled = await compileMappings({
    hooks: config.hooks,
    baseDir: dir,
    mappingsDir: join(dir, "mappings"),
    transformsDir: join(dir, "transforms"),
    secretPlaces: [{ what: "the state folder", path: join(dir, ".rouse") }],
    presetsDir: PRESETS,
    pluginPresets:
      gmail.presets?.map((document) => ({ plugin: gmail.id, origin: "rouse", document })) ?? [],
    env: {},
    known: {
      agents: new Set(["main"]),
      channels: (name) =>
        ["last", "console"].includes(name) || channels?.resolve(name) !== undefined,
      routeProblem(target) {
        const owned = channels?.loaded.filter(({ channel }) =>
          channel.allowFrom?.includes("owner"),
        );
        return channels && findRouteProblem(target, channels, new Set(owned?.map(({ id }) => id)));
      },
      model: (name) => (name.includes("/") ? { ok: true } : { ok: false, message: "is no model" }),
    },
    pool: pool ?? createTransformPool(process.env),
  });
  return { ...compiled, dir };
}

export const input = (
  path: string,
  payload: unknown,
  more: Partial<MappingInput> = {},
): MappingInput => ({
  path,
  method: "POST",
  byHookToken: true,
  payload,
  headers: {},
  query: {},
  now: 1_700_000_000_000,
  ...more,
});

/** Compiles a mapping for each module, as `compile` does. `run` gives the message of the action, or what failed. */
export async function compileModules(
  modules: readonly string[],
  files: Record<string, string>,
  pool: TransformPool,
  hooks: object = {},
) {
  const mappings = modules.map((module) => ({
    id: module,
    match: { path: module },
    transform: { module },
  }));
  const { set, issues, warnings, dir } = await compile({ mappings, ...hooks }, files, pool);
  const run = async (module: string, payload: object = {}): Promise<string> => {
    const outcome = await set.run(input(module, payload));
    if (outcome.kind === "failed") return `failed: ${outcome.failure.message}`;
    if (outcome.kind !== "actions") return outcome.kind;
    const [first] = outcome.results;
    return first?.ok ? first.draft.content.map(({ text }) => text).join("") : "no draft";
  };
  return { run, issues, warnings, dir: realpathSync(dir) };
}
