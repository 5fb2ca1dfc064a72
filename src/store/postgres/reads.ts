import { limitOf } from "../list-limit.ts";
import { eventOf, lastRouteOf, recordOf, runOf, sessionOf, systemEventOf, turnOf } from "../rows.ts";
import type { EventRow, JsonRow, LastRouteRow, RunRow, SessionRow, SystemEventRow } from "../rows.ts";
import { sessionId } from "../types.ts";
import type { Collected, DeliveryRecord, Ms, Store } from "../types.ts";
import { readCounts } from "./counts.ts";
import type { Db } from "./db.ts";
import { digest } from "./digest.ts";
import { recordsOf } from "./keys.ts";
import { listNewest, Where } from "./lists.ts";

type Reading = Omit<Store, "accept" | "commit" | "onSystemEvents" | "sweep" | "backup" | "close">;

const EVENT = "id, at, path, credential, outcome, mapping, head, actions, body";
const RUN = "spec, record";
const SYSTEM_EVENT = "seq, state, failures, record";
const SESSION = "session, agent, origin, key, path, credential, turns, created, used";
const FAILED_RUNS = "EXISTS (SELECT 1 FROM runs WHERE runs.event_id = events.id AND runs.status IN ('failed', 'timed_out'))";
/** Written out, so that the planner knows them for those of the index of open runs. */
const OPEN = ["parked", "collecting", "queued", "running"];

type SessionQuery = Parameters<Store["listSessions"]>[0];

async function sessions(db: Db, query: SessionQuery): Promise<SessionRow[]> {
  const start =
    query.before === undefined
      ? []
      : await db.query<{ used: Ms; id: Buffer }>("SELECT used, id FROM sessions WHERE id = $1", [digest(query.before)]);
  if (query.before !== undefined && start.length === 0) return [];
  return db.query<SessionRow>(
    `SELECT ${SESSION} FROM sessions
      WHERE used <= $1 AND ($2::bytea IS NULL OR (used, id) < ($1, $2)) AND used >= $3
        AND ($4::text IS NULL OR origin = $4) AND ($5::text IS NULL OR agent = $5)
      ORDER BY used DESC, id DESC LIMIT $6`,
    [start[0]?.used ?? Number.MAX_SAFE_INTEGER, start[0]?.id, query.since ?? 0, query.origin, query.agentId, limitOf(query)],
  );
}

/** The reading side over PostgreSQL. */
export function createReads(db: Db, now: () => Ms): Reading {
  const first = async <Row, T>(text: string, values: readonly unknown[], read: (row: Row) => T): Promise<T | undefined> => {
    const [row] = await db.query<Row>(text, values);
    return row === undefined ? undefined : read(row);
  };
  return {
    async findDuplicates(keys) {
      if (keys.length === 0) return [];
      const ids = keys.map(({ scope, key }) => digest(scope, key));
      const records = await recordsOf(db, ids);
      return ids.map((id) => {
        const record = records.get(id.toString("hex"));
        return record && record.expiresAt > now() ? record : undefined;
      });
    },
    getEvent: (id) => first<EventRow, ReturnType<typeof eventOf>>(`SELECT ${EVENT} FROM events WHERE id = $1`, [id], eventOf),
    async listEvents(query) {
      const where = new Where()
        .is("outcome", query.outcome)
        .is("path", query.path)
        .is("mapping", query.mapping)
        .always(FAILED_RUNS, query.failedRuns);
      return (await listNewest<EventRow>(db, { table: "events", columns: EVENT, at: "at", where, query })).map(eventOf);
    },
    getRun: (id) => first<RunRow, ReturnType<typeof runOf>>(`SELECT ${RUN} FROM runs WHERE id = $1`, [id], runOf),
    async listRuns(query) {
      const open = query.status !== undefined && OPEN.includes(query.status);
      const where = new Where()
        .is("status", open ? undefined : query.status)
        .always(`status = '${query.status}'`, open)
        .is("session_key", query.sessionKey)
        .is("event_id", query.eventId);
      return (await listNewest<RunRow>(db, { table: "runs", columns: RUN, at: "created", where, query })).map(runOf);
    },
    async getCollected(runId) {
      const rows = await db.query<JsonRow>("SELECT record FROM collected WHERE run_id = $1 ORDER BY seq", [runId]);
      return rows.map((row) => recordOf<Collected>(row));
    },
    getDelivery: (id) => first<JsonRow, DeliveryRecord>("SELECT record FROM deliveries WHERE id = $1", [id], (row) => recordOf(row)),
    async listDeliveries(query) {
      const where = new Where()
        .is("status", query.status === "failed" ? undefined : query.status)
        .always("status IN ('failed', 'no_route')", query.status === "failed")
        .is("channel", query.channel);
      const rows = await listNewest<JsonRow>(db, { table: "deliveries", columns: "record", at: "created", where, query });
      return rows.map((row) => recordOf<DeliveryRecord>(row));
    },
    async getTurns(session) {
      const rows = await db.query<JsonRow & { seq: number }>("SELECT seq, record FROM turns WHERE session = $1 ORDER BY seq", [
        digest(sessionId(session)),
      ]);
      return rows.map(turnOf);
    },
    getSession: (session) =>
      first<SessionRow, ReturnType<typeof sessionOf>>(
        `SELECT ${SESSION} FROM sessions WHERE id = $1`,
        [digest(sessionId(session))],
        sessionOf,
      ),
    async sessionsWithKey(agentId, key) {
      const text = `SELECT ${SESSION} FROM sessions WHERE key = $1 AND origin = 'hook' AND agent = $2 ORDER BY used DESC`;
      return (await db.query<SessionRow>(text, [key, agentId])).map(sessionOf);
    },
    listSessions: async (query) => (await sessions(db, query)).map(sessionOf),
    async queuedSystemEvents(agentId, limit) {
      const text = `SELECT ${SYSTEM_EVENT} FROM system_events WHERE agent = $1 AND state = 'queued' ORDER BY seq LIMIT $2`;
      return (await db.query<SystemEventRow>(text, [agentId, limit])).map(systemEventOf);
    },
    async listSystemEvents(query) {
      const where = new Where().is("agent", query.agentId).is("state", query.state);
      const rows = await listNewest<SystemEventRow>(db, { table: "system_events", columns: SYSTEM_EVENT, at: "at", where, query });
      return rows.map(systemEventOf);
    },
    async lastRoutes(agentId) {
      const text = "SELECT agent, channel, recipient, thread, at FROM last_routes WHERE agent = $1 ORDER BY at DESC";
      return (await db.query<LastRouteRow>(text, [agentId])).map(lastRouteOf);
    },
    getValue: (key) =>
      first<{ value: string }, unknown>("SELECT value FROM meta WHERE key = $1", [key], (row) => JSON.parse(row.value) as unknown),
    counts: () => readCounts(db),
  };
}
