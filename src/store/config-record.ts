import type { Ms } from "./records.ts";

/** What a gateway decides events by. */
export interface DecidingConfig {
  /** A hash of it; events carry it. */
  id: string;
  /** The texts of the mappings, as JSON. They hold no secret. */
  content: string;
}

/** A config with the time at which a gateway was using it. */
export interface UsedConfig extends DecidingConfig {
  usedAt: Ms;
}

/** A config that events of the store were decided by. Gateways with the same config share one record. */
export interface ConfigRecord extends DecidingConfig {
  /** Counts the configs of the store. */
  number: number;
  firstUsedAt: Ms;
  /** Behind the last use by up to `USE_NOTED_MS`. */
  lastUsedAt: Ms;
}

/** A gateway notes this often that it uses a config. */
export const USE_NOTED_MS = 600_000;

/** A config whose last noted use is this old is in use nowhere; no event of it is younger than that either. */
const UNUSED_AFTER_MS = 3_600_000;

/** The events that are looked at, oldest first, to find configs without events. */
export const OLDEST_EVENTS = 500;

/** Configs that were last used before this may be without events. */
export const getUnusedBefore = (now: Ms, keepEvents: Ms): Ms =>
  now - Math.max(keepEvents, UNUSED_AFTER_MS);

/** Selects the configs of which no event is kept. `oldest`: the first `OLDEST_EVENTS` events, in the order of the table. */
export function selectUnused(
  configs: readonly Pick<ConfigRow, "id" | "last_used">[],
  oldest: readonly { at: Ms; head: string }[],
): string[] {
  const last = oldest.length < OLDEST_EVENTS ? Infinity : (oldest.at(-1)?.at ?? Infinity);
  return configs
    .filter(
      ({ id, last_used }) =>
        last > last_used + UNUSED_AFTER_MS &&
        !oldest.some(({ head }) => head.includes(`"config":"${id}"`)),
    )
    .map(({ id }) => id);
}

export interface ConfigRow {
  seq: number;
  id: string;
  first_used: Ms;
  last_used: Ms;
  content: string;
}

export const toConfig = ({ seq, id, first_used, last_used, content }: ConfigRow): ConfigRecord => ({
  number: seq,
  id,
  content,
  firstUsedAt: first_used,
  lastUsedAt: last_used,
});
