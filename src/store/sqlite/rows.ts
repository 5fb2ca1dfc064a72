import { deflateRawSync, inflateRawSync } from "node:zlib";
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
  /** Set where the body is kept deflated (RFC 1951). */
  packed?: true;
};

/** Shorter bodies fit into a page with the rest of their row. */
const MIN_PACKED = 4096;

/** A body as it is kept: JSON shrinks to a tenth in less time than it takes to write the rest to disk. */
export function packBody(body: Uint8Array | null): { body: Uint8Array | null; packed: boolean } {
  if (body === null || body.length < MIN_PACKED) return { body, packed: false };
  const packed = deflateRawSync(body, { level: 1, chunkSize: 8192 });
  return packed.length < body.length ? { body: packed, packed: true } : { body, packed: false };
}

function unpackBody(body: Uint8Array): Uint8Array {
  const bytes = inflateRawSync(body);
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

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
  const { packed, ...head } = JSON.parse(row.head) as EventHead;
  const event: EventRecord = {
    ...head,
    id: row.id,
    receivedAt: row.at,
    path: row.path,
    credential: row.credential,
    outcome: row.outcome,
    actions: row.actions === null ? [] : (JSON.parse(row.actions) as StoredAction[]),
    request: { ...head.request, body: packed && row.body ? unpackBody(row.body) : row.body },
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

/** What of a duplicate key is kept as JSON: all that has no column. Rows of other versions have the columns in it too. */
export type DedupeRest = Omit<DedupeRecord, "restarts" | "scope" | "key" | "expiresAt">;

export interface DedupeRow extends JsonRow {
  scope: string;
  key: string;
  expires: number;
  restarts: number;
}

export function dedupeOf(row: DedupeRow): DedupeRecord {
  return { ...recordOf<DedupeRest>(row), scope: row.scope, key: row.key, expiresAt: row.expires, restarts: row.restarts };
}
