import { constants, zstdCompressSync, zstdDecompressSync } from "node:zlib";
import {
  deliveryState,
  sessionId,
  type ApprovalRecord,
  type ConfigRecord,
  type DedupeRecord,
  type DeliveryRecord,
  type EventChange,
  type EventOutcome,
  type EventRecord,
  type JobKind,
  type LastRoute,
  type Ms,
  type NewDelivery,
  type RunRecord,
  type SessionOrigin,
  type SessionRecord,
  type SessionRef,
  type StepRecord,
  type StoredAction,
  type SystemEvent,
  type SystemEventState,
  type ToolCallRecord,
  type TurnRecord,
} from "../types.ts";

/** A time further ahead than this is of a clock that was wrong. */
export const AHEAD_MS = 60_000;
/** The times of records that retention counts from. */
const TIMES = ["receivedAt", "createdAt", "endedAt", "at"] as const;

/** The record without times from the future, which would keep its row for as much longer: they are `latest`, the present. */
export function clampTimes<T extends object>(record: T, latest: Ms): T {
  const fields = record as Partial<Record<(typeof TIMES)[number], unknown>>;
  const ahead = TIMES.filter((name) => {
    const at = fields[name];
    return typeof at === "number" && at > latest + AHEAD_MS;
  });
  return ahead.length === 0
    ? record
    : { ...record, ...Object.fromEntries(ahead.map((name) => [name, latest])) };
}

/** The part of an event that is kept as JSON: all that has no column. */
export type EventHead = Omit<
  EventRecord,
  "id" | "receivedAt" | "path" | "credential" | "outcome" | "mapping" | "actions" | "request"
> & {
  request: Omit<EventRecord["request"], "body">;
  /** The compression of the body, if it is compressed: Zstandard (RFC 8878). */
  packed?: "zstd";
};

/** Shorter bodies fit into a page with the rest of their row. */
const MIN_PACKED = 4096;

/** For JSON of some 20 KB: two thirds of the time that level 1 takes, or deflate, and a quarter more bytes. */
const ZSTD = { chunkSize: 8192, params: { [constants.ZSTD_c_compressionLevel]: -3 } };

/** A body as it is kept: JSON shrinks to an eighth in less time than it takes to write the rest to disk. */
export function packBody(body: Uint8Array | null): { body: Uint8Array | null; packed?: "zstd" } {
  if (body === null || body.length < MIN_PACKED) return { body };
  const packed = zstdCompressSync(body, ZSTD);
  return packed.length < body.length ? { body: packed, packed: "zstd" } : { body };
}

function unpackBody(body: Uint8Array): Uint8Array {
  const bytes = zstdDecompressSync(body);
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

/** An event as its row. `latest`: the present. */
export function toEventRow(event: EventRecord, latest: Ms): EventRow {
  const { id, receivedAt, path, credential, outcome, mapping, actions, request, ...rest } =
    clampTimes(event, latest);
  const { body: raw, ...requestHead } = request;
  const { body, packed } = packBody(raw);
  const head: EventHead = { ...rest, request: requestHead };
  if (packed) head.packed = packed;
  return {
    id,
    at: receivedAt,
    path,
    credential,
    outcome,
    mapping: mapping ?? null,
    head: JSON.stringify(head),
    actions: actions.length === 0 ? null : JSON.stringify(actions),
    body,
  };
}

export function toEvent(row: EventRow): EventRecord {
  const { packed, ...head } = JSON.parse(row.head) as EventHead;
  const event: EventRecord = {
    ...head,
    id: row.id,
    receivedAt: row.at,
    path: row.path,
    credential: row.credential,
    outcome: row.outcome,
    actions: row.actions === null ? [] : (JSON.parse(row.actions) as StoredAction[]),
    request: {
      ...head.request,
      body: packed && row.body ? unpackBody(row.body) : row.body,
    },
  };
  if (row.mapping !== null) event.mapping = row.mapping;
  return event;
}

/** The head of an event after a change. */
export const withEventChange = (head: string, change: EventChange): string =>
  JSON.stringify({ ...(JSON.parse(head) as EventHead), ...change });

export interface RunRow {
  /** Apart from the rest, since it is the long part and hardly ever changes. */
  spec: string;
  record: string;
}

export function toRun(row: RunRow): RunRecord {
  return { ...JSON.parse(row.record), spec: JSON.parse(row.spec) } as RunRecord;
}

/** A run as its row. */
export const toRunRow = ({ spec, ...run }: RunRecord) => ({
  id: run.id,
  event_id: run.eventId,
  session_key: spec.session.key,
  status: run.status,
  created: run.createdAt,
  ended: run.endedAt,
  mapping: run.mapping,
  spec: JSON.stringify(spec),
  record: JSON.stringify(run),
});

/** A delivery as it starts. */
export function newDeliveryRecord(delivery: NewDelivery): DeliveryRecord {
  const { createdAt, error } = delivery;
  const record: DeliveryRecord = {
    ...delivery,
    nextChunk: 0,
    status: "pending",
    attempts: 0,
    messageIds: [],
    nextAt: createdAt,
  };
  return error ? { ...record, status: "failed", endedAt: createdAt } : record;
}

/** The columns of a delivery that change. */
export const toDeliveryRow = (delivery: DeliveryRecord) => ({
  status: deliveryState(delivery),
  channel: delivery.route.channel,
  ended: delivery.endedAt,
  record: JSON.stringify(delivery),
});

/** A row whose record is all JSON. */
export interface JsonRow {
  record: string;
}

export function parseRecord<T>(row: JsonRow): T {
  return JSON.parse(row.record) as T;
}

export interface SystemEventRow extends JsonRow {
  seq: number;
  state: SystemEventState;
  failures: number;
}

export function toSystemEvent(row: SystemEventRow): SystemEvent {
  return {
    ...parseRecord<Omit<SystemEvent, "seq" | "state" | "failures">>(row),
    seq: row.seq,
    state: row.state,
    failures: row.failures,
  };
}

export interface TurnRow extends JsonRow {
  seq: number;
}

export function toTurn(row: TurnRow): TurnRecord {
  return { ...parseRecord<Omit<TurnRecord, "seq">>(row), seq: row.seq };
}

export interface SessionRow {
  session: string;
  agent: string;
  origin: SessionOrigin;
  key: string;
  path: string | null;
  credential: string | null;
  turns: number;
  created: number;
  used: number;
}

export function toSession({
  agent,
  origin,
  key,
  path,
  credential,
  turns,
  created,
  used,
}: SessionRow): SessionRecord {
  const ref: SessionRef = { agentId: agent, origin, key };
  if (path !== null && credential !== null) ref.via = { path, credential };
  return { ref, turns, createdAt: created, lastUsedAt: used };
}

/** A session that is used at a time, as its row. */
export const toSessionRow = (ref: SessionRef, at: number) => ({
  session: sessionId(ref),
  agent: ref.agentId,
  origin: ref.origin,
  key: ref.key,
  path: ref.via?.path,
  credential: ref.via?.credential,
  created: at,
  used: at,
});
export type NewSession = ReturnType<typeof toSessionRow>;

export interface LastRouteRow {
  agent: string;
  channel: string;
  recipient: string;
  thread: string | null;
  at: number;
}

export function toLastRoute(row: LastRouteRow): LastRoute {
  const route: LastRoute = {
    agentId: row.agent,
    channel: row.channel,
    to: row.recipient,
    at: row.at,
  };
  if (row.thread !== null) route.thread = row.thread;
  return route;
}

/** The part of a duplicate key that is kept as JSON: all that has no column. Rows of other versions have the columns in it too. */
export type DedupeRest = Omit<DedupeRecord, "scope" | "key" | "expiresAt">;

export interface DedupeRow extends JsonRow {
  scope: string;
  key: string;
  expires: number;
}

export function toDedupeRecord(row: DedupeRow): DedupeRecord {
  return {
    ...parseRecord<DedupeRest>(row),
    scope: row.scope,
    key: row.key,
    expiresAt: row.expires,
  };
}

/** A step as its row, without its calls. */
export const toStepRow = ({ calls: _calls, ...step }: StepRecord) => ({
  run_id: step.runId,
  step: step.index,
  at: step.endedAt,
  record: JSON.stringify(step),
});

/** A call as its row: what becomes of it is written without the rest of its step. */
export const toCallRow = (
  { runId, index, endedAt }: StepRecord,
  call: ToolCallRecord,
  position: number,
) => ({
  run_id: runId,
  step: index,
  position,
  id: call.id,
  at: endedAt,
  record: JSON.stringify(call),
});

export function toSteps(rows: readonly (JsonRow & { position: number })[]): StepRecord[] {
  const steps: StepRecord[] = [];
  for (const row of rows) {
    if (row.position < 0) steps.push({ ...parseRecord<Omit<StepRecord, "calls">>(row), calls: [] });
    else steps.at(-1)?.calls.push(parseRecord<ToolCallRecord>(row));
  }
  return steps;
}

/** An approval as its row. */
export const toApprovalRow = (approval: ApprovalRecord) => ({
  id: approval.id,
  run_id: approval.runId,
  code: approval.code,
  at: approval.askedAt,
  state: approval.decision ? "decided" : "open",
  record: JSON.stringify(approval),
});

/** A record with a change; null takes a field away. */
export function withChange<T extends object>(record: T, change: object): T {
  const changed = { ...record } as Record<string, unknown>;
  for (const [key, value] of Object.entries(change)) {
    if (value === null) delete changed[key];
    else if (value !== undefined) changed[key] = value;
  }
  return changed as T;
}

export interface ConfigRow {
  seq: number;
  id: string;
  first_used: Ms;
  last_used: Ms;
  content: string;
}

export const toConfig = ({ seq, id, first_used, last_used, content }: ConfigRow): ConfigRecord => ({
  number: seq,
  id,
  content,
  firstUsedAt: first_used,
  lastUsedAt: last_used,
});

export const JOB_KINDS: readonly JobKind[] = ["turn", "delivery", "command"];

/**
 * A job's `ready` below this number is its place in the line of jobs that may start immediately; from here on it is the time
 * at which a delay ends. Work without a delay so starts in its order whatever the clock says. In milliseconds since the
 * epoch the number is in September 2001.
 */
export const FIRST_TIME: Ms = 1e12;

/** The highest `ready` of jobs that may start at `now`. A clock that is set to before `FIRST_TIME` ends no delay, and holds back no line. */
export const getReadyUntil = (now: Ms): Ms => Math.max(now, FIRST_TIME - 1);

/** Returns the time of a delay that is not over at `now`, or 0 for a job that may start immediately. */
export const getDelayEnd = (runAt: Ms | undefined, now: Ms): Ms =>
  runAt !== undefined && runAt > now && runAt >= FIRST_TIME ? runAt : 0;
