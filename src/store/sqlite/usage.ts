import {
  ALL_RUNS,
  countsAfter,
  countsUntil,
  DAY_WINDOW,
  HOUR_WINDOW,
  PARKED_FROM,
  RESOURCES,
  RUN_COUNTS,
  toBucket,
  type Counted,
  type CountedScope,
  type LoanRequest,
  type Ms,
  type UsageChange,
  type UsageStore,
  type Window,
} from "../types.ts";
import type { SqliteGroupCommit } from "./group-commit.ts";
import type { SqliteJobs } from "./jobs.ts";
import type { Signals } from "../sql/signals.ts";
import type { Statements } from "./statements.ts";

const ADD_COUNTS = `INSERT INTO run_counts (counter, running, waiting, parked, in_line) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (counter) DO UPDATE SET running = running + excluded.running, waiting = waiting + excluded.waiting,
    parked = parked + excluded.parked, in_line = in_line + excluded.in_line`;
const ADD_USAGE = `INSERT INTO usage (counter, width, at, starts, tokens, micros) VALUES (?, ?, ?, ?, ?, ?)
  ON CONFLICT (counter, width, at) DO UPDATE SET
    starts = starts + excluded.starts, tokens = tokens + excluded.tokens, micros = micros + excluded.micros`;

/** Adds the change of a run to the counters, inside the transaction that changes it. */
export function writeUsage(
  sql: Statements,
  runId: string,
  { counters, used, ...counts }: UsageChange,
  now: Ms,
): void {
  const { running, waiting, parked, inLine } = counts;
  const { starts, tokens, micros } = used;
  for (const counter of counters) {
    if (RUN_COUNTS.some((name) => counts[name] !== 0))
      sql.run(ADD_COUNTS, counter, running, waiting, parked, inLine);
    if (starts > 0)
      sql.run(ADD_USAGE, counter, HOUR_WINDOW.widthMs, toBucket(HOUR_WINDOW, now), starts, 0, 0);
    if (tokens + micros > 0)
      sql.run(ADD_USAGE, counter, DAY_WINDOW.widthMs, toBucket(DAY_WINDOW, now), 0, tokens, micros);
  }
  if (parked < 0) sql.run("DELETE FROM parked WHERE run = ?", runId);
}

interface BucketRow {
  at: Ms;
  starts: number;
  tokens: number;
  micros: number;
}

function readBuckets(sql: Statements, counters: string, window: Window, now: Ms): BucketRow[] {
  const text = `SELECT at, sum(starts) AS starts, sum(tokens) AS tokens, sum(micros) AS micros FROM usage
    WHERE counter IN (SELECT value FROM json_each(?)) AND width = ? AND at > ? AND at <= ? GROUP BY at ORDER BY at`;
  return sql.all<BucketRow>(
    text,
    counters,
    window.widthMs,
    countsAfter(window, now),
    countsUntil(window, now),
  );
}

function readCounted(
  sql: Statements,
  { counters }: CountedScope,
  needs: { hour: boolean; day: boolean },
  now: Ms,
): Counted {
  const names = JSON.stringify(counters);
  const row = sql.get<Pick<Counted, (typeof RUN_COUNTS)[number]>>(
    `SELECT coalesce(sum(running), 0) AS running, coalesce(sum(waiting), 0) AS waiting, coalesce(sum(parked), 0) AS parked,
        coalesce(sum(in_line), 0) AS "inLine"
      FROM run_counts WHERE counter IN (SELECT value FROM json_each(?))`,
    names,
  );
  return {
    ...(row ?? { running: 0, waiting: 0, parked: 0, inLine: 0 }),
    hour: needs.hour ? readBuckets(sql, names, HOUR_WINDOW, now) : [],
    day: needs.day ? readBuckets(sql, names, DAY_WINDOW, now) : [],
  };
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
      jobs.reschedule("turn", run, now, now);
      released++;
    }
  }
  return released;
}

/** The counters of a store that one gateway has for itself: what is left is all its own. */
export function createSqliteUsage(parts: Parts): UsageStore {
  const { sql, group, loop, signals, now } = parts;
  const lend = ({ scope, limits, held, needed, ahead, ...request }: LoanRequest) => {
    const needs = {
      hour: limits.starts !== undefined,
      day: limits.tokens !== undefined || limits.micros !== undefined,
    };
    const counted = readCounted(sql, { scope, ...request }, needs, now());
    const used = {
      starts: counted.hour.reduce((sum, { starts }) => sum + starts, 0),
      places: counted.running,
      tokens: counted.day.reduce((sum, { tokens }) => sum + tokens, 0),
      micros: counted.day.reduce((sum, { micros }) => sum + micros, 0),
    };
    const set = RESOURCES.flatMap((name) => {
      const limit = limits[name];
      return limit === undefined
        ? []
        : [{ name, room: Math.max(0, limit - used[name] - held[name]) }];
    });
    return {
      scope,
      ...counted,
      lent: Object.fromEntries(
        set.map(({ name, room }) => [name, Math.min(room, needed[name] + ahead[name])]),
      ),
      left: Object.fromEntries(
        set.map(({ name, room }) => [name, Math.max(0, room - needed[name] - ahead[name])]),
      ),
    };
  };
  return {
    shared: false,
    async lend(requests) {
      return requests.map(lend);
    },
    async count(scopes) {
      await loop.catchUp();
      return new Map(
        scopes.map((scope) => [
          scope.scope,
          readCounted(sql, scope, { hour: true, day: true }, now()),
        ]),
      );
    },
    async lanes() {
      const rows = sql.all<{ mapping: string; waits: number; released: number }>(LANES);
      const { parked } = readCounted(
        sql,
        { scope: ALL_RUNS, counters: [ALL_RUNS] },
        { hour: false, day: false },
        now(),
      );
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
