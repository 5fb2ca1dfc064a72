import type {
  DeliveryRecord,
  EventRecord,
  RunRecord,
  RunSpec,
  SessionRecord,
  SessionRef,
  StoredRequest,
  SystemEvent,
  TurnRecord,
} from "../store/types.ts";
import type { DeliveryView, EventDetail, EventView, RunDetail, RunView, SessionDetail, SessionView, TurnView } from "./admin-types.ts";
import { deliveryStatus } from "../actions/receipts.ts";

const iso = (ms: number): string => new Date(ms).toISOString();
const isoOrNull = (ms: number | undefined): string | null => (ms === undefined ? null : iso(ms));

/** An event; `statuses` are those of its runs, by id. */
export function eventView(event: EventRecord, statuses?: ReadonlyMap<string, string>): EventView {
  return {
    id: event.id,
    receivedAt: iso(event.receivedAt),
    path: event.path,
    credential: event.credential,
    address: event.address ?? null,
    outcome: event.outcome,
    reason: event.reason ?? null,
    answerStatus: event.status ?? null,
    mapping: event.mapping ?? null,
    nearest: event.nearest ?? null,
    missing: event.missing ?? [],
    warnings: [...new Set(event.actions.flatMap((action) => (action.kind === "run" ? action.warnings : [])))],
    duplicateOf: event.duplicateOf ?? null,
    replayOf: event.replayOf ?? null,
    actions: event.actions.map((action) => {
      const id = action.kind === "run" ? action.runId : action.systemEventId;
      const status = statuses?.get(id);
      return { kind: action.kind, id, mapping: action.mapping ?? null, ...(status === undefined ? {} : { status }) };
    }),
    bodyBytes: event.request.body?.byteLength ?? null,
  };
}

function bodyOf(bytes: Uint8Array | null): Pick<EventDetail["request"], "body" | "encoding"> {
  if (bytes === null) return { body: null, encoding: "utf8" };
  try {
    return { body: new TextDecoder("utf-8", { fatal: true }).decode(bytes), encoding: "utf8" };
  } catch {
    return { body: Buffer.from(bytes).toString("base64"), encoding: "base64" };
  }
}

function requestView(request: StoredRequest): EventDetail["request"] {
  const { method, headers, query, contentType } = request;
  return { method, contentType: contentType ?? null, headers, query, ...bodyOf(request.body) };
}

/** What a run would have been given, besides its message. */
function fieldsOf({ session, name, channel, to, deliver, model, thinking, wakeMode }: RunSpec): Record<string, string | boolean> {
  const fields = { agentId: session.agentId, sessionKey: session.key, name, deliver, channel, to, model, thinking, wakeMode };
  return Object.fromEntries(Object.entries(fields).filter((entry): entry is [string, string | boolean] => entry[1] !== undefined));
}

export function eventDetail(event: EventRecord, statuses: ReadonlyMap<string, string>): EventDetail {
  const would = (event.would ?? []).map((action) =>
    action.kind === "run"
      ? { kind: action.kind, mapping: action.mapping ?? null, content: action.spec.input, fields: fieldsOf(action.spec) }
      : {
          kind: action.kind,
          mapping: action.mapping ?? null,
          content: action.text,
          fields: { agentId: action.agentId, mode: action.mode },
        },
  );
  return { ...eventView(event, statuses), would, debug: event.debug ?? null, request: requestView(event.request) };
}

export function runView(run: RunRecord, delivery: DeliveryRecord | undefined): RunView {
  const { session } = run.spec;
  return {
    id: run.id,
    eventId: run.eventId,
    kind: run.kind,
    mapping: run.mapping ?? null,
    status: run.status,
    agentId: session.agentId,
    origin: session.origin,
    sessionKey: session.key,
    path: session.via?.path ?? null,
    credential: session.via?.credential ?? null,
    name: run.spec.name,
    hook: run.spec.hook,
    model: run.model ?? run.spec.model ?? null,
    attempts: run.attempts,
    restarts: run.restarts,
    error: run.error ?? null,
    warnings: run.warnings,
    usage: run.usage ?? null,
    delivery: deliveryStatus(run, delivery) ?? null,
    deliveryId: run.deliveryId ?? null,
    callbackId: run.callbackId ?? null,
    parked: run.parked ? { ...run.parked, until: isoOrNull(run.parked.until) } : null,
    collected: run.collect?.count ?? null,
    createdAt: iso(run.createdAt),
    startedAt: isoOrNull(run.startedAt),
    endedAt: isoOrNull(run.endedAt),
  };
}

export function runDetail(run: RunRecord, delivery: DeliveryRecord | undefined): RunDetail {
  const { spec } = run;
  return {
    ...runView(run, delivery),
    input: spec.input,
    instructions: spec.instructions ?? null,
    reply: run.reply ?? null,
    route: run.route ?? null,
    deliver: spec.deliver,
    channel: spec.channel,
    to: spec.to ?? null,
    thinking: spec.thinking ?? null,
    timeoutSeconds: spec.timeoutSeconds ?? null,
    wakeMode: spec.wakeMode,
    allowUnsafeExternalContent: spec.unsafe,
    debug: spec.debug ?? null,
  };
}

export function sessionView(session: SessionRecord): SessionView {
  const { ref, turns, createdAt, lastUsedAt } = session;
  return { ...unusedSession(ref), turns, createdAt: iso(createdAt), lastUsedAt: iso(lastUsedAt) };
}

/** The main session of an agent that has taken no turn yet. */
export function unusedSession({ via, ...ref }: SessionRef): SessionView {
  return { ...ref, path: via?.path ?? null, credential: via?.credential ?? null, turns: 0, createdAt: null, lastUsedAt: null };
}

export function turnView(turn: TurnRecord): TurnView {
  return { seq: turn.seq, runId: turn.runId, at: iso(turn.at), hook: turn.hook, input: turn.input, messages: turn.messages };
}

export function queuedView(event: SystemEvent): SessionDetail["queued"][number] {
  return { id: event.id, at: iso(event.at), source: event.source, text: event.text, failures: event.failures };
}

export function deliveryView(delivery: DeliveryRecord): DeliveryView {
  const { route } = delivery;
  return {
    id: delivery.id,
    runId: delivery.runId,
    status: delivery.status,
    channel: route.channel,
    to: route.to ?? null,
    thread: route.thread ?? null,
    chunks: delivery.chunks.length,
    sentChunks: delivery.nextChunk,
    attempts: delivery.attempts,
    messageIds: delivery.messageIds,
    error: delivery.error ?? null,
    createdAt: iso(delivery.createdAt),
    nextAt: delivery.status === "pending" ? iso(delivery.nextAt) : null,
    endedAt: isoOrNull(delivery.endedAt),
  };
}
