import type { Scheme } from "../../config/schema/signature.ts";
import type { RefusalReason } from "./types.ts";

type Timestamp = NonNullable<Scheme["timestamp"]>;

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/;

/** Milliseconds since the epoch, or undefined if the text is no time of that unit. */
function toMs(text: string, unit: Timestamp["unit"]): number | undefined {
  if (unit === "iso8601") {
    const at = ISO.test(text) ? Date.parse(text) : NaN;
    return Number.isNaN(at) ? undefined : at;
  }
  return /^\d{1,16}$/.test(text) ? Number(text) * (unit === "s" ? 1000 : 1) : undefined;
}

/** Checks that the signed time is neither too old nor too far in the future. */
export function timeProblem(
  timestamp: Timestamp | undefined,
  text: string | undefined,
  now: number,
): RefusalReason | undefined {
  if (!timestamp) return undefined;
  const at = text === undefined ? undefined : toMs(text, timestamp.unit);
  if (at === undefined) return "no_timestamp";
  return Math.abs(now - at) > timestamp.toleranceSeconds * 1000 ? "stale_timestamp" : undefined;
}

/** The least time for which duplicate keys of schemes that sign no time are kept. */
const UNDATED_KEY_MS = 30 * 86_400_000;

/**
 * Returns the least time for which the duplicate key of a signed request is kept. A signed time makes a copy of the
 * request worthless soon; without one the copy stays good for as long as the secret does.
 */
export const minKeepMs = (timestamp: Timestamp | undefined): number =>
  timestamp === undefined ? UNDATED_KEY_MS : 2 * timestamp.toleranceSeconds * 1000;
