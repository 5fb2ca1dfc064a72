import { locateIssues } from "../config/places.ts";
import { RouseError, type Issue } from "../core/errors.ts";
import { createLogger } from "../core/log.ts";
import { createTransformPool } from "../mapping/transforms/pool.ts";
import { findStoreDriver, storeUrl } from "../store/open.ts";
import { readShapes } from "../operate/shapes/kept-shapes.ts";
import { lintRecorded } from "../operate/shapes/lint-recorded.ts";
import type { Shape } from "../operate/shapes/shape.ts";
import {
  buildSnapshot,
  type BuildResult,
  type LoadedSnapshot,
  type SnapshotOptions,
} from "./snapshot.ts";

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

/** Describes what a gateway would start with, with the warnings of its files. */
function describe({ snapshot }: LoadedSnapshot, { texts }: FileOptions, more: Issue[] = []) {
  const { config, configFile: file, mappings, warnings } = snapshot;
  const places = { file, mappingsDir: config.hooks.mappingsDir, texts };
  return {
    ok: true as const,
    mappings: mappings.mappings.length,
    warnings: locateIssues([...warnings, ...more], places),
    ...(file !== undefined && { file }),
  };
}

/** Checks what a gateway would start with. */
export const checkSnapshot = (options: FileOptions): Promise<SnapshotCheck> =>
  withSnapshot(options, (result) => (result.ok ? describe(result.loaded, options) : result));

/** `notLinted`: why the mappings were not compared with recorded hooks; null if they were. */
export type Validated =
  | Extract<SnapshotCheck, { ok: false }>
  | (Extract<SnapshotCheck, { ok: true }> & { notLinted: string | null });

/** Reads the shapes of recorded hooks, without making or changing anything. `missing` says why that cannot be. */
async function readStored(
  { snapshot, stateDir }: LoadedSnapshot,
  { env, clock }: FileOptions,
): Promise<{ shapes: Map<string, Shape> } | { missing: string }> {
  const { config, mappings } = snapshot;
  const url = storeUrl(config.store.url, stateDir);
  const paths = mappings.paths.map(({ path }) => path);
  try {
    const driver = await findStoreDriver(url);
    const { values, close } = await driver.openReader({ url, env, clock });
    return { shapes: await readShapes(values.get, paths).finally(close) };
  } catch (error) {
    if (!(error instanceof RouseError)) throw error;
    return { missing: error.message };
  }
}

/**
 * Checks what a gateway would start with, and compares it with the hooks that the store has, if there is one. Starts nothing
 * and writes nothing.
 */
export const validateConfig = (options: FileOptions): Promise<Validated> =>
  withSnapshot<Validated>(options, async (result) => {
    if (!result.ok) return result;
    const stored = await readStored(result.loaded, options);
    const { configs } = result.loaded.snapshot.mappings;
    const recorded = "shapes" in stored ? lintRecorded(configs, stored.shapes) : [];
    const notLinted = "missing" in stored ? stored.missing : null;
    return { ...describe(result.loaded, options, recorded), notLinted };
  });
