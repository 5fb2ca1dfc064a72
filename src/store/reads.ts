import { readQueuedSince, sumActivity, sumFailures, sumUsage } from "./read-sums.ts";
import { PAGES, type Page, type ReadTable, type Value } from "./read-table.ts";
import {
  parseRecord,
  toLastRoute,
  toSession,
  toSteps,
  toTurn,
  type JsonRow,
  type LastRouteRow,
  type SessionRow,
  type TurnRow,
} from "./rows.ts";
import { createSearches, type ListSource } from "./search.ts";
import {
  sessionId,
  toConfig,
  type Collected,
  type ConfigRow,
  type SessionRef,
  type Reads,
  type ToolResultRecord,
} from "./types.ts";

const SESSION = PAGES.sessions.columns;

/** The reading side of a store over SQL. */
export function createReads(source: ListSource): ReadTable & Required<Reads> {
  const { session, isNumberOf } = source;
  const together = <Row>(
    text: string,
    types: readonly string[],
  ): ((...key: Value[]) => Promise<Row[]>) =>
    source.readTogether?.<Row>(text, types) ?? ((...key) => source.query<Row>(text, key));
  const all = async <Row, T>(
    text: string,
    values: readonly Value[],
    read: (row: Row) => T,
  ): Promise<T[]> => (await source.query<Row>(text, values)).map(read);
  const first = async <Row, T>(
    text: string,
    values: readonly Value[],
    read: (row: Row) => T,
  ): Promise<T | undefined> => (await all(text, values, read))[0];
  const byId = <Q, T>({ table, columns, read }: Page<Q, T>, id: string): Promise<T | undefined> =>
    first(`SELECT ${columns} FROM ${table} WHERE id = ?`, [id], read);
  const keyOf = (ref: SessionRef): Value => session.toKey(sessionId(ref));

  // What each run reads: runs that are under way together ask together.
  const runs = together<unknown>(`SELECT ${PAGES.runs.columns} FROM runs WHERE id = ?`, ["text"]);
  const sessions = together<SessionRow>(
    `SELECT ${SESSION} FROM sessions WHERE ${session.column} = ?`,
    [session.type],
  );
  const hookSessions = together<SessionRow>(
    `SELECT ${SESSION} FROM sessions WHERE key = ? AND origin = 'hook' AND agent = ?`,
    ["text", "text"],
  );
  const turns = together<TurnRow>(
    "SELECT seq, record FROM turns WHERE session = ? AND seq < ? AND seq > ? ORDER BY seq DESC LIMIT ?",
    [session.type, "bigint", "bigint", "bigint"],
  );
  const { lists, search } = createSearches(source);

  return {
    search,
    get: {
      event: (id) => byId(PAGES.events, id),
      run: async (id) => (await runs(id)).map(PAGES.runs.read)[0],
      delivery: (id) => byId(PAGES.deliveries, id),
      session: async (ref) => (await sessions(keyOf(ref))).map(toSession)[0],
      checkpoint: (ref) =>
        first(
          "SELECT seq, record FROM turns WHERE session = ? AND covered IS NOT NULL ORDER BY seq DESC LIMIT 1",
          [keyOf(ref)],
          toTurn,
        ),
      value: (key) =>
        first(
          "SELECT value FROM meta WHERE key = ?",
          [key],
          ({ value }: { value: string }) => JSON.parse(value) as unknown,
        ),
      approval: (id) => byId(PAGES.approvals, id),
      toolResult: (id) =>
        first("SELECT record FROM tool_results WHERE id = ?", [id], parseRecord<ToolResultRecord>),
      config: (id) =>
        first(
          "SELECT seq, id, first_used, last_used, content FROM configs WHERE id = ?",
          [id],
          (row: ConfigRow) => toConfig(row),
        ),
      async eventNumber({ id }) {
        const [row] = await (id === undefined
          ? source.query<{ seq: number | null }>("SELECT max(seq) AS seq FROM events", [])
          : source.query<{ seq: number }>("SELECT seq FROM events WHERE id = ?", [id]));
        return row?.seq ?? undefined;
      },
      queuedSince: () => readQueuedSince(source),
    },
    list: {
      ...lists,
      usage: (query) => sumUsage(source, query),
      activity: (query) => sumActivity(source, query),
      failures: (query) => sumFailures(source, query),
      async turns({
        limit = Number.MAX_SAFE_INTEGER,
        before = Number.MAX_SAFE_INTEGER,
        after = 0,
        ...ref
      }) {
        const rows = await turns(keyOf(ref), before, after, limit);
        return rows.map(toTurn).toSorted((a, b) => a.seq - b.seq);
      },
      queuedSystemEvents({ agentId, limit }) {
        const { columns, read } = PAGES.systemEvents;
        return all(
          `SELECT ${columns} FROM system_events WHERE agent = ? AND state = 'queued' ORDER BY seq LIMIT ?`,
          [agentId, limit],
          read,
        );
      },
      hookSessions: async ({ agentId, key }) =>
        (await hookSessions(key, agentId))
          .map(toSession)
          .toSorted((a, b) => b.lastUsedAt - a.lastUsedAt),
      collected: (runId) =>
        all(
          "SELECT record FROM collected WHERE run_id = ? ORDER BY seq",
          [runId],
          parseRecord<Collected>,
        ),
      lastRoutes: (agentId) =>
        all(
          "SELECT agent, channel, recipient, thread, at FROM last_routes WHERE agent = ? ORDER BY at DESC",
          [agentId],
          (row: LastRouteRow) => toLastRoute(row),
        ),
      eventNumbers: ({ after, limit }) =>
        all(
          "SELECT seq FROM events WHERE seq > ? ORDER BY seq LIMIT ?",
          [after, limit],
          ({ seq }: { seq: number }) => seq,
        ),
      numberedEvents: (numbers) =>
        all(
          `SELECT seq, ${PAGES.events.columns} FROM events WHERE seq ${isNumberOf.sql} ORDER BY seq`,
          [isNumberOf.toValue(numbers)],
          (row: { seq: number }) => ({ number: row.seq, event: PAGES.events.read(row) }),
        ),
      steps: async (runId) =>
        toSteps(
          await source.query<JsonRow & { position: number }>(
            `SELECT step, -1 AS position, record FROM steps WHERE run_id = ?
              UNION ALL SELECT step, position, record FROM tool_calls WHERE run_id = ? ORDER BY 1, 2`,
            [runId, runId],
          ),
        ),
    },
  };
}
