import { safeError, type Issue } from "../../core/errors.ts";
import { plural } from "../../core/text.ts";
import type { Held, Ms } from "../../store/types.ts";
import { readShapes, updateShapes } from "./kept-shapes.ts";
import { lintRecorded } from "./lint-recorded.ts";
import type { GatewayContext } from "../records/config-log.ts";
import type { LintedMapping } from "./covering.ts";
import { getReadFields } from "./read-fields.ts";
import { countAround, type Shape } from "./shape.ts";

/** So many bodies without a field that nearly all bodies before them had. */
const ENOUGH = 20;
const NEARLY_ALL = 0.95;

/** Fields that are gone, each with the time of the last body that had it. What lay inside of one is left out. */
function findGone(shape: Shape): { name: string; lastSeen: number }[] {
  const gone = [...shape.fields].filter(([name, { events, around }]) => {
    if (name.endsWith("[]") || name.includes("*")) return false;
    return (
      around >= ENOUGH &&
      events / around >= NEARLY_ALL &&
      countAround(shape, name) - around >= ENOUGH
    );
  });
  return gone.map(([name, { lastSeen }]) => ({ name, lastSeen }));
}

/** Made when a date is said: loading the names of months takes a part of each start. */
const renderDay = (at: number): string =>
  new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long", timeZone: "UTC" }).format(at);

/** Says of each field that bodies of a path no longer have, and that mappings read: since when, and how many of them. */
function findBodyChanges(mappings: readonly LintedMapping[], shapes: ReadonlyMap<string, Shape>) {
  return [...shapes.values()].flatMap((shape) => {
    const gone = findGone(shape);
    if (gone.length === 0) return [];
    const readers = mappings.filter(
      ({ config, info }) => config.enabled && info.paths.includes(shape.path),
    );
    const reads = readers.map(({ config, info }) => ({
      id: info.id,
      fields: [...getReadFields(config)],
    }));
    return gone.flatMap(({ name, lastSeen }) => {
      const field = name.replaceAll("[]", "").replaceAll("`", "");
      const [first, ...more] = reads.filter(({ fields }) =>
        fields.some((read) => read === field || read.startsWith(`${field}.`)),
      );
      if (!first) return [];
      const count = more.length + 1;
      const message = `${shape.path}: ${name} is gone since ${renderDay(lastSeen)}, ${plural(count, "mapping reads", "mappings read")} it`;
      return [{ mapping: first.id, message }];
    });
  });
}

const UPDATE_MS = 120_000;
const MIN_UPDATE_MS = 5000;

/** The knowledge of a gateway from recorded hooks. */
export type HookShapes = ReturnType<typeof createHookShapes>;

/** Bodies are counted before retention takes them. */
const getInterval = (retention: Ms): Ms =>
  retention === 0 ? UPDATE_MS : Math.max(MIN_UPDATE_MS, Math.min(UPDATE_MS, retention / 2));

/** Makes what counts the fields of bodies beside the answers, and compares mappings with them. */
export function createHookShapes({ store, clock, log, snapshot }: GatewayContext) {
  let warnings: readonly Issue[] = [];
  /** Finds what recorded hooks show about mappings: warnings, and fields that mappings read and that new bodies do not have. */
  const recorded = async () => {
    const { mappings } = snapshot();
    const paths = mappings.paths.map(({ path }) => path);
    const shapes = await readShapes((key) => store.values.get(key), paths);
    return {
      warnings: lintRecorded(mappings.configs, shapes),
      bodyChanges: findBodyChanges(mappings.configs, shapes),
    };
  };
  const refresh = async (): Promise<void> => {
    try {
      const known = new Set(warnings.map(({ path, message }) => `${path}\n${message}`));
      ({ warnings } = await recorded());
      for (const { path, message } of warnings)
        if (!known.has(`${path}\n${message}`)) log.warn({ path }, message);
    } catch (error) {
      log.warn({ err: safeError(error) }, "mappings could not be compared with recorded hooks");
    }
  };
  const count = async ({ fencingToken }: Held): Promise<void> => {
    try {
      if (await updateShapes(store, snapshot(), fencingToken)) await refresh();
    } catch (error) {
      log.warn(
        { err: safeError(error) },
        "the fields of new bodies could not be counted; it is tried again",
      );
    }
  };
  return {
    /** Warnings about mappings that were found last. */
    warnings: (): readonly Issue[] => warnings,
    recorded,
    /** Looks for warnings again, and logs those that are new. Never throws. */
    refresh,
    /** Counts new bodies, once or from time to time for as long as the lease is held. Does not throw. */
    count,
    async countRegularly(held: Held): Promise<void> {
      for (;;) {
        await clock.sleep(getInterval(snapshot().config.hooks.retention), held.signal);
        if (held.signal.aborted) return;
        await count(held);
      }
    },
  };
}
