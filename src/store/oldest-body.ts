import { AHEAD_MS, UNFINISHED, type SweepDialect } from "./sweep-plan.ts";
import type { Ms, Store } from "./types.ts";

/** Events that one look for a body reads: those behind the mark have lost theirs. */
const MAX_EVENTS = 100_000;

/**
 * SQL of the time of the oldest event that still has its body and no unfinished run, of those behind the mark of bodies. `now`: a
 * placeholder for the time it is; the age of an event from the future is not known.
 */
export const oldestBody = ({ hasBody }: Pick<SweepDialect, "hasBody">, now: string): string => `
  SELECT at FROM (
    SELECT seq, at, ${hasBody} AS has, ${UNFINISHED} AS unfinished FROM events
    WHERE seq > coalesce((SELECT seq FROM marks WHERE name = 'bodies'), 0) ORDER BY seq LIMIT ${MAX_EVENTS}) AS kept
  WHERE has AND NOT unfinished AND at <= ${now} + ${AHEAD_MS} ORDER BY seq LIMIT 1`;

/** How long the oldest body has been kept beyond retention, in milliseconds; 0 if none has been. */
export async function getBodiesOverdue(
  store: Pick<Store, "oldestBody">,
  now: Ms,
  retention: Ms,
): Promise<Ms> {
  const oldest = await store.oldestBody(now);
  return oldest === undefined ? 0 : Math.max(0, now - oldest - retention);
}
