import { dirname, resolve } from "node:path";
import { readJson5 } from "../config/json5.ts";
import { findConfig, loadConfig, type LoadedConfig, type LoadResult } from "../config/load.ts";
import { RouseError, type Issue } from "../core/errors.ts";
import { storeUrl } from "../store/open.ts";
import { SYSTEM, type CliIo } from "./io.ts";
import type { CommonOptions } from "./options.ts";

export type Settings = Extract<LoadResult, { ok: true }>;

/** Options for loading the config. */
export const toLoadOptions = (options: CommonOptions, io: CliIo) => ({
  cwd: io.cwd,
  env: io.env,
  ...(options.config === undefined ? {} : { file: options.config }),
});

/** Options for loading the config with its mappings and plugins. */
export const toSnapshotOptions = (
  { config }: { config?: string | undefined },
  { cwd, env }: CliIo,
) => ({
  ...SYSTEM,
  cwd,
  env,
  ...(config !== undefined && { configFile: config }),
});

/**
 * The config that a command works with.
 * @throws RouseError `config_invalid` with the problems that mappings and plugins have no part in.
 */
export async function loadSettings(options: CommonOptions, io: CliIo): Promise<Settings> {
  const loaded = await loadConfig(toLoadOptions(options, io));
  if (loaded.ok) return loaded;
  throw configInvalid(loaded, "the config", "; `rouse config validate` lists all");
}

/** The config that a command works with, as far as it can be read without its secrets. Undefined if nothing of it can. */
export async function findUsable(
  options: CommonOptions,
  io: CliIo,
): Promise<LoadedConfig | undefined> {
  const loaded = await loadConfig({ ...toLoadOptions(options, io), withoutSecrets: true });
  return loaded.ok ? loaded : loaded.rest;
}

/**
 * The same for a command that cannot do without.
 * @throws RouseError `config_invalid` if nothing of it can be read.
 */
export const loadWithoutSecrets = async (
  options: CommonOptions,
  io: CliIo,
): Promise<LoadedConfig> => (await findUsable(options, io)) ?? loadSettings(options, io);

/** The error for a config that has problems. */
export function configInvalid(
  { file, issues }: { file?: string; issues: Issue[] },
  title = "the config",
  hint = "",
): RouseError {
  return new RouseError({
    code: "config_invalid",
    message: `${title} has problems${file === undefined ? "" : ` (${file})`}${hint}:`,
    issues,
  });
}

/** The config file as it is written, for the paths and addresses in it. Undefined if there is none or it cannot be read. */
export function readWritten(
  options: CommonOptions,
  io: CliIo,
): Record<string, unknown> | undefined {
  const file = findConfig(toLoadOptions(options, io));
  const parsed = file === undefined ? undefined : readJson5(file);
  return parsed?.ok && typeof parsed.value === "object"
    ? ((parsed.value ?? undefined) as Record<string, unknown> | undefined)
    : undefined;
}

/** The path of a hook as mappings name it, also of one that is written as the log and `rouse hooks` show it: below `hooks.path`. */
export async function toHookPath(
  written: string,
  options: CommonOptions,
  io: CliIo,
): Promise<string> {
  if (!written.startsWith("/")) return written;
  const base = (await findUsable(options, io))?.config.hooks.path ?? "/hooks";
  return written.startsWith(`${base}/`) ? written.slice(base.length + 1) : written;
}

/**
 * Finds the store and the state folder. No secret is needed but that of the store's address: other secrets may be in files that the
 * service alone can read.
 * @throws RouseError `config_invalid` with all its problems.
 */
export async function findStore(
  options: CommonOptions,
  io: CliIo,
): Promise<{ url: string; stateDir: string }> {
  const loaded = await loadConfig({ ...toLoadOptions(options, io), withoutSecrets: true });
  const isWhole =
    loaded.ok &&
    (loaded.config.store.url !== undefined ||
      member(member(loaded.written, "store"), "url") === undefined);
  const { config, stateDir } = isWhole ? loaded : await loadSettings(options, io);
  return { url: storeUrl(config.store.url, stateDir), stateDir };
}

/** The member of an object of unknown shape. */
export function member(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null
    ? (value as Record<string, unknown>)[name]
    : undefined;
}

/** Finds the state folder without the config's secrets, and of a config that is broken just now. Undefined without a config that can be read. */
export async function findStateDir(options: CommonOptions, io: CliIo): Promise<string | undefined> {
  const usable = await findUsable(options, io);
  if (usable) return usable.stateDir;
  const file = findConfig(toLoadOptions(options, io));
  if (file === undefined) return undefined;
  // One that cannot even be read may be half written; most state folders are where they are by default.
  const stateDir = member(readWritten(options, io), "stateDir");
  return resolve(
    dirname(file),
    io.env["ROUSE_STATE_DIR"] || (typeof stateDir === "string" ? stateDir : ".rouse"),
  );
}
