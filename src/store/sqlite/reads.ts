import { PAGES, toReads, type Page } from "../read-table.ts";
import { createSearches } from "../search.ts";
import { readQueuedSince } from "../queued-since.ts";
import { sumActivity } from "../sum-activity.ts";
import { sumFailures } from "../sum-failures.ts";
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
import {
  sessionId,
  toConfig,
  type Collected,
  type ConfigRow,
  type Ms,
  type Store,
  type ToolResultRecord,
} from "../types.ts";
import type { SqliteJobs } from "./jobs.ts";
import { findDedupeKey } from "./keys.ts";
import { createSqliteSource, renderJsonValue, sumUsageInSqlite } from "./lists.ts";
import type { MaterializeLoop } from "./materialize-loop.ts";
import type { Statements } from "./statements.ts";

/**
 * The reading side over SQLite. Reads of runs and system events first wait until accepted events have been taken up. If
 * that cannot be (a full disk), lists and counts tell what is there; what is asked for by its id may be among the rest,
 * and is an error.
 */
export function createSqliteReads(parts: {
  sql: Statements;
  jobs: Pick<SqliteJobs, "counts">;
  loop: Pick<MaterializeLoop, "catchUp">;
  now: () => Ms;
}): Pick<Store, "findDuplicates" | "get" | "list" | "counts"> & Required<Pick<Store, "search">> {
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
  const source = createSqliteSource(sql);
  const { lists, search } = createSearches(source);
  return {
    search: (kind, query) => asFarAsMayBe(() => search(kind, query)),
    findDuplicates: async (keys) =>
      keys.map(({ scope, key }) => findDedupeKey(sql, scope, key, now())),
    counts: () =>
      asFarAsMayBe(() => {
        const rows = sql.all<{ name: string; n: number }>(
          "SELECT name, n FROM counts ORDER BY name",
        );
        return Object.fromEntries([...rows, ...jobs.counts()].map(({ name, n }) => [name, n]));
      }),
    ...toReads({
      get: {
        event: async (id) => byId(PAGES.events, id),
        run: async (id) => byId(PAGES.runs, id) ?? caughtUp(() => byId(PAGES.runs, id)),
        delivery: async (id) => byId(PAGES.deliveries, id),
        async session(ref) {
          const row = sql.get<SessionRow>(
            "SELECT * FROM sessions WHERE session = ?",
            sessionId(ref),
          );
          return row && toSession(row);
        },
        async checkpoint(ref) {
          const text =
            "SELECT seq, record FROM turns WHERE session = ? AND covered IS NOT NULL ORDER BY seq DESC LIMIT 1";
          const row = sql.get<TurnRow>(text, sessionId(ref));
          return row && toTurn(row);
        },
        async value(key) {
          const row = sql.get<{ value: string }>("SELECT value FROM meta WHERE key = ?", key);
          return row && (JSON.parse(row.value) as unknown);
        },
        async eventNumber({ id }) {
          const newest = "SELECT max(seq) AS seq FROM events";
          const row =
            id === undefined ? sql.get(newest) : sql.get("SELECT seq FROM events WHERE id = ?", id);
          return (row as { seq: number | null } | undefined)?.seq ?? undefined;
        },
        queuedSince: () => asFarAsMayBe(() => readQueuedSince(source, renderJsonValue)),
        approval: async (id) => byId(PAGES.approvals, id),
        async toolResult(id) {
          const row = sql.get<JsonRow>("SELECT record FROM tool_results WHERE id = ?", id);
          return row && parseRecord<ToolResultRecord>(row);
        },
        async config(id) {
          const row = sql.get<ConfigRow>("SELECT * FROM configs WHERE id = ?", id);
          return row && toConfig(row);
        },
      },
      list: {
        ...lists,
        events: (query) => asFarAsMayBe(() => lists.events(query)),
        runs: (query) => asFarAsMayBe(() => lists.runs(query)),
        systemEvents: (query) => asFarAsMayBe(() => lists.systemEvents(query)),
        usage: (query) => sumUsageInSqlite(sql, query),
        activity: (query) => sumActivity(source, query),
        failures: (query) => asFarAsMayBe(() => sumFailures(source, renderJsonValue, query)),
        async turns({ limit = -1, before = Number.MAX_SAFE_INTEGER, after = 0, ...ref }) {
          const text =
            "SELECT seq, record FROM turns WHERE session = ? AND seq < ? AND seq > ? ORDER BY seq DESC LIMIT ?";
          return sql
            .all<TurnRow>(text, sessionId(ref), before, after, limit)
            .map(toTurn)
            .toReversed();
        },
        queuedSystemEvents: ({ agentId, limit }) =>
          caughtUp(() => {
            const { columns, read } = PAGES.systemEvents;
            const text = `SELECT ${columns} FROM system_events WHERE agent = ? AND state = 'queued' ORDER BY seq LIMIT ?`;
            return sql.all(text, agentId, limit).map(read);
          }),
        async hookSessions({ agentId, key }) {
          const text =
            "SELECT * FROM sessions WHERE key = ? AND origin = 'hook' AND agent = ? ORDER BY used DESC";
          return sql.all<SessionRow>(text, key, agentId).map(toSession);
        },
        collected: (runId) =>
          caughtUp(() =>
            sql
              .all<JsonRow>("SELECT record FROM collected WHERE run_id = ? ORDER BY seq", runId)
              .map(parseRecord<Collected>),
          ),
        async lastRoutes(agentId) {
          return sql
            .all<LastRouteRow>(
              "SELECT * FROM last_routes WHERE agent = ? ORDER BY at DESC",
              agentId,
            )
            .map(toLastRoute);
        },
        async eventNumbers({ after, limit }) {
          const text = "SELECT seq FROM events WHERE seq > ? ORDER BY seq LIMIT ?";
          return sql.all<{ seq: number }>(text, after, limit).map(({ seq }) => seq);
        },
        async numberedEvents(numbers) {
          const { columns, read } = PAGES.events;
          const text = `SELECT seq, ${columns} FROM events WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq`;
          const rows = sql.all<{ seq: number }>(text, JSON.stringify(numbers));
          return rows.map((row) => ({ number: row.seq, event: read(row) }));
        },
        steps: async (runId) => toSteps(sql.all(readSteps("?1"), runId)),
      },
    }),
  };
}
