import { locateIssues } from "../config/places.ts";
import { RouseError, type Issue } from "../core/errors.ts";
import { findStoreDriver, storeUrl } from "../store/open.ts";
import { getShapeKeys, readShapes } from "../operate/shapes/kept-shapes.ts";
import { lintRecorded } from "../operate/shapes/lint-recorded.ts";
import type { Shape } from "../operate/shapes/shape.ts";
import {
  withSnapshot,
  type LoadedSnapshot,
  type SnapshotCheck,
  type SnapshotOptions,
} from "./snapshot.ts";

type ValidateOptions = Pick<SnapshotOptions, "configFile" | "cwd" | "env" | "clock" | "fetch">;

/** `notLinted`: why the mappings were not compared with recorded hooks; null if they were. */
export type Validated =
  | Extract<SnapshotCheck, { ok: false }>
  | (Extract<SnapshotCheck, { ok: true }> & { notLinted: string | null });

/** Reads the shapes of recorded hooks, without making or changing anything. `missing` says why that cannot be. */
async function readStored(
  { snapshot, stateDir }: LoadedSnapshot,
  { env }: ValidateOptions,
): Promise<{ shapes: Map<string, Shape> } | { missing: string }> {
  const { config, mappings, offers } = snapshot;
  const url = storeUrl(config.store.url, stateDir);
  const paths = mappings.paths.map(({ path }) => path);
  try {
    const driver = await findStoreDriver(
      url,
      offers.stores.map(({ value }) => value),
    );
    if (!driver.readValues)
      return { missing: "this kind of store cannot be read beside a gateway" };
    const values = await driver.readValues({ url, env }, getShapeKeys(paths));
    if (!values) return { missing: "there is no store yet" };
    return { shapes: await readShapes(async (key) => values.get(key), paths) };
  } catch (error) {
    if (!(error instanceof RouseError)) throw error;
    return { missing: error.message };
  }
}

/**
 * Checks what a gateway would start with, and compares it with the hooks that the store has, if there is one. Starts nothing
 * and writes nothing.
 */
export function validateConfig(options: ValidateOptions): Promise<Validated> {
  return withSnapshot<Validated>(options, async (result) => {
    if (!result.ok) return result;
    const { config, configFile: file, mappings, warnings } = result.loaded.snapshot;
    const stored = await readStored(result.loaded, options);
    const recorded: Issue[] =
      "shapes" in stored ? lintRecorded(mappings.configs, stored.shapes) : [];
    return {
      ok: true,
      mappings: mappings.mappings.length,
      warnings: locateIssues([...warnings, ...recorded], {
        file,
        mappingsDir: config.hooks.mappingsDir,
      }),
      notLinted: "missing" in stored ? stored.missing : null,
      ...(file === undefined ? {} : { file }),
    };
  });
}
