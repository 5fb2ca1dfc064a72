import type { SQLInputValue } from "node:sqlite";
import { sessionId } from "../types.ts";
import type { DedupeRecord, DeliveryRecord, EventRecord, LastRoute, ListQuery, Ms, RunRecord, SessionRecord, SessionRef, Store, SystemEvent, TurnRecord } from "../types.ts";
import { dedupeOf, eventOf, lastRouteOf, sessionOf, systemEventOf, type EventRow, type SessionRow, type SystemEventRow } from "./rows.ts";
import type { Statements } from "./statements.ts";

const DEFAULT_LIMIT = 50;

/** Conditions of a list, joined by AND. */
class Where {
  readonly #parts: string[] = ["1"];
  readonly values: SQLInputValue[] = [];

  and(sql: string, value: SQLInputValue | undefined): this {
    if (value === undefined) return this;
    this.#parts.push(sql);
    this.values.push(value);
    return this;
  }

  always(sql: string, on: boolean | undefined): this {
    if (on) this.#parts.push(sql);
    return this;
  }

  get sql(): string {
    return this.#parts.join(" AND ");
  }
}

/** The reading side over SQLite. Expects that the intake has caught up where runs or system events are read. */
export class Reads {
  readonly #sql: Statements;

  constructor(sql: Statements) {
    this.#sql = sql;
  }

  duplicate(scope: string, key: string, now: Ms): DedupeRecord | undefined {
    const row = this.#sql.get<{ restarts: number; record: string }>("SELECT restarts, record FROM dedupe WHERE scope = ? AND key = ? AND expires > ?", scope, key, now);
    return row && dedupeOf(row);
  }

  event(id: string): EventRecord | undefined {
    const row = this.#sql.get<EventRow>("SELECT * FROM events WHERE id = ?", id);
    return row && eventOf(row);
  }

  events(query: Parameters<Store["listEvents"]>[0]): EventRecord[] {
    const where = new Where()
      .and("id < ?", query.before)
      .and("at >= ?", query.since)
      .and("outcome = ?", query.outcome)
      .and("path = ?", query.path)
      .and("json_extract(head, '$.mapping') = ?", query.mapping)
      .always("EXISTS (SELECT 1 FROM runs WHERE runs.event_id = events.id AND runs.status IN ('failed', 'timed_out'))", query.failedRuns);
    return this.#sql.all<EventRow>(`SELECT * FROM events WHERE ${where.sql} ORDER BY seq DESC LIMIT ?`, ...where.values, limitOf(query)).map(eventOf);
  }

  run(id: string): RunRecord | undefined {
    const row = this.#sql.get<{ record: string }>("SELECT record FROM runs WHERE id = ?", id);
    return row && (JSON.parse(row.record) as RunRecord);
  }

  runs(query: Parameters<Store["listRuns"]>[0]): RunRecord[] {
    const where = new Where()
      .and("id < ?", query.before)
      .and("created >= ?", query.since)
      .and("status = ?", query.status)
      .and("session_key = ?", query.sessionKey)
      .and("event_id = ?", query.eventId);
    return this.#records<RunRecord>(`SELECT record FROM runs WHERE ${where.sql} ORDER BY seq DESC LIMIT ?`, where, query);
  }

  delivery(id: string): DeliveryRecord | undefined {
    const row = this.#sql.get<{ record: string }>("SELECT record FROM deliveries WHERE id = ?", id);
    return row && (JSON.parse(row.record) as DeliveryRecord);
  }

  deliveries(query: Parameters<Store["listDeliveries"]>[0]): DeliveryRecord[] {
    const where = new Where().and("id < ?", query.before).and("created >= ?", query.since).and("status = ?", query.status).and("channel = ?", query.channel);
    return this.#records<DeliveryRecord>(`SELECT record FROM deliveries WHERE ${where.sql} ORDER BY seq DESC LIMIT ?`, where, query);
  }

  #records<T>(sql: string, where: Where, query: ListQuery): T[] {
    return this.#sql.all<{ record: string }>(sql, ...where.values, limitOf(query)).map((row) => JSON.parse(row.record) as T);
  }

  turns(session: SessionRef): TurnRecord[] {
    const rows = this.#sql.all<{ seq: number; record: string }>("SELECT seq, record FROM turns WHERE session = ? ORDER BY seq", sessionId(session));
    return rows.map((row) => ({ ...(JSON.parse(row.record) as Omit<TurnRecord, "seq">), seq: row.seq }));
  }

  session(session: SessionRef): SessionRecord | undefined {
    const row = this.#sql.get<SessionRow>("SELECT * FROM sessions WHERE session = ?", sessionId(session));
    return row && sessionOf(row);
  }

  sessions(query: Parameters<Store["listSessions"]>[0]): SessionRecord[] {
    const where = new Where().and("used >= ?", query.since).and("origin = ?", query.origin).and("agent = ?", query.agentId);
    return this.#sql.all<SessionRow>(`SELECT * FROM sessions WHERE ${where.sql} ORDER BY used DESC LIMIT ?`, ...where.values, limitOf(query)).map(sessionOf);
  }

  queuedSystemEvents(agentId: string, limit: number): SystemEvent[] {
    return this.#sql.all<SystemEventRow>("SELECT * FROM system_events WHERE agent = ? AND state = 'queued' ORDER BY seq LIMIT ?", agentId, limit).map(systemEventOf);
  }

  systemEvents(query: Parameters<Store["listSystemEvents"]>[0]): SystemEvent[] {
    const where = new Where().and("id < ?", query.before).and("at >= ?", query.since).and("agent = ?", query.agentId).and("state = ?", query.state);
    return this.#sql.all<SystemEventRow>(`SELECT * FROM system_events WHERE ${where.sql} ORDER BY seq DESC LIMIT ?`, ...where.values, limitOf(query)).map(systemEventOf);
  }

  lastRoutes(agentId: string): LastRoute[] {
    return this.#sql.all<Parameters<typeof lastRouteOf>[0]>("SELECT * FROM last_routes WHERE agent = ? ORDER BY at DESC", agentId).map(lastRouteOf);
  }

  value(key: string): unknown {
    const row = this.#sql.get<{ value: string }>("SELECT value FROM meta WHERE key = ?", key);
    return row && (JSON.parse(row.value) as unknown);
  }

  counts(): Record<string, number> {
    const counts: Record<string, number> = {};
    const add = (name: string, sql: string): void => {
      for (const row of this.#sql.all<{ state: string; count: number }>(sql)) counts[`${name}.${row.state}`] = row.count;
    };
    add("events", "SELECT 'all' AS state, count(*) AS count FROM events");
    add("runs", "SELECT status AS state, count(*) AS count FROM runs GROUP BY status");
    add("deliveries", "SELECT status AS state, count(*) AS count FROM deliveries GROUP BY status");
    add("systemEvents", "SELECT state, count(*) AS count FROM system_events GROUP BY state");
    add("sessions", "SELECT origin AS state, count(*) AS count FROM sessions GROUP BY origin");
    add("jobs", "SELECT kind AS state, count(*) AS count FROM jobs GROUP BY kind");
    return counts;
  }
}

function limitOf(query: ListQuery): number {
  return Math.min(Math.max(query.limit ?? DEFAULT_LIMIT, 1), 1000);
}
