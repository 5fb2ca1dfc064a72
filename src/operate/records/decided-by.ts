import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { readJson5 } from "../../config/json5.ts";
import { parseUsable } from "../../config/load.ts";
import type { Config } from "../../config/schema/index.ts";
import { resolveReferences } from "../../config/secrets.ts";
import type { FileTexts } from "../../core/files.ts";
import { isRecord } from "../../core/json.ts";
import type { Snapshot } from "../../intake/types.ts";
import { compileMappings } from "../../mapping/compile.ts";
import { PRESETS_DIR } from "../../mapping/presets.ts";
import type { TransformPool } from "../../mapping/transforms/pool.ts";
import { getSecretPlaces } from "../../mapping/transforms/permissions.ts";
import { createAgents } from "../../turns/agents.ts";
import type { ConfigRecord, EventRecord, Reads } from "../../store/types.ts";
import { getFolders, type ConfigContent } from "../shapes/recorded-config.ts";

/** The config that decided an event, and what decides as it did. */
export type DecidedBy = Awaited<ReturnType<ReturnType<typeof createDecidedBy>>>;

interface DecidedByDeps {
  store: Reads;
  snapshot(): Snapshot;
  configs: { noted(): Promise<void> };
  /** The config's folder. */
  baseDir(): string;
  env: Record<string, string | undefined>;
  /** Runs modules and expressions of configs that are not in use any more. */
  pool: TransformPool;
}

/** A snapshot that decides as one did before, or why there is none. */
type Rebuilt = { ok: true; snapshot: Snapshot } | { ok: false; reason: string };

/** Configs that are kept compiled. */
const MAX_KEPT = 4;

/** Builds the texts that stand in for files: those of the record, and none of the mapping files that are there today. */
function toTexts(
  { config: { text }, files }: ConfigContent,
  file: string,
  config: Config,
): Map<string, string | null> {
  const folders = getFolders(config);
  const texts = new Map<string, string | null>();
  for (const fileName of listFiles(folders.mappings))
    texts.set(join(folders.mappings, fileName), null);
  for (const [path, content] of Object.entries(files)) {
    const [folder = "", ...rest] = path.split("/");
    texts.set(join(folders[folder as keyof typeof folders], ...rest), content);
  }
  return texts.set(file, text);
}

function listFiles(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => /\.json5?$/.test(name));
  } catch {
    return [];
  }
}

/** Reads the config of a record. What it does not hold is as it is today: it decides nothing, or is of the machine. */
function readConfig(
  file: string,
  texts: FileTexts,
  { snapshot, env, baseDir }: DecidedByDeps,
): Config | undefined {
  const written = readJson5(file, texts);
  if (!written.ok) return undefined;
  const resolved = resolveReferences(written.value, { env, baseDir: baseDir() });
  const { config } = parseUsable(resolved.value, resolved.variables);
  if (!config) return undefined;
  const { config: today } = snapshot();
  const { enabled, mappingsDir, transformsDir, transformPermissions, callbackHosts } = today.hooks;
  const { list, defaults } = config.agents;
  return {
    ...today,
    hooks: {
      ...config.hooks,
      enabled,
      mappingsDir,
      transformsDir,
      transformPermissions,
      callbackHosts,
    },
    agents: {
      ...today.agents,
      list,
      defaults: { ...today.agents.defaults, maxTimeoutSeconds: defaults.maxTimeoutSeconds },
    },
  };
}

/** The presets of plugins with the settings that the record has for them. */
const withSettings = (
  { presets }: Snapshot["offers"],
  { hooks }: Config,
): Snapshot["offers"]["presets"] =>
  presets.map((preset) => {
    const settings = (hooks as Record<string, unknown>)[preset.plugin];
    return isRecord(settings) ? { ...preset, settings } : preset;
  });

/** A secret decides nothing: that one is masked, or is not there, is no problem. */
const isAboutSecret = ({ path }: { path: string }): boolean =>
  /(?:^|[.: ])(?:auth|secret|verifyToken)(?:[.[]|$)/.test(path);

/**
 * Compiles the mappings of a record beside those in use. Channels and models are today's, and issues about secrets are left out:
 * nothing is verified by them.
 */
async function compileRecorded(content: ConfigContent, deps: DecidedByDeps): Promise<Rebuilt> {
  const { baseDir, env, pool } = deps;
  const today = deps.snapshot();
  const { name } = content.config;
  const folder = today.configFile === undefined ? baseDir() : dirname(today.configFile);
  const file = join(folder, name ?? "config");
  const texts = toTexts(content, file, today.config);
  const config = readConfig(file, texts, deps);
  if (!config) return { ok: false, reason: "this version of the program cannot read it" };
  const { hooks } = config;
  const agents = createAgents(config, today.models);
  const { set, issues } = await compileMappings({
    hooks,
    baseDir: baseDir(),
    mappingsDir: hooks.mappingsDir,
    transformsDir: hooks.transformsDir,
    secretPlaces: getSecretPlaces(config, today.configFile),
    presetsDir: PRESETS_DIR,
    texts,
    pluginPresets: withSettings(today.offers, config),
    pluginTransforms: today.offers.transforms,
    moduleHashes: new Map(Object.entries(content.modules)),
    env,
    known: {
      agents: new Set(agents.list.map(({ id }) => id)),
      channels: () => true,
      model: () => ({ ok: true }),
      routeProblem: () => undefined,
    },
    pool,
  });
  const problem = issues.find((issue) => !isAboutSecret(issue));
  if (problem) return { ok: false, reason: `${problem.path}: ${problem.message}` };
  const configFile = name === null ? undefined : file;
  const snapshot = { ...today, config, configFile, texts, agents, mappings: set };
  return { ok: true, snapshot };
}

/** Finds the config that decided an event, and makes a snapshot that decides as it did. Starts nothing. */
export function createDecidedBy(deps: DecidedByDeps) {
  /** The last ones, by the snapshot of today, whose channels, models and folders they share. */
  const rebuilt = new WeakMap<Snapshot, Map<string, Promise<Rebuilt>>>();
  const rebuild = ({ id, content }: ConfigRecord, today: Snapshot): Promise<Rebuilt> => {
    const kept = rebuilt.get(today) ?? new Map<string, Promise<Rebuilt>>();
    rebuilt.set(today, kept);
    const made = kept.get(id) ?? compileRecorded(JSON.parse(content) as ConfigContent, deps);
    kept.delete(id);
    kept.set(id, made);
    for (const oldest of [...kept.keys()].slice(0, -MAX_KEPT)) kept.delete(oldest);
    made.catch(() => kept.delete(id));
    return made;
  };
  return async ({ config: id }: EventRecord) => {
    // Directly after a reload, today's config has its number only then.
    await deps.configs.noted();
    const snapshot = deps.snapshot();
    const todayId = snapshot.decidingConfig?.id;
    const today = todayId === undefined ? undefined : await deps.store.configs.get(todayId);
    const record =
      id === undefined ? undefined : id === todayId ? today : await deps.store.configs.get(id);
    const explain = (note: string | null, by = snapshot) => ({
      /** Undefined if it was not recorded. */
      record,
      /** The config in use today; undefined if it was not recorded. */
      today,
      isToday: id !== undefined && id === todayId,
      /** Decides as the config did then, or as today's if `note` says so. */
      snapshot: by,
      /** The reason that `snapshot` is today's, and not the one that decided; null if it is the one. */
      note,
    });
    if (id !== undefined && id === todayId) return explain(null);
    const instead = "it is explained by today's config";
    if (!record) return explain(`the config that decided was not recorded; ${instead}`);
    const made = await rebuild(record, snapshot);
    if (made.ok) return explain(null, made.snapshot);
    return explain(`config ${record.number} cannot be used (${made.reason}); ${instead}`);
  };
}
