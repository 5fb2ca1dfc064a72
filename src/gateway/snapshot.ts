import { join } from "node:path";
import {
  hashFiles,
  hashForCluster,
  loadConfig,
  tokenInShell,
  type LoadedConfig,
  type LoadResult,
} from "../config/load.ts";
import { locateIssues } from "../config/places.ts";
import { getFileTime, type Places } from "../config/watch.ts";
import { RouseError, type Issue } from "../core/errors.ts";
import { getSubfolders, type FileTexts } from "../core/files.ts";
import { plural } from "../core/text.ts";
import { compileHooks, type CompileContext } from "../intake/compile.ts";
import type { Snapshot } from "../intake/types.ts";
import { lintMappings } from "../operate/shapes/lint.ts";
import { readDecidingConfig } from "../operate/shapes/recorded-config.ts";
import { loadPlugins, type HostOptions } from "../plugin/host.ts";
import { BUILTIN_PLUGINS } from "../plugin/locations.ts";
import { buildAgents, type AgentsOptions } from "../turns/channel/build-agents.ts";
import { findIssues, getWarnings } from "./snapshot-checks.ts";

export interface SnapshotOptions
  extends
    Pick<AgentsOptions, "traces" | "clock">,
    Pick<HostOptions, "log" | "print" | "sharedValues">,
    CompileContext {
  /** Path of the config file; undefined looks in the usual places (see `config/load.ts`). */
  configFile?: string;
  /** The config itself, in place of a file. Each snapshot reads it again. */
  config?: object;
  /** The state folder; goes before the environment and the config. */
  stateDir?: string;
  /** Plugins that are there without a file. They are in use unless their section says `enabled: false`. */
  plugins?: HostOptions["inline"];
  cwd: string;
  port?: number;
  host?: string;
}

export interface LoadedSnapshot {
  snapshot: Snapshot;
  stateDir: string;
  baseDir: string;
  /** Folders and files whose change means a new snapshot: all that was read of the user's. */
  watched: Places;
  /** The time at which the first of them was read, by `getFileTime`. */
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
async function loadParts(loaded: LoadedConfig, options: SnapshotOptions, signal: AbortSignal) {
  const plugins = await loadPlugins({
    ...options,
    ...loaded,
    inline: options.plugins ?? [],
    builtinDir: BUILTIN_PLUGINS,
    signal,
  });
  const agents = buildAgents({ ...options, ...loaded, plugins });
  const hooks = await compileHooks(loaded, plugins, agents.known, options);
  return { plugins, agents, hooks };
}

type SnapshotParts = Awaited<ReturnType<typeof loadParts>>;

function freezeSnapshot(
  loaded: LoadedConfig,
  parts: SnapshotParts,
  files: readonly string[],
  texts: FileTexts | undefined,
): Snapshot {
  const { config, written } = loaded;
  const { runtime, models, agents, rooms, approvers } = parts.agents;
  const { channels, offers, plugins } = parts.plugins;
  const { mappings, verifiers, budgets } = parts.hooks;
  return Object.freeze({
    hash: hashFiles(loaded.hash, files, texts),
    clusterHash: hashForCluster(config, files.slice(loaded.files.length), texts),
    config,
    configFile: loaded.file,
    hookTokenInShell: tokenInShell(loaded),
    texts,
    decidingConfig: readDecidingConfig({
      written,
      config,
      configFile: loaded.file,
      mappings,
      texts,
    }),
    agents,
    models,
    runtime,
    channels,
    rooms,
    approvers,
    mappings,
    budgets,
    verifiers,
    plugins,
    offers,
    warnings: [
      ...loaded.warnings,
      ...parts.hooks.warnings,
      ...lintMappings(mappings.configs, { verifiers, hooksTools: config.hooks.tools }),
      ...parts.plugins.warnings,
      ...parts.agents.warnings,
      ...getWarnings({ config, written, mappings, channels, rooms }),
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
  const { close } = parts.agents.runtime;
  const dispose = async (): Promise<void> => {
    ended.abort();
    await close();
  };
  const issues = await findIssues(loaded, parts);
  const problems = [...first, ...getProblems(issues, loaded, options.texts)];
  const files = [...loaded.files, ...parts.hooks.files, ...parts.plugins.files];
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
  const snapshot = freezeSnapshot(loaded, parts, files, options.texts);
  return { ok: true, loaded: { snapshot, stateDir, baseDir, watched, readSince, dispose } };
}

/** @throws RouseError `config_invalid` with all issues if a gateway cannot start with the snapshot. */
export async function buildFirst(build: () => Promise<BuildResult>): Promise<LoadedSnapshot> {
  const built = await build();
  if (built.ok) return built.loaded;
  const { issues, file } = built;
  const where = file === undefined ? "" : ` ${file}`;
  const message = `the config${where} has ${plural(issues.length, "problem")}`;
  throw new RouseError({ code: "config_invalid", message, issues });
}
