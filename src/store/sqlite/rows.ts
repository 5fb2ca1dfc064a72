import type {
  DedupeRecord,
  EventOutcome,
  EventRecord,
  LastRoute,
  RunRecord,
  RunSpec,
  SessionOrigin,
  SessionRecord,
  StoredAction,
  SystemEvent,
  SystemEventState,
  TurnRecord,
} from "../types.ts";

/** What of an event is kept as JSON: all that has no column. */
export type EventHead = Omit<EventRecord, "id" | "receivedAt" | "path" | "credential" | "outcome" | "mapping" | "actions" | "request"> & {
  request: Omit<EventRecord["request"], "body">;
};

export interface EventRow {
  id: string;
  at: number;
  path: string;
  credential: string;
  outcome: EventOutcome;
  mapping: string | null;
  head: string;
  actions: string | null;
  body: Uint8Array | null;
}

export function eventOf(row: EventRow): EventRecord {
  const head = JSON.parse(row.head) as EventHead;
  const event: EventRecord = {
    ...head,
    id: row.id,
    receivedAt: row.at,
    path: row.path,
    credential: row.credential,
    outcome: row.outcome,
    actions: row.actions === null ? [] : (JSON.parse(row.actions) as StoredAction[]),
    request: { ...head.request, body: row.body },
  };
  if (row.mapping !== null) event.mapping = row.mapping;
  return event;
}

export interface RunRow {
  /** Apart from the rest, since it is the long part and hardly ever changes. */
  spec: string;
  record: string;
}

export function runOf(row: RunRow): RunRecord {
  return { ...(JSON.parse(row.record) as Omit<RunRecord, "spec">), spec: JSON.parse(row.spec) as RunSpec };
}

/** A row whose record is all JSON. */
export interface JsonRow {
  record: string;
}

export function recordOf<T>(row: JsonRow): T {
  return JSON.parse(row.record) as T;
}

export interface SystemEventRow extends JsonRow {
  seq: number;
  state: SystemEventState;
  failures: number;
}

export function systemEventOf(row: SystemEventRow): SystemEvent {
  return { ...recordOf<Omit<SystemEvent, "seq" | "state" | "failures">>(row), seq: row.seq, state: row.state, failures: row.failures };
}

export function turnOf(row: JsonRow & { seq: number }): TurnRecord {
  return { ...recordOf<Omit<TurnRecord, "seq">>(row), seq: row.seq };
}

export interface SessionRow {
  session: string;
  agent: string;
  origin: SessionOrigin;
  key: string;
  turns: number;
  created: number;
  used: number;
}

export function sessionOf(row: SessionRow): SessionRecord {
  return { ref: { agentId: row.agent, origin: row.origin, key: row.key }, turns: row.turns, createdAt: row.created, lastUsedAt: row.used };
}

export interface LastRouteRow {
  agent: string;
  channel: string;
  recipient: string;
  thread: string | null;
  at: number;
}

export function lastRouteOf(row: LastRouteRow): LastRoute {
  const route: LastRoute = { agentId: row.agent, channel: row.channel, to: row.recipient, at: row.at };
  if (row.thread !== null) route.thread = row.thread;
  return route;
}

export function dedupeOf(row: JsonRow & { restarts: number }): DedupeRecord {
  return { ...recordOf<Omit<DedupeRecord, "restarts">>(row), restarts: row.restarts };
}
