import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { COUNTED_LIMITS, limitsPath } from "../actions/limit-text.ts";
import { createBudgets } from "../actions/limits.ts";
import { createAgents } from "../actions/agents.ts";
import { createRooms } from "../actions/rooms.ts";
import { createAgentRuntime } from "../agent/runtime.ts";
import { loadConfig, type LoadedConfig, type LoadResult } from "../config/load.ts";
import { locateIssues } from "../config/places.ts";
import type { Config } from "../config/schema/index.ts";
import type { Clock } from "../core/clock.ts";
import type { Issue } from "../core/errors.ts";
import { createLogger, type Logger } from "../core/log.ts";
import { LAST } from "../delivery/channels.ts";
import { findRouteProblem } from "../delivery/last-route.ts";
import { createAddressList, isLoopback } from "../core/address.ts";
import type { Snapshot } from "../intake/types.ts";
import { compileMappings } from "../mapping/compile.ts";
import { createTransformPool, type TransformPool } from "../mapping/pool.ts";
import { PRESETS_DIR } from "../mapping/presets.ts";
import type { CommonValues, Plugin, Service } from "../plugin/api.ts";
import { loadPlugins } from "../plugin/host.ts";
import { createVerifiers } from "../signatures/verifiers.ts";

/** Two folders up: the clone, or the folder `dist` of the built package. */
const HERE = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
/** The folder of the clone or of the installed package. */
export const PACKAGE_ROOT = import.meta.url.endsWith(".js") ? join(HERE, "..") : HERE;
/** Rouse's own plugins. */
export const BUILTIN_PLUGINS = join(HERE, "plugins");

export interface SnapshotOptions {
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
  /** Values of plugins that all gateways of one database have; undefined where there is but one. */
  common?: () => CommonValues | undefined;
}

export interface LoadedSnapshot {
  snapshot: Snapshot;
  stateDir: string;
  baseDir: string;
  services: readonly { id: string; service: Service }[];
  /** Folders and files whose change means a new snapshot. */
  watched: { dirs: string[]; files: string[] };
  /** Ends what belongs to the snapshot alone. */
  dispose(): Promise<void>;
}

export type BuildResult = { ok: true; loaded: LoadedSnapshot } | { ok: false; issues: Issue[]; file?: string };

type WarnedParts = Pick<Snapshot, "config" | "budgets" | "mappings" | "channels" | "rooms">;

function warningsOf({ config, budgets, mappings, channels, rooms }: WarnedParts): Issue[] {
  const warnings: Issue[] = [];
  const { channel, to } = config.agents.defaults.heartbeat;
  const heartbeat =
    channel === LAST && to === undefined
      ? undefined
      : findRouteProblem({ channel, ...(to !== undefined && { to }) }, channels, rooms.hasOwner);
  if (heartbeat) warnings.push({ path: `agents.defaults.heartbeat.${heartbeat.field}`, message: heartbeat.message });
  const [limited] = budgets.all;
  if (limited && /^postgres(?:ql)?:/.test(config.store.url ?? ""))
    warnings.push({ path: limitsPath(limited.scope, mappings.mappings), message: COUNTED_LIMITS });
  if (!isLoopback(config.gateway.host) && config.gateway.trustedProxies.length === 0) {
    warnings.push({
      path: "gateway.host",
      message: "the gateway listens beyond this machine without TLS; put a proxy before it and name that in gateway.trustedProxies",
    });
  }
  if (config.hooks.enabled === false) warnings.push({ path: "hooks.enabled", message: "hooks are off: every hook is answered 404" });
  return warnings;
}

/** A signature of the body alone leaves the headers to whoever sends the same body again. */
function unsignedHeaders(mappings: Snapshot["mappings"], verifiers: Snapshot["verifiers"]): Issue[] {
  return mappings.mappings.flatMap(({ at, paths, headers }) => {
    const signing = paths.flatMap((path) => verifiers.get(path) ?? []).filter((verifier) => !verifier.coversNothing);
    const open = headers.filter((name) => name !== "content-type" && signing.some((verifier) => !verifier.coveredHeaders.includes(name)));
    return open.map((name) => ({
      path: at,
      message: `reads the header "${name}", which the signature of its path does not cover: decide by a field of the body`,
    }));
  });
}

/** What belongs to a machine, and may differ between gateways that do the same. */
function withoutMachineSettings({ stateDir: _stateDir, log: _log, gateway, store, hooks, ...rest }: Config): object {
  const { host: _host, port: _port, adminPort: _adminPort, ...shared } = gateway;
  const { url: _url, ...kept } = store;
  const { mappingsDir: _mappingsDir, transformsDir: _transformsDir, transformPermissions: _permissions, ...rules } = hooks;
  return { ...rest, gateway: shared, store: kept, hooks: rules };
}

/** The same on each machine that has the same settings, mapping files and modules, wherever it has them. */
function clusterHashOf(config: Config, files: readonly string[]): string {
  const hash = createHash("sha256").update(JSON.stringify(withoutMachineSettings(config)));
  const contents = files.filter((file) => existsSync(file)).map((file) => [basename(file), readFileSync(file)] as const);
  const digests = contents.map(([name, content]) => `${name} ${createHash("sha256").update(content).digest("hex")}`);
  for (const line of digests.toSorted()) hash.update(`\n${line}`);
  return hash.digest("hex");
}

function hashOf(configHash: string, files: readonly string[]): string {
  const hash = createHash("sha256").update(configHash);
  for (const file of [...files].toSorted()) if (existsSync(file)) hash.update(file).update(readFileSync(file));
  return hash.digest("hex");
}

function readConfig({ configFile: file, withoutSecrets = false, ...options }: SnapshotOptions): Promise<LoadResult> {
  const { cwd, env, config, stateDir } = options;
  const named = { ...(file !== undefined && { file }), ...(config && { config }), ...(stateDir !== undefined && { stateDir }) };
  return loadConfig({ cwd, env, withoutSecrets, ...named });
}

/** The problems that the parts of a snapshot found, with their places, but for those that only follow from the config's own. */
function getProblems(issues: readonly Issue[], { file, config, isFollowUp }: LoadedConfig): Issue[] {
  const own = issues.filter((issue) => !isFollowUp(issue));
  return locateIssues(own, { file, mappingsDir: config.hooks.mappingsDir });
}

/** Where the secrets of a gateway lie. */
function secretPlaces({ file, config, stateDir }: LoadedConfig): { what: string; path: string }[] {
  const database = config.store.url?.startsWith("sqlite:") ? config.store.url.slice("sqlite:".length) : undefined;
  return [
    ...(file === undefined ? [] : [{ what: "the config file", path: file }]),
    { what: "the state folder", path: stateDir },
    ...(database === undefined ? [] : [{ what: "the database", path: database }]),
  ];
}

/** Builds a snapshot from the files on disk: everything checked, all problems at once, nothing started. */
export async function buildSnapshot(options: SnapshotOptions): Promise<BuildResult> {
  const { env, clock, fetch, log, pool, print } = options;
  const read = await readConfig(options);
  const loaded = read.ok ? read : read.rest;
  const first = read.ok ? [] : read.issues;
  const named = read.file === undefined ? {} : { file: read.file };
  if (!loaded) return { ok: false, issues: first, ...named };
  const { config, variables, baseDir, stateDir } = loaded;
  if (options.port !== undefined) config.gateway.port = options.port;
  if (options.host !== undefined) config.gateway.host = options.host;
  const ended = new AbortController();
  const issues: Issue[] = [];
  const plugins = await loadPlugins({
    config,
    variables,
    baseDir,
    builtinDir: BUILTIN_PLUGINS,
    inline: options.plugins ?? [],
    stateDir,
    ...(options.common ? { common: options.common } : {}),
    env,
    fetch,
    clock,
    log,
    ...(print ? { print } : {}),
    signal: ended.signal,
  });
  issues.push(...plugins.issues);
  const { runtime, issues: modelIssues } = createAgentRuntime({ config, baseDir, env, clock, fetch, log });
  issues.push(...modelIssues);
  const agents = createAgents(config, runtime.models.standard.ref);
  const rooms = createRooms(config, agents, plugins.channels);
  issues.push(...rooms.issues);
  const wrong = createAddressList(config.gateway.trustedProxies).wrong;
  for (const entry of wrong)
    issues.push({ path: "gateway.trustedProxies", message: `"${entry.slice(0, 60)}" is no address or CIDR range` });
  const mappings = await compileMappings({
    hooks: config.hooks,
    baseDir,
    mappingsDir: config.hooks.mappingsDir,
    transformsDir: config.hooks.transformsDir,
    secretPlaces: secretPlaces(loaded),
    presetsDir: PRESETS_DIR,
    pluginPresets: plugins.presets,
    pluginsMissing: plugins.incomplete,
    env,
    known: {
      agents: new Set(agents.list.map((agent) => agent.id)),
      channels: (name: string) => name === "last" || plugins.channels.resolve(name) !== undefined,
      model: (name: string) => runtime.models.resolveRequested(name),
      routeProblem: (target) => findRouteProblem(target, plugins.channels, rooms.rooms.hasOwner),
    },
    pool,
  });
  issues.push(...mappings.issues);
  const signed = mappings.set.paths.flatMap(({ path, auth, authAt }) =>
    auth && "scheme" in auth ? [{ path, auth, at: authAt ?? path }] : [],
  );
  const signatures = createVerifiers(signed, PRESETS_DIR, config.gateway.publicUrl, fetch);
  issues.push(...signatures.issues);
  const problems = [...first, ...getProblems(issues, loaded)];
  if (problems.length > 0) {
    ended.abort();
    await runtime.close();
    return { ok: false, issues: problems, ...named };
  }
  const budgets = createBudgets(config.hooks.limits, mappings.set);
  const files = [...loaded.files, ...mappings.set.files, ...signatures.files, ...plugins.files];
  const snapshot: Snapshot = Object.freeze({
    hash: hashOf(loaded.hash, files),
    clusterHash: clusterHashOf(config, files.slice(loaded.files.length)),
    config,
    configFile: loaded.file,
    agents,
    models: runtime.models,
    runtime,
    channels: plugins.channels,
    rooms: rooms.rooms,
    mappings: mappings.set,
    budgets,
    callbackOf: (mapping: string | undefined) => (mapping === undefined ? undefined : mappings.set.settings(mapping)?.callback),
    verifiers: signatures.verifiers,
    plugins: plugins.plugins,
    warnings: [
      ...loaded.warnings,
      ...mappings.warnings,
      ...unsignedHeaders(mappings.set, signatures.verifiers),
      ...plugins.warnings,
      ...rooms.warnings,
      ...warningsOf({ config, budgets, mappings: mappings.set, channels: plugins.channels, rooms: rooms.rooms }),
    ],
  });
  const dirs = [
    config.hooks.mappingsDir,
    config.hooks.transformsDir,
    join(baseDir, "plugins"),
    ...(loaded.file === undefined ? [] : [dirname(loaded.file)]),
  ];
  return {
    ok: true,
    loaded: {
      snapshot,
      stateDir,
      baseDir,
      services: plugins.services,
      watched: { dirs, files },
      async dispose() {
        ended.abort();
        await runtime.close();
      },
    },
  };
}

export type SnapshotCheck =
  | { ok: true; file?: string; mappings: number; warnings: readonly Issue[] }
  | { ok: false; file?: string; issues: Issue[] };

type FileOptions = Pick<SnapshotOptions, "configFile" | "cwd" | "env" | "clock" | "fetch" | "withoutSecrets">;

/** Builds a snapshot for one use, and takes it away afterwards. Starts nothing, opens no store and writes no file. */
export async function withSnapshot<T>(options: FileOptions, use: (result: BuildResult) => T | Promise<T>): Promise<T> {
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
      warnings: locateIssues(warnings, { file, mappingsDir: config.hooks.mappingsDir }),
      ...(file === undefined ? {} : { file }),
    };
  });
}
