import { sessionId } from "../types.ts";
import type {
  Collected,
  DedupeRecord,
  DeliveryRecord,
  EventRecord,
  LastRoute,
  Ms,
  RunRecord,
  SessionRecord,
  SessionRef,
  Store,
  SystemEvent,
  TurnRecord,
} from "../types.ts";
import { limitOf } from "../list-limit.ts";
import { listNewest, Where } from "./lists.ts";
import { findKey } from "./keys.ts";
import { eventOf, lastRouteOf, recordOf, runOf, sessionOf, systemEventOf, turnOf } from "../rows.ts";
import type { EventRow, JsonRow, LastRouteRow, RunRow, SessionRow, SystemEventRow } from "../rows.ts";
import type { Statements } from "./statements.ts";

type Query<K extends "listEvents" | "listRuns" | "listDeliveries" | "listSessions" | "listSystemEvents"> = Parameters<Store[K]>[0];

const FAILED_RUNS = "EXISTS (SELECT 1 FROM runs WHERE runs.event_id = events.id AND runs.status IN ('failed', 'timed_out'))";
/** Sessions that are looked at between two turns of the event loop. */
const SESSIONS_AT_ONCE = 1000;

/** The reading side over SQLite. Expects that accepted events have been taken up where runs or system events are read. */
export class Reads {
  readonly #sql: Statements;

  constructor(sql: Statements) {
    this.#sql = sql;
  }

  duplicate(scope: string, key: string, now: Ms): DedupeRecord | undefined {
    return findKey(this.#sql, scope, key, now);
  }

  event(id: string): EventRecord | undefined {
    const row = this.#sql.get<EventRow>("SELECT * FROM events WHERE id = ?", id);
    return row && eventOf(row);
  }

  async events(query: Query<"listEvents">): Promise<EventRecord[]> {
    const where = new Where()
      .and("outcome = ?", query.outcome)
      .and("path = ?", query.path)
      .and("mapping = ?", query.mapping)
      .always(FAILED_RUNS, query.failedRuns);
    const rows = await listNewest<EventRow>(this.#sql, { table: "events", at: "at", where, query });
    return rows.map(eventOf);
  }

  run(id: string): RunRecord | undefined {
    const row = this.#sql.get<RunRow>("SELECT spec, record FROM runs WHERE id = ?", id);
    return row && runOf(row);
  }

  async runs(query: Query<"listRuns">): Promise<RunRecord[]> {
    const where = new Where().and("status = ?", query.status).and("session_key = ?", query.sessionKey).and("event_id = ?", query.eventId);
    const rows = await listNewest<RunRow>(this.#sql, { table: "runs", at: "created", where, query });
    return rows.map(runOf);
  }

  collected(runId: string): Collected[] {
    return this.#sql
      .all<JsonRow>("SELECT record FROM collected WHERE run_id = ? ORDER BY seq", runId)
      .map((row) => recordOf<Collected>(row));
  }

  delivery(id: string): DeliveryRecord | undefined {
    const row = this.#sql.get<JsonRow>("SELECT record FROM deliveries WHERE id = ?", id);
    return row && recordOf<DeliveryRecord>(row);
  }

  async deliveries(query: Query<"listDeliveries">): Promise<DeliveryRecord[]> {
    const where = new Where()
      .and("status = ?", query.status === "failed" ? undefined : query.status)
      .always("status IN ('failed', 'no_route')", query.status === "failed")
      .and("channel = ?", query.channel);
    const rows = await listNewest<JsonRow>(this.#sql, { table: "deliveries", at: "created", where, query });
    return rows.map((row) => recordOf<DeliveryRecord>(row));
  }

  turns(session: SessionRef): TurnRecord[] {
    return this.#sql
      .all<JsonRow & { seq: number }>("SELECT seq, record FROM turns WHERE session = ? ORDER BY seq", sessionId(session))
      .map(turnOf);
  }

  session(session: SessionRef): SessionRecord | undefined {
    const row = this.#sql.get<SessionRow>("SELECT * FROM sessions WHERE session = ?", sessionId(session));
    return row && sessionOf(row);
  }

  sessionsWithKey(agentId: string, key: string): SessionRecord[] {
    return this.#sql
      .all<SessionRow>("SELECT * FROM sessions WHERE key = ? AND origin = 'hook' AND agent = ? ORDER BY used DESC", key, agentId)
      .map(sessionOf);
  }

  /** The last used first. An id, for `before`, is `sessionId` of a session. */
  async sessions(query: Query<"listSessions">): Promise<SessionRecord[]> {
    const limit = limitOf(query);
    const start =
      query.before === undefined ? undefined : this.#sql.get<SessionRow>("SELECT * FROM sessions WHERE session = ?", query.before);
    if (query.before !== undefined && !start) return [];
    let after: [number, string] = start ? [start.used, start.session] : [Number.MAX_SAFE_INTEGER, ""];
    const found: SessionRow[] = [];
    for (;;) {
      const rows = this.#sql.all<SessionRow>(
        "SELECT * FROM sessions WHERE (used, session) < (?, ?) AND used >= ? ORDER BY used DESC, session DESC LIMIT ?",
        ...after,
        query.since ?? 0,
        SESSIONS_AT_ONCE,
      );
      for (const row of rows) {
        const wanted =
          (query.origin === undefined || row.origin === query.origin) && (query.agentId === undefined || row.agent === query.agentId);
        if (wanted && found.push(row) === limit) return found.map(sessionOf);
      }
      const last = rows.at(-1);
      if (!last || rows.length < SESSIONS_AT_ONCE) return found.map(sessionOf);
      after = [last.used, last.session];
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  queuedSystemEvents(agentId: string, limit: number): SystemEvent[] {
    return this.#sql
      .all<SystemEventRow>("SELECT * FROM system_events WHERE agent = ? AND state = 'queued' ORDER BY seq LIMIT ?", agentId, limit)
      .map(systemEventOf);
  }

  async systemEvents(query: Query<"listSystemEvents">): Promise<SystemEvent[]> {
    const where = new Where().and("agent = ?", query.agentId).and("state = ?", query.state);
    const rows = await listNewest<SystemEventRow>(this.#sql, { table: "system_events", at: "at", where, query });
    return rows.map(systemEventOf);
  }

  lastRoutes(agentId: string): LastRoute[] {
    return this.#sql.all<LastRouteRow>("SELECT * FROM last_routes WHERE agent = ? ORDER BY at DESC", agentId).map(lastRouteOf);
  }

  value(key: string): unknown {
    const row = this.#sql.get<{ value: string }>("SELECT value FROM meta WHERE key = ?", key);
    return row && (JSON.parse(row.value) as unknown);
  }

  counts(): { name: string; n: number }[] {
    return this.#sql.all<{ name: string; n: number }>("SELECT name, n FROM counts ORDER BY name");
  }
}
