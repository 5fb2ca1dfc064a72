import { getListLimit } from "../list-limit.ts";
import { PAGES, toReads, type Page } from "../read-table.ts";
import {
  parseRecord,
  readSteps,
  toLastRoute,
  toSession,
  toSteps,
  toTurn,
  type JsonRow,
  type LastRouteRow,
  type SessionRow,
  type TurnRow,
} from "../rows.ts";
import { sessionId, type Collected, type Lists, type Ms, type SessionRecord, type Store, type ToolResultRecord } from "../types.ts";
import type { SqliteJobs } from "./jobs.ts";
import { findDedupeKey } from "./keys.ts";
import { listNewestInSqlite, sumUsageInSqlite } from "./lists.ts";
import type { MaterializeLoop } from "./materialize-loop.ts";
import type { Statements } from "./statements.ts";

/** Sessions that are looked at between two turns of the event loop. */
const SESSIONS_AT_ONCE = 1000;

/** Pages of sessions, the last used first. */
async function listSessions(sql: Statements, query: Lists["sessions"]["of"]): Promise<SessionRecord[]> {
  const { before, since = 0, origin, agentId } = query;
  const limit = getListLimit(query);
  const start = before === undefined ? undefined : sql.get<SessionRow>("SELECT * FROM sessions WHERE session = ?", before);
  if (before !== undefined && !start) return [];
  let after: [number, string] = start ? [start.used, start.session] : [Number.MAX_SAFE_INTEGER, ""];
  const found: SessionRow[] = [];
  for (;;) {
    const rows = sql.all<SessionRow>(
      "SELECT * FROM sessions WHERE (used, session) < (?, ?) AND used >= ? ORDER BY used DESC, session DESC LIMIT ?",
      ...after,
      since,
      SESSIONS_AT_ONCE,
    );
    for (const row of rows) {
      const wanted = (origin === undefined || row.origin === origin) && (agentId === undefined || row.agent === agentId);
      if (wanted && found.push(row) === limit) return found.map(toSession);
    }
    const last = rows.at(-1);
    if (!last || rows.length < SESSIONS_AT_ONCE) return found.map(toSession);
    after = [last.used, last.session];
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/**
 * The reading side over SQLite. Reads of runs and system events first wait until accepted events have been taken up. If
 * that cannot be (a full disk), lists and counts tell what is there; what is asked for by its id may be among the rest,
 * and is an error.
 */
export function createSqliteReads(parts: {
  sql: Statements;
  jobs: SqliteJobs;
  loop: MaterializeLoop;
  now: () => Ms;
}): Pick<Store, "findDuplicates" | "get" | "list" | "counts"> {
  const { sql, jobs, loop, now } = parts;
  const byId = <Q, T>({ table, columns, read }: Page<Q, T>, id: string): T | undefined => {
    const row = sql.get(`SELECT ${columns} FROM ${table} WHERE id = ?`, id);
    return row === undefined ? undefined : read(row);
  };
  const caughtUp = async <T>(read: () => T | Promise<T>): Promise<T> => {
    await loop.catchUp();
    return read();
  };
  const asFarAsMayBe = async <T>(read: () => T | Promise<T>): Promise<T> => {
    await loop.catchUp().catch(() => undefined);
    return read();
  };
  return {
    findDuplicates: async (keys) => keys.map(({ scope, key }) => findDedupeKey(sql, scope, key, now())),
    counts: () =>
      asFarAsMayBe(() => {
        const rows = sql.all<{ name: string; n: number }>("SELECT name, n FROM counts ORDER BY name");
        return Object.fromEntries([...rows, ...jobs.counts()].map(({ name, n }) => [name, n]));
      }),
    ...toReads({
      get: {
        event: async (id) => byId(PAGES.events, id),
        run: async (id) => byId(PAGES.runs, id) ?? caughtUp(() => byId(PAGES.runs, id)),
        delivery: async (id) => byId(PAGES.deliveries, id),
        async session(ref) {
          const row = sql.get<SessionRow>("SELECT * FROM sessions WHERE session = ?", sessionId(ref));
          return row && toSession(row);
        },
        async checkpoint(ref) {
          const text = "SELECT seq, record FROM turns WHERE session = ? AND covered IS NOT NULL ORDER BY seq DESC LIMIT 1";
          const row = sql.get<TurnRow>(text, sessionId(ref));
          return row && toTurn(row);
        },
        async value(key) {
          const row = sql.get<{ value: string }>("SELECT value FROM meta WHERE key = ?", key);
          return row && (JSON.parse(row.value) as unknown);
        },
        approval: async (id) => byId(PAGES.approvals, id),
        async toolResult(id) {
          const row = sql.get<JsonRow>("SELECT record FROM tool_results WHERE id = ?", id);
          return row && parseRecord<ToolResultRecord>(row);
        },
      },
      list: {
        events: (query) => asFarAsMayBe(() => listNewestInSqlite(sql, PAGES.events, query)),
        runs: (query) => asFarAsMayBe(() => listNewestInSqlite(sql, PAGES.runs, query)),
        usage: (query) => sumUsageInSqlite(sql, query),
        deliveries: (query) => listNewestInSqlite(sql, PAGES.deliveries, query),
        systemEvents: (query) => asFarAsMayBe(() => listNewestInSqlite(sql, PAGES.systemEvents, query)),
        sessions: (query) => listSessions(sql, query),
        async turns({ limit = -1, before = Number.MAX_SAFE_INTEGER, after = 0, ...ref }) {
          const text = "SELECT seq, record FROM turns WHERE session = ? AND seq < ? AND seq > ? ORDER BY seq DESC LIMIT ?";
          return sql.all<TurnRow>(text, sessionId(ref), before, after, limit).map(toTurn).toReversed();
        },
        queuedSystemEvents: ({ agentId, limit }) =>
          caughtUp(() => {
            const { columns, read } = PAGES.systemEvents;
            const text = `SELECT ${columns} FROM system_events WHERE agent = ? AND state = 'queued' ORDER BY seq LIMIT ?`;
            return sql.all(text, agentId, limit).map(read);
          }),
        async hookSessions({ agentId, key }) {
          const text = "SELECT * FROM sessions WHERE key = ? AND origin = 'hook' AND agent = ? ORDER BY used DESC";
          return sql.all<SessionRow>(text, key, agentId).map(toSession);
        },
        collected: (runId) =>
          caughtUp(() => sql.all<JsonRow>("SELECT record FROM collected WHERE run_id = ? ORDER BY seq", runId).map(parseRecord<Collected>)),
        async lastRoutes(agentId) {
          return sql.all<LastRouteRow>("SELECT * FROM last_routes WHERE agent = ? ORDER BY at DESC", agentId).map(toLastRoute);
        },
        steps: async (runId) => toSteps(sql.all(readSteps("?1"), runId)),
        approvals: (query) => listNewestInSqlite(sql, PAGES.approvals, query),
      },
    }),
  };
}
