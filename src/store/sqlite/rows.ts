import type { DedupeRecord, EventOutcome, EventRecord, LastRoute, SessionOrigin, SessionRecord, StoredAction, SystemEvent, SystemEventState } from "../types.ts";

export interface EventRow {
  id: string;
  at: number;
  path: string;
  credential: string;
  outcome: EventOutcome;
  head: string;
  actions: string | null;
  body: Uint8Array | null;
}

export function eventOf(row: EventRow): EventRecord {
  const head = JSON.parse(row.head) as Omit<EventRecord, "id" | "receivedAt" | "path" | "credential" | "outcome" | "actions">;
  return {
    ...head,
    id: row.id,
    receivedAt: row.at,
    path: row.path,
    credential: row.credential,
    outcome: row.outcome,
    actions: row.actions === null ? [] : (JSON.parse(row.actions) as StoredAction[]),
    request: { ...head.request, body: row.body },
  };
}

export interface SystemEventRow {
  seq: number;
  state: SystemEventState;
  failures: number;
  record: string;
}

export function systemEventOf(row: SystemEventRow): SystemEvent {
  return { ...(JSON.parse(row.record) as Omit<SystemEvent, "seq" | "state" | "failures">), seq: row.seq, state: row.state, failures: row.failures };
}

export interface SessionRow {
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

export function lastRouteOf(row: { agent: string; channel: string; recipient: string; thread: string | null; at: number }): LastRoute {
  const route: LastRoute = { agentId: row.agent, channel: row.channel, to: row.recipient, at: row.at };
  if (row.thread !== null) route.thread = row.thread;
  return route;
}

export function dedupeOf(row: { restarts: number; record: string }): DedupeRecord {
  return { ...(JSON.parse(row.record) as Omit<DedupeRecord, "restarts">), restarts: row.restarts };
}
