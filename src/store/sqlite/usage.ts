import {
  ALL_RUNS,
  ALL_TIMES,
  countsAfter,
  countsUntil,
  DAY_WINDOW,
  getWindows,
  HOUR_WINDOW,
  PARKED_FROM,
  RESOURCES,
  toCounted,
  USAGE_NUMBERS,
  type Counted,
  type Ms,
  type Reservation,
  type ReservationRequest,
  type UsageRow,
  type UsageStore,
  type Window,
} from "../types.ts";
import type { SqliteGroupCommit, Statements } from "./connection.ts";
import type { SqliteJobs } from "./jobs.ts";
import type { Signals } from "../sql/signals.ts";

const SUMS = USAGE_NUMBERS.map((name) => `sum(${name}) AS ${name}`).join(", ");
const READ_USAGE = `SELECT width, at, ${SUMS} FROM usage
  WHERE counter IN (SELECT value FROM json_each(?)) AND width = ? AND at > ? AND at <= ? GROUP BY at ORDER BY at`;

function readCounted(
  sql: Statements,
  counters: readonly string[],
  windows: readonly Window[],
  now: Ms,
): Counted {
  const names = JSON.stringify(counters);
  const rows = windows.flatMap((window) =>
    sql.all<UsageRow>(
      READ_USAGE,
      names,
      window.widthMs,
      countsAfter(window, now),
      countsUntil(window, now),
    ),
  );
  return toCounted(rows);
}

const LANES = `
  WITH RECURSIVE
    waits(lane) AS (
      SELECT min(lane) FROM parked WHERE released = 0
      UNION ALL SELECT (SELECT min(lane) FROM parked WHERE released = 0 AND lane > waits.lane) FROM waits WHERE waits.lane IS NOT NULL),
    gone(lane, n) AS (SELECT lane, count(*) FROM parked WHERE released = 1 GROUP BY lane)
  SELECT coalesce(waits.lane, gone.lane) AS mapping, waits.lane IS NOT NULL AS waits, coalesce(n, 0) AS released
  FROM (SELECT lane FROM waits WHERE lane IS NOT NULL) AS waits FULL JOIN gone ON gone.lane = waits.lane`;

interface Parts {
  sql: Statements;
  jobs: SqliteJobs;
  group: SqliteGroupCommit;
  loop: { catchUp(): Promise<void> };
  signals: Signals;
  now: () => Ms;
}

/** Releases up to `count` runs of a mapping, inside a transaction. What a limit does not hold back any more is passed over. */
function releaseLane({ sql, jobs }: Parts, mapping: string, count: number, now: Ms): number {
  let released = 0;
  while (released < count) {
    const rows = sql.all<{ seq: number; run: string; held: number | null }>(
      `SELECT seq, run, (SELECT 1 FROM jobs WHERE kind = 'turn' AND id = run AND run_at >= ?) AS held
        FROM parked INDEXED BY parked_lane WHERE lane = ? AND released = 0 ORDER BY seq LIMIT ?`,
      PARKED_FROM,
      mapping,
      count - released,
    );
    if (rows.length === 0) break;
    for (const { seq, run, held } of rows) {
      if (held === null) {
        sql.run("DELETE FROM parked WHERE seq = ?", seq);
        continue;
      }
      sql.run("UPDATE parked SET released = 1 WHERE seq = ?", seq);
      jobs.reschedule({ kind: "turn", id: run }, now);
      released++;
    }
  }
  return released;
}

/** The counters of a store that one gateway has for itself: what is left is all its own. */
export function createSqliteUsage(parts: Parts): UsageStore {
  const { sql, group, loop, signals, now } = parts;
  const reserve = ({
    scope,
    counters,
    limits,
    pending,
    wanted,
  }: ReservationRequest): Reservation => {
    const limited = RESOURCES.filter((name) => limits[name] !== undefined);
    const counted = readCounted(sql, counters, getWindows(limited), now());
    const used = {
      starts: counted.hour.reduce((sum, { starts }) => sum + starts, 0),
      places: counted.running,
      tokens: counted.day.reduce((sum, { tokens }) => sum + tokens, 0),
      micros: counted.day.reduce((sum, { micros }) => sum + micros, 0),
    };
    const room: Reservation = { scope, ...counted, reserved: {}, left: {} };
    for (const name of limited) {
      const limit = limits[name] ?? 0;
      room.left[name] = Math.max(0, limit - used[name]);
      if (name !== "starts" && name !== "places") continue;
      const free = Math.max(0, limit - used[name] - pending[name]);
      room.reserved[name] = Math.min(free, wanted[name]);
      room.left[name] = free - room.reserved[name];
    }
    return room;
  };
  return {
    shared: false,
    async reserve(requests) {
      return requests.map(reserve);
    },
    async count(scopes) {
      await loop.catchUp();
      return new Map(
        scopes.map(({ scope, counters }) => [
          scope,
          readCounted(sql, counters, getWindows(), now()),
        ]),
      );
    },
    async lanes() {
      const rows = sql.all<{ mapping: string; waits: number; released: number }>(LANES);
      const { parked } = readCounted(sql, [ALL_RUNS], [ALL_TIMES], now());
      return { lanes: rows.map(({ waits, ...lane }) => ({ ...lane, waits: waits === 1 })), parked };
    },
    async release(wanted) {
      const released = await group.add(
        () => wanted.map(({ mapping, count }) => releaseLane(parts, mapping, count, now())),
        { many: true },
      );
      if (released.some((n) => n > 0)) signals.announce(["turn"]);
      return released;
    },
    async tidy() {
      const at = now();
      const write = (): void => {
        for (const window of [HOUR_WINDOW, DAY_WINDOW])
          sql.run(
            "DELETE FROM usage WHERE width = ? AND (at <= ? OR at > ?)",
            window.widthMs,
            countsAfter(window, at),
            countsUntil(window, at),
          );
      };
      await group.add(write, { many: true });
    },
  };
}
