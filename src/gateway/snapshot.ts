import { createHash } from "node:crypto";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { findUnpricedModels } from "../agent/usage.ts";
import { createBudgets } from "../queue/admission.ts";
import { createAgents, createRooms } from "../turns/channel/rooms.ts";
import { mergeProviders } from "../agent/models.ts";
import { createAgentRuntime, type RuntimeOptions } from "../agent/runtime.ts";
import { createToolCheck } from "../agent/tools/tool-checks.ts";
import { checkApprovals, findToolProblems } from "../people/policy.ts";
import { tokenInShell } from "../config/hook-token.ts";
import { loadConfig, type LoadedConfig, type LoadResult } from "../config/load.ts";
import { readProviders } from "../config/providers.ts";
import { locateIssues } from "../config/places.ts";
import type { Config } from "../config/schema/index.ts";
import { getFileTime, type Places } from "../config/watch.ts";
import type { Clock } from "../core/clock.ts";
import { RouseError, type Issue } from "../core/errors.ts";
import { getSubfolders, isPresent, readText, type FileTexts } from "../core/files.ts";
import { searchModelIssues } from "../knowledge/models/configured.ts";
import { createLogger, type Logger } from "../core/log.ts";
import { findRouteProblem } from "../delivery/channels.ts";
import { createAddressList } from "../core/http/address.ts";
import type { Snapshot } from "../intake/types.ts";
import { compileMappings } from "../mapping/compile.ts";
import { createTransformPool, type TransformPool } from "../mapping/transforms/pool.ts";
import { getSecretPlaces } from "../mapping/transforms/permissions.ts";
import { PRESETS_DIR, SCHEMES_DIR } from "../mapping/presets.ts";
import type { SharedValues } from "../contract/channel.ts";
import type { Plugin } from "../contract/define.ts";
import { readCatalog } from "../plugin/locations.ts";
import { loadPlugins } from "../plugin/host.ts";
import { findStoreDriver, storeUrl } from "../store/open.ts";
import { findScheduleChannelIssues, getWarnings } from "./snapshot-checks.ts";
import { lintMappings } from "../operate/shapes/lint.ts";
import { createDecidingConfig } from "../operate/shapes/recorded-config.ts";
import { createVerifiers } from "../intake/signatures/verifiers.ts";
import { telemetryIssues } from "../telemetry/open.ts";

/** Two folders up: the clone, or the folder `dist` of the built package. */
const HERE = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
/** The folder of the clone or of the installed package. */
export const PACKAGE_ROOT = import.meta.url.endsWith(".js") ? join(HERE, "..") : HERE;
/** Rouse's own plugins. */
export const BUILTIN_PLUGINS = join(HERE, "plugins");

export interface SnapshotOptions extends Pick<RuntimeOptions, "traces"> {
  /** Path of the config file; undefined looks in the usual places (see `config/load.ts`). */
  configFile?: string;
  /** The config itself, in place of a file. Each snapshot reads it again. */
  config?: object;
  /** The state folder; goes before the environment and the config. */
  stateDir?: string;
  /** Plugins that are there without a file. They are in use unless their section says `enabled: false`. */
  plugins?: readonly Plugin[];
  cwd: string;
  env: Record<string, string | undefined>;
  clock: Clock;
  fetch: typeof fetch;
  log: Logger;
  pool: TransformPool;
  /** Writes to the terminal of the gateway; absent if it has none. */
  print?(text: string): void;
  port?: number;
  host?: string;
  /** Take a config whose `${NAME}` or `{ file }` cannot be put in. Nothing can be sent or verified with it. */
  withoutSecrets?: boolean;
  /** Texts in place of the config file and of mapping files, by their absolute paths: what a changed config would do. */
  texts?: FileTexts;
  /** Values of plugins that all gateways on one database see; undefined if there is one gateway. */
  sharedValues?: () => SharedValues | undefined;
}

export interface LoadedSnapshot {
  snapshot: Snapshot;
  stateDir: string;
  baseDir: string;
  /** Folders and files whose change means a new snapshot: all that was read of the user's. */
  watched: Places;
  /** When the first of them was read, by `getFileTime`. */
  readSince: number;
  /** Ends what belongs to the snapshot alone. It is called long after the last use, so that it holds nothing else of the snapshot. */
  dispose(): Promise<void>;
}

export type BuildResult =
  | { ok: true; loaded: LoadedSnapshot }
  /** `watched`: where a change may mend it, as far as the config could be read. */
  | { ok: false; issues: Issue[]; file?: string; watched?: LoadedSnapshot["watched"] };

function readConfig({
  configFile: file,
  withoutSecrets = false,
  ...options
}: SnapshotOptions): Promise<LoadResult> {
  const { cwd, env, config, stateDir, texts } = options;
  const named = {
    ...(texts && { texts }),
    ...(file !== undefined && { file }),
    ...(config && { config }),
    ...(stateDir !== undefined && { stateDir }),
  };
  return loadConfig({ cwd, env, withoutSecrets, ...named });
}

/** The problems that the parts of a snapshot found, with their places, but for those that only follow from the config's own. */
function getProblems(
  issues: readonly Issue[],
  { file, config, isFollowUp }: LoadedConfig,
  texts: FileTexts | undefined,
): Issue[] {
  const own = issues.filter((issue) => !isFollowUp(issue));
  return locateIssues(own, { file, mappingsDir: config.hooks.mappingsDir, texts });
}

/** Loads what the config names: plugins, models, agents and rooms. `signal` aborts when the snapshot is disposed of. */
async function loadParts(
  { config, variables, baseDir, stateDir }: LoadedConfig,
  options: SnapshotOptions,
  signal: AbortSignal,
) {
  const { env, clock, fetch, log, print, traces } = options;
  const plugins = await loadPlugins({
    config,
    variables,
    baseDir,
    builtinDir: BUILTIN_PLUGINS,
    inline: options.plugins ?? [],
    stateDir,
    ...(options.sharedValues && { sharedValues: options.sharedValues }),
    env,
    fetch,
    clock,
    log,
    ...(print ? { print } : {}),
    signal,
  });
  const kinds = mergeProviders(readProviders(BUILTIN_PLUGINS), plugins.offers.providers);
  const { runtime, issues } = createAgentRuntime({
    config,
    baseDir,
    env,
    clock,
    fetch,
    log,
    plugins,
    kinds,
    traces,
  });
  const agents = createAgents(config, runtime.models.default.ref);
  const { rooms, ...found } = createRooms(config, agents, plugins.channels);
  const checkTool = createToolCheck(config, plugins.offers.tools, plugins.incomplete);
  const { approvers, ...asked } = checkApprovals(config, plugins.channels, checkTool);
  const warnings = [...found.warnings, ...asked.warnings];
  return {
    plugins,
    runtime,
    agents,
    rooms,
    checkTool,
    approvers,
    issues: [
      ...plugins.issues,
      ...telemetryIssues(config),
      ...issues,
      ...searchModelIssues(config, kinds),
      ...found.issues,
      ...asked.issues,
      ...findScheduleChannelIssues(config, plugins),
    ],
    warnings,
  };
}

type SnapshotParts = Awaited<ReturnType<typeof loadParts>>;

/** Compiles the mappings, and what verifies the signatures of their hooks. */
async function compileHooks(
  loaded: LoadedConfig,
  { plugins, runtime, agents, rooms, checkTool }: SnapshotParts,
  options: SnapshotOptions,
) {
  const { config, baseDir } = loaded;
  const { env, fetch, pool } = options;
  const { wrong } = createAddressList(config.gateway.trustedProxies);
  const issues = wrong.map((entry) => ({
    path: "gateway.trustedProxies",
    message: `"${entry.slice(0, 60)}" is no address or CIDR range`,
  }));
  const mappings = await compileMappings({
    hooks: config.hooks,
    baseDir,
    mappingsDir: config.hooks.mappingsDir,
    transformsDir: config.hooks.transformsDir,
    secretPlaces: getSecretPlaces(config, loaded.file),
    presetsDir: PRESETS_DIR,
    texts: options.texts,
    pluginPresets: plugins.offers.presets,
    pluginTransforms: plugins.offers.transforms,
    pluginsMissing: plugins.incomplete,
    shippedPresets: readCatalog(BUILTIN_PLUGINS).flatMap(({ presets = [] }) => presets),
    env,
    withoutSecrets: options.withoutSecrets ?? false,
    known: {
      agents: new Set(agents.list.map((agent) => agent.id)),
      channels: (name: string) => name === "last" || plugins.channels.resolve(name) !== undefined,
      model: (name: string) => runtime.models.resolveRequested(name),
      routeProblem: (target) => findRouteProblem(target, plugins.channels, rooms.hasOwner),
      toolProblems: (field, patterns) => findToolProblems(field, patterns, checkTool),
    },
    pool,
  });
  const signed = mappings.set.paths.flatMap(({ path, auth, authAt, methods }) =>
    auth && "scheme" in auth ? [{ path, auth, at: authAt ?? path, methods }] : [],
  );
  const signatures = createVerifiers(
    signed,
    { dir: SCHEMES_DIR, plugins: plugins.offers.schemes },
    config.gateway.publicUrl,
    fetch,
  );
  return { mappings, signatures, issues: [...issues, ...mappings.issues, ...signatures.issues] };
}

/** Finds the driver of the store. If there is none, `issues` says why. */
async function findDriver({ config, stateDir }: LoadedConfig, { plugins }: SnapshotParts) {
  try {
    const drivers = plugins.offers.stores.map(({ value }) => value);
    return {
      driver: await findStoreDriver(storeUrl(config.store.url, stateDir), drivers),
      issues: [],
    };
  } catch (error) {
    if (!(error instanceof RouseError)) throw error;
    return { driver: undefined, issues: error.issues ?? [] };
  }
}

/** The config without the settings of a machine, which may differ between gateways that do the same. */
function withoutMachineSettings({
  stateDir: _stateDir,
  log: _log,
  gateway,
  store,
  hooks,
  ...rest
}: Config): object {
  const { host: _host, port: _port, adminPort: _adminPort, ...shared } = gateway;
  const { url: _url, ...kept } = store;
  const {
    mappingsDir: _mappingsDir,
    transformsDir: _transformsDir,
    testsDir: _testsDir,
    transformPermissions: _permissions,
    ...rules
  } = hooks;
  return { ...rest, gateway: shared, store: kept, hooks: rules };
}

/** A hash that is the same on each machine that has the same settings, mapping files and modules, wherever it has them. */
function hashForCluster(config: Config, files: readonly string[], texts?: FileTexts): string {
  const hash = createHash("sha256").update(JSON.stringify(withoutMachineSettings(config)));
  const contents = files
    .filter((file) => isPresent(file, texts))
    .map((file) => [basename(file), readText(file, texts)] as const);
  const digests = contents.map(
    ([name, content]) => `${name} ${createHash("sha256").update(content).digest("hex")}`,
  );
  for (const line of digests.toSorted()) hash.update(`\n${line}`);
  return hash.digest("hex");
}

/** Changes whenever the config or one of these files does. */
function hashFiles(configHash: string, files: readonly string[], texts?: FileTexts): string {
  const hash = createHash("sha256").update(configHash);
  for (const file of [...files].toSorted())
    if (isPresent(file, texts)) hash.update(file).update(readText(file, texts));
  return hash.digest("hex");
}

function freezeSnapshot(
  loaded: LoadedConfig,
  { plugins, runtime, agents, rooms, approvers, ...parts }: SnapshotParts,
  { mappings, signatures }: Awaited<ReturnType<typeof compileHooks>>,
  files: readonly string[],
  texts: FileTexts | undefined,
): Snapshot {
  const { config } = loaded;
  const { channels, offers } = plugins;
  const budgets = createBudgets(config.hooks.limits, mappings.set);
  return Object.freeze({
    hash: hashFiles(loaded.hash, files, texts),
    clusterHash: hashForCluster(config, files.slice(loaded.files.length), texts),
    config,
    configFile: loaded.file,
    hookTokenInShell: tokenInShell(loaded),
    texts,
    decidingConfig: createDecidingConfig({
      written: loaded.written,
      config,
      configFile: loaded.file,
      mappings: mappings.set,
      offers,
      texts,
    }),
    agents,
    models: runtime.models,
    runtime,
    channels,
    rooms,
    approvers,
    mappings: mappings.set,
    budgets,
    getCallback: (mapping: string | undefined) =>
      mapping === undefined ? undefined : mappings.set.settings(mapping)?.callback,
    getToolRules: (mapping: string | undefined) =>
      mapping === undefined ? {} : (mappings.set.settings(mapping) ?? {}),
    verifiers: signatures.verifiers,
    plugins: plugins.plugins,
    offers,
    warnings: [
      ...loaded.warnings,
      ...mappings.warnings,
      ...lintMappings(mappings.set.configs, {
        verifiers: signatures.verifiers,
        hooksTools: config.hooks.tools,
      }),
      ...plugins.warnings,
      ...parts.warnings,
      ...getWarnings({ config, written: loaded.written, mappings: mappings.set, channels, rooms }),
    ],
  });
}

/** Builds a snapshot from the files on disk: checks everything, reports all problems together and starts nothing. */
export async function buildSnapshot(options: SnapshotOptions): Promise<BuildResult> {
  const readSince = getFileTime();
  const read = await readConfig(options);
  const loaded = read.ok ? read : read.rest;
  const first = read.ok ? [] : read.issues;
  const named = read.file === undefined ? {} : { file: read.file };
  if (!loaded) return { ok: false, issues: first, ...named };
  const { config, baseDir, stateDir } = loaded;
  if (options.port !== undefined) config.gateway.port = options.port;
  if (options.host !== undefined) config.gateway.host = options.host;
  const ended = new AbortController();
  const parts = await loadParts(loaded, options, ended.signal);
  const { close } = parts.runtime;
  const dispose = async (): Promise<void> => {
    ended.abort();
    await close();
  };
  const compiled = await compileHooks(loaded, parts, options);
  const store = await findDriver(loaded, parts);
  const budgets = createBudgets(config.hooks.limits, compiled.mappings.set);
  const unpriced = budgets.all.some(({ limits }) => limits.budget)
    ? findUnpricedModels(parts.agents.list, parts.runtime.models)
    : [];
  const problems = [
    ...first,
    ...getProblems(
      [...parts.issues, ...compiled.issues, ...store.issues, ...unpriced],
      loaded,
      options.texts,
    ),
  ];
  const files = [
    ...loaded.files,
    ...compiled.mappings.set.files,
    ...compiled.signatures.files,
    ...parts.plugins.files,
  ];
  const { mappingsDir, transformsDir } = config.hooks;
  const pluginsDir = join(baseDir, "plugins");
  const watched = {
    dirs: [mappingsDir, transformsDir, pluginsDir, ...getSubfolders(pluginsDir)],
    files,
  };
  if (problems.length > 0) {
    await dispose();
    return { ok: false, issues: problems, ...named, watched };
  }
  const snapshot = freezeSnapshot(loaded, parts, compiled, files, options.texts);
  return { ok: true, loaded: { snapshot, stateDir, baseDir, watched, readSince, dispose } };
}

export type SnapshotCheck =
  | { ok: true; file?: string; mappings: number; warnings: readonly Issue[] }
  | { ok: false; file?: string; issues: Issue[] };

type FileOptions = Pick<
  SnapshotOptions,
  "configFile" | "cwd" | "env" | "clock" | "fetch" | "withoutSecrets" | "texts"
>;

/** Builds a snapshot for one use, and takes it away afterwards. Starts nothing, opens no store and writes no file. */
export async function withSnapshot<T>(
  options: FileOptions,
  use: (result: BuildResult) => T | Promise<T>,
): Promise<T> {
  const log = createLogger("silent");
  const pool = createTransformPool({ log, env: options.env });
  const result = await buildSnapshot({ ...options, log, pool, print: () => undefined });
  try {
    return await use(result);
  } finally {
    await pool.close();
    if (result.ok) await result.loaded.dispose();
  }
}

/** Checks what a gateway would start with. */
export function checkSnapshot(options: FileOptions): Promise<SnapshotCheck> {
  return withSnapshot<SnapshotCheck>(options, (result) => {
    if (!result.ok) return result;
    const { config, configFile: file, mappings, warnings } = result.loaded.snapshot;
    return {
      ok: true,
      mappings: mappings.mappings.length,
      warnings: locateIssues(warnings, {
        file,
        mappingsDir: config.hooks.mappingsDir,
        texts: options.texts,
      }),
      ...(file === undefined ? {} : { file }),
    };
  });
}
