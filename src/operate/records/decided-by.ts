import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { readJson5 } from "../../config/json5.ts";
import { parseUsable } from "../../config/load.ts";
import type { Config } from "../../config/schema/index.ts";
import { resolveReferences } from "../../config/secrets.ts";
import type { FileTexts } from "../../core/files.ts";
import type { Snapshot } from "../../intake/types.ts";
import { compileMappings } from "../../mapping/compile.ts";
import { PRESETS_DIR } from "../../mapping/presets.ts";
import type { TransformPool } from "../../mapping/transforms/pool.ts";
import { getSecretPlaces } from "../../mapping/transforms/permissions.ts";
import { createAgents } from "../../turns/channel/rooms.ts";
import type { Agents } from "../../turns/types.ts";
import type { ConfigRecord, EventRecord, Reads } from "../../store/types.ts";
import { getFolders, hashBasis, hashNames, type ConfigContent } from "../shapes/recorded-config.ts";

/** The config that decided an event, and what decides as it did. */
export interface DecidedBy {
  /** Undefined if it was not recorded. */
  record: ConfigRecord | undefined;
  /** The config in use today; undefined if it was not recorded. */
  today: ConfigRecord | undefined;
  /** Since when this gateway has been using it; undefined if the gateway was not started. */
  todaySince: number | undefined;
  /** Whether the event was decided by the config that is in use today. */
  isToday: boolean;
  /** Decides as the config did then, or as today's if `note` says so. */
  snapshot: Snapshot;
  /** In what `snapshot` may decide otherwise than was decided; null if in nothing. */
  note: string | null;
}

interface DecidedByDeps {
  store: Reads;
  snapshot(): Snapshot;
  /** Since when this gateway has been using its config; undefined if it was not started. */
  since(): Promise<number | undefined>;
  /** The config's folder. */
  baseDir(): string;
  env: Record<string, string | undefined>;
  /** Runs modules and expressions of configs that are not in use any more. */
  pool: TransformPool;
}

/** A snapshot that decides as one did before, or why there is none. */
type Rebuilt =
  | { ok: true; snapshot: Snapshot; note: string | null }
  | { ok: false; reason: string };

/** Configs that are kept compiled. */
const MAX_KEPT = 4;

/** What stands in for files: those of the record, and none of the mapping files that are there today. */
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
    return typeof settings === "object" && settings !== null ? { ...preset, settings } : preset;
  });

/** A secret decides nothing: that one is masked, or is not there, is no problem. */
const isAboutSecret = ({ path }: { path: string }): boolean =>
  /(?:^|[.: ])(?:auth|secret|verifyToken)(?:[.[]|$)/.test(path);

/** Says what the record does not hold and is not as it was; null if nothing. */
function findOtherNote(
  content: ConfigContent,
  config: Config,
  { config: today, offers }: Snapshot,
): string | null {
  const notes = [
    ...(hashBasis(config, offers.presets) === content.basis
      ? []
      : [
          "a variable of the environment that it uses, or a preset of a plugin, is not as it was then",
        ]),
    ...(hashNames(today) === content.names
      ? []
      : [
          "channels or models are not those of then, and recipients and models are checked by today's",
        ]),
  ];
  return notes.length === 0 ? null : notes.join("; ");
}

/** Mappings that are compiled beside those in use. */
interface SideMappings {
  config: Config;
  agents: Agents;
  presets: Snapshot["offers"]["presets"];
  texts?: FileTexts;
  /** The hashes of the modules that may be run. */
  modules: Record<string, string>;
}

/** Compiles mappings whose channels and models are today's. Issues about secrets are left out: nothing is verified by them. */
async function compileBeside(
  { config, agents, presets, texts, modules }: SideMappings,
  deps: DecidedByDeps,
) {
  const { hooks } = config;
  const { configFile, offers } = deps.snapshot();
  const { set, issues } = await compileMappings({
    hooks,
    baseDir: deps.baseDir(),
    mappingsDir: hooks.mappingsDir,
    transformsDir: hooks.transformsDir,
    secretPlaces: getSecretPlaces(config, configFile),
    presetsDir: PRESETS_DIR,
    texts,
    pluginPresets: presets,
    pluginTransforms: offers.transforms,
    moduleHashes: new Map(Object.entries(modules)),
    env: deps.env,
    known: {
      agents: new Set(agents.list.map(({ id }) => id)),
      channels: () => true,
      model: () => ({ ok: true }),
      routeProblem: () => undefined,
    },
    pool: deps.pool,
  });
  return { set, issues: issues.filter((issue) => !isAboutSecret(issue)) };
}

async function compileRecorded(content: ConfigContent, deps: DecidedByDeps): Promise<Rebuilt> {
  const today = deps.snapshot();
  const { offers, runtime } = today;
  const { name } = content.config;
  const file = join(
    today.configFile === undefined ? deps.baseDir() : dirname(today.configFile),
    name ?? "config",
  );
  const texts = toTexts(content, file, today.config);
  const config = readConfig(file, texts, deps);
  if (!config) return { ok: false, reason: "this version of the program cannot read it" };
  const agents = createAgents(config, runtime.models.default.ref);
  const presets = withSettings(offers, config);
  const { set, issues } = await compileBeside(
    { config, agents, presets, texts, modules: content.modules },
    deps,
  );
  const [problem] = issues;
  if (problem) return { ok: false, reason: `${problem.path}: ${problem.message}` };
  const snapshot: Snapshot = {
    ...today,
    config,
    configFile: name === null ? undefined : file,
    texts,
    agents,
    mappings: set,
  };
  return { ok: true, snapshot, note: findOtherNote(content, config, today) };
}

/** Keeps the results of the last calls, which may be under way. */
function keepLast<T>(most: number): (key: string, make: () => Promise<T>) => Promise<T> {
  const kept = new Map<string, Promise<T>>();
  return (key, make) => {
    const known = kept.get(key) ?? make();
    kept.delete(key);
    kept.set(key, known);
    for (const oldest of [...kept.keys()].slice(0, -most)) kept.delete(oldest);
    known.catch(() => kept.delete(key));
    return known;
  };
}

/** Finds the config that decided an event, and makes a snapshot that decides as it did. Starts nothing. */
export function createDecidedBy(deps: DecidedByDeps): (event: EventRecord) => Promise<DecidedBy> {
  /** By the snapshot of today, whose channels, models and folders they share. */
  const rebuilt = new WeakMap<Snapshot, ReturnType<typeof keepLast<Rebuilt>>>();
  const rebuild = ({ id, content }: ConfigRecord, today: Snapshot): Promise<Rebuilt> => {
    const kept = rebuilt.get(today) ?? keepLast<Rebuilt>(MAX_KEPT);
    rebuilt.set(today, kept);
    return kept(id, () => compileRecorded(JSON.parse(content) as ConfigContent, deps));
  };
  return async ({ config: id }) => {
    const todaySince = await deps.since();
    const snapshot = deps.snapshot();
    const todayId = snapshot.decidingConfig()?.id;
    const today = todayId === undefined ? undefined : await deps.store.configs.get(todayId);
    const record =
      id === undefined ? undefined : id === todayId ? today : await deps.store.configs.get(id);
    const found = { record, today, todaySince, snapshot };
    if (id !== undefined && id === todayId) return { ...found, isToday: true, note: null };
    const byToday = { ...found, isToday: false };
    if (!record)
      return {
        ...byToday,
        note: "the config that decided was not recorded; it is explained by today's config",
      };
    const made = await rebuild(record, snapshot);
    if (!made.ok)
      return {
        ...byToday,
        note: `config ${record.number} cannot be used (${made.reason}); it is explained by today's config`,
      };
    return { ...found, isToday: false, snapshot: made.snapshot, note: made.note };
  };
}
