import type { Ms } from "../types.ts";
import type { Statements } from "./statements.ts";

export interface Retention {
  bodies: Ms;
  events: Ms;
  runs: Ms;
  hookSessions: Ms;
  deliveries: Ms;
}

/** Rows of one transaction: accepting goes on in between. */
export const SWEEP_SLICE = 500;

const UNFINISHED = "EXISTS (SELECT 1 FROM runs WHERE runs.event_id = events.id AND runs.ended IS NULL)";

type Step = (sql: Statements) => number;

/** What retention lets go of, as steps of at most `SWEEP_SLICE` rows; a step that returns less is done. `watermark`: events behind it have become runs. */
export function sweepSteps(now: Ms, keep: Retention, watermark: () => number): Step[] {
  const steps: Step[] = [
    (sql) => sql.run(`UPDATE events SET body = NULL WHERE seq IN (SELECT seq FROM events WHERE body IS NOT NULL AND at <= ? AND seq <= ? AND NOT ${UNFINISHED} LIMIT ?)`, now - keep.bodies, watermark(), SWEEP_SLICE),
    (sql) => sql.run(`DELETE FROM events WHERE seq IN (SELECT seq FROM events WHERE at < ? AND seq <= ? AND NOT ${UNFINISHED} LIMIT ?)`, now - keep.events, watermark(), SWEEP_SLICE),
    (sql) => sql.run("DELETE FROM runs WHERE seq IN (SELECT seq FROM runs WHERE ended < ? LIMIT ?)", now - keep.runs, SWEEP_SLICE),
    (sql) => sql.run("DELETE FROM system_events WHERE seq IN (SELECT seq FROM system_events WHERE state <> 'queued' AND at < ? LIMIT ?)", now - keep.events, SWEEP_SLICE),
    (sql) => sql.run("DELETE FROM deliveries WHERE seq IN (SELECT seq FROM deliveries WHERE ended < ? LIMIT ?)", now - keep.deliveries, SWEEP_SLICE),
    (sql) => sql.run("DELETE FROM dedupe WHERE (scope, key) IN (SELECT scope, key FROM dedupe WHERE expires <= ? LIMIT ?)", now, SWEEP_SLICE),
    (sql) => {
      const old = sql.all<{ session: string }>("SELECT session FROM sessions WHERE origin = 'hook' AND used < ? LIMIT ?", now - keep.hookSessions, SWEEP_SLICE);
      for (const { session } of old) {
        sql.run("DELETE FROM turns WHERE session = ?", session);
        sql.run("DELETE FROM sessions WHERE session = ?", session);
      }
      return old.length;
    },
  ];
  return steps;
}
