import { locateIssues } from "../config/places.ts";
import type { Issue } from "../core/errors.ts";
import { createLogger } from "../core/log.ts";
import { createTransformPool } from "../mapping/transforms/pool.ts";
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
  const pool = createTransformPool(options.env);
  const result = await buildSnapshot({ ...options, log, pool, print: () => undefined });
  try {
    return await use(result);
  } finally {
    await pool.close();
    if (result.ok) await result.loaded.dispose();
  }
}

/** Describes what a gateway would start with, with the warnings of its files. */
function describe({ snapshot }: LoadedSnapshot, { texts }: FileOptions) {
  const { config, configFile: file, mappings, warnings } = snapshot;
  const places = { file, mappingsDir: config.hooks.mappingsDir, texts };
  return {
    ok: true as const,
    mappings: mappings.mappings.length,
    warnings: locateIssues([...warnings], places),
    ...(file !== undefined && { file }),
  };
}

/** Checks what a gateway would start with. */
export const checkSnapshot = (options: FileOptions): Promise<SnapshotCheck> =>
  withSnapshot(options, (result) => (result.ok ? describe(result.loaded, options) : result));
