import { readQueuedSince, sumActivity, sumFailures, sumUsage } from "./read-sums.ts";
import { PAGES, type Page, type Value } from "./read-table.ts";
import {
  parseRecord,
  toConfig,
  toLastRoute,
  toSession,
  toSteps,
  toTurn,
  type ConfigRow,
  type JsonRow,
  type LastRouteRow,
  type SessionRow,
  type TurnRow,
} from "./rows.ts";
import { createListing, type ListSource } from "./search.ts";
import {
  sessionId,
  type Collected,
  type Reads,
  type SessionRef,
  type ToolResultRecord,
} from "../types.ts";

const SESSION = PAGES.sessions.columns;

/** The reading side of a store over SQL. */
export function createReads(source: ListSource): Reads {
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

  // The reads of each run: runs that are under way together ask together.
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
  return {
    events: {
      ...createListing(source, "events"),
      get: (id) => byId(PAGES.events, id),
      async getNumber(id) {
        const [row] = await (id === undefined
          ? source.query<{ seq: number | null }>("SELECT max(seq) AS seq FROM events", [])
          : source.query<{ seq: number }>("SELECT seq FROM events WHERE id = ?", [id]));
        return row?.seq ?? undefined;
      },
      listNumbers: ({ after, limit }) =>
        all(
          "SELECT seq FROM events WHERE seq > ? ORDER BY seq LIMIT ?",
          [after, limit],
          ({ seq }: { seq: number }) => seq,
        ),
      listNumbered: (numbers) =>
        all(
          `SELECT seq, ${PAGES.events.columns} FROM events WHERE seq ${isNumberOf.sql} ORDER BY seq`,
          [isNumberOf.toValue(numbers)],
          (row: { seq: number }) => ({ number: row.seq, event: PAGES.events.read(row) }),
        ),
      sumActivity: (query) => sumActivity(source, query),
    },
    runs: {
      ...createListing(source, "runs"),
      get: async (id) => (await runs(id)).map(PAGES.runs.read)[0],
      listCollected: (runId) =>
        all(
          "SELECT record FROM collected WHERE run_id = ? ORDER BY seq",
          [runId],
          parseRecord<Collected>,
        ),
      getQueuedSince: () => readQueuedSince(source),
      sumUsage: (query) => sumUsage(source, query),
    },
    steps: {
      list: async (runId) =>
        toSteps(
          await source.query<JsonRow & { position: number }>(
            `SELECT step, -1 AS position, record FROM steps WHERE run_id = ?
              UNION ALL SELECT step, position, record FROM tool_calls WHERE run_id = ? ORDER BY 1, 2`,
            [runId, runId],
          ),
        ),
    },
    toolResults: {
      get: (id) =>
        first("SELECT record FROM tool_results WHERE id = ?", [id], parseRecord<ToolResultRecord>),
    },
    sessions: {
      ...createListing(source, "sessions"),
      get: async (ref) => (await sessions(keyOf(ref))).map(toSession)[0],
      getCheckpoint: (ref) =>
        first(
          "SELECT seq, record FROM turns WHERE session = ? AND covered IS NOT NULL ORDER BY seq DESC LIMIT 1",
          [keyOf(ref)],
          toTurn,
        ),
      async listTurns({
        limit = Number.MAX_SAFE_INTEGER,
        before = Number.MAX_SAFE_INTEGER,
        after = 0,
        ...ref
      }) {
        const rows = await turns(keyOf(ref), before, after, limit);
        return rows.map(toTurn).toSorted((a, b) => a.seq - b.seq);
      },
      listOfHooks: async ({ agentId, key }) =>
        (await hookSessions(key, agentId))
          .map(toSession)
          .toSorted((a, b) => b.lastUsedAt - a.lastUsedAt),
      listLastRoutes: (agentId) =>
        all(
          "SELECT agent, channel, recipient, thread, at FROM last_routes WHERE agent = ? ORDER BY at DESC",
          [agentId],
          (row: LastRouteRow) => toLastRoute(row),
        ),
    },
    systemEvents: {
      ...createListing(source, "systemEvents"),
      listQueued({ agentId, limit }) {
        const { columns, read } = PAGES.systemEvents;
        return all(
          `SELECT ${columns} FROM system_events WHERE agent = ? AND state = 'queued' ORDER BY seq LIMIT ?`,
          [agentId, limit],
          read,
        );
      },
    },
    deliveries: {
      ...createListing(source, "deliveries"),
      get: (id) => byId(PAGES.deliveries, id),
    },
    approvals: {
      ...createListing(source, "approvals"),
      get: (id) => byId(PAGES.approvals, id),
    },
    values: {
      get: (key) =>
        first(
          "SELECT value FROM meta WHERE key = ?",
          [key],
          ({ value }: { value: string }) => JSON.parse(value) as unknown,
        ),
    },
    configs: {
      get: (id) =>
        first(
          "SELECT seq, id, first_used, last_used, content FROM configs WHERE id = ?",
          [id],
          (row: ConfigRow) => toConfig(row),
        ),
    },
    failures: { sum: (query) => sumFailures(source, query) },
  };
}

/** Does something around each read. */
export type AroundRead = <T>(read: () => Promise<T>) => Promise<T>;

type Group = Record<string, (...of: never[]) => Promise<unknown>>;

/** The same reading side, with something done around each read. */
export function wrapReads<R extends object>(reads: R, around: AroundRead): R {
  const wrapGroup = (group: Group): Group =>
    Object.fromEntries(
      Object.entries(group).map(([verb, read]) => [
        verb,
        (...of: never[]) => around(() => read(...of)),
      ]),
    );
  const groups = Object.entries<Group>(reads as Record<string, Group>);
  return Object.fromEntries(groups.map(([name, group]) => [name, wrapGroup(group)])) as R;
}
