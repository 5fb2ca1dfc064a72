import { getTraceId } from "../core/trace-context.ts";
import type {
  ApprovalRecord,
  DeliveryRecord,
  EventRecord,
  FailedAttempt,
  PastWait,
  RunRecord,
  RunSpec,
  SessionRecord,
  SessionRef,
  StepRecord,
  ToolCallRecord,
  ToolOffer,
  ToolOutput,
} from "../store/types.ts";
import type { WaitState } from "../core/breaker.ts";
import { deliveryStatus } from "../runs/receipts.ts";
import { requestView } from "./request-view.ts";
import type { Bookmark } from "./bookmarks.ts";
import type { BreakerView } from "./types.ts";
import type { WaitReason } from "../runs/wait-reason.ts";

/** The operator's view of what is kept. Times are ISO 8601; what is not there is null, so that every row has all fields. */
export type EventView = ReturnType<typeof eventView>;
export type BookmarkView = ReturnType<typeof bookmarkView>;
export type EventDetail = ReturnType<typeof eventDetail>;
export type RunView = ReturnType<typeof runView>;
export type RunDetail = ReturnType<typeof runDetail>;
export type StepView = ReturnType<typeof stepView>;
export type ToolCallView = ReturnType<typeof toolCallView>;
export type SessionView = ReturnType<typeof unusedSession>;

export const iso = (ms: number): string => new Date(ms).toISOString();
export const isoOrNull = (ms: number | undefined): string | null =>
  ms === undefined ? null : iso(ms);

/** Renders a bookmark. */
export const bookmarkView = ({ at, note }: Bookmark) => ({ at: iso(at), note: note ?? null });

/** Why an event has its outcome; of a skipped one also why no other mapping took it. */
function renderReason({ outcome, reason, nearest }: EventRecord): string | null {
  if (reason === undefined || outcome !== "skipped" || !nearest) return reason ?? null;
  return `${reason}; the closest other mapping is "${nearest.mapping}", whose ${nearest.condition} does not hold`;
}

/** Renders an event; `statuses` are those of its runs, by id. */
export function eventView(event: EventRecord, statuses?: ReadonlyMap<string, string>) {
  return {
    id: event.id,
    receivedAt: iso(event.receivedAt),
    path: event.path,
    credential: event.credential,
    address: event.address ?? null,
    outcome: event.outcome,
    reason: renderReason(event),
    /** The HTTP status that the sender was answered, if it was an error. */
    answerStatus: event.status ?? null,
    mapping: event.mapping ?? null,
    /** If no mapping matched, or one skipped it: the closest other one, and its condition that failed. */
    nearest: event.nearest ?? null,
    missing: event.missing ?? [],
    /** What was ignored, cut or replaced in its runs. */
    warnings: [
      ...new Set(event.actions.flatMap((action) => (action.kind === "run" ? action.warnings : []))),
    ],
    duplicateOf: event.duplicateOf ?? null,
    replayOf: event.replayOf ?? null,
    /** Whether an operator has changed the body for the replay. */
    edited: event.edited ?? false,
    /** What was done about an event that failed. */
    handled: event.handled ? { ...event.handled, at: iso(event.handled.at) } : null,
    /** Null if nothing collected traces when it came in. */
    traceId: event.trace ? getTraceId(event.trace) : null,
    actions: event.actions.map((action) => {
      const id = action.kind === "run" ? action.runId : action.systemEventId;
      const status = statuses?.get(id);
      const name = action.kind === "run" ? action.spec.name : null;
      return {
        kind: action.kind,
        id,
        mapping: action.mapping ?? null,
        name,
        ...(status === undefined ? {} : { status }),
      };
    }),
    /** Null once `hooks.retention` is over. */
    bodyBytes: event.request.body?.byteLength ?? null,
  };
}

/** What a run would have been given, besides its message. */
export function runFields({
  session,
  name,
  channel,
  to,
  deliver,
  model,
  thinking,
  wakeMode,
}: RunSpec): Record<string, string | boolean> {
  const fields = {
    agentId: session.agentId,
    sessionKey: session.key,
    name,
    deliver,
    channel,
    to,
    model,
    thinking,
    wakeMode,
  };
  return Object.fromEntries(
    Object.entries(fields).filter(
      (entry): entry is [string, string | boolean] => entry[1] !== undefined,
    ),
  );
}

/** Renders an event with its request, and with what mappings in shadow would have done. */
export function eventDetail(event: EventRecord, statuses: ReadonlyMap<string, string>) {
  const would = (event.would ?? []).map((action) => {
    const { kind, mapping = null } = action;
    if (kind === "none") return { kind, mapping, content: [], fields: { reason: action.reason } };
    const content = action.kind === "run" ? action.spec.input : action.text;
    const fields: Record<string, string | boolean> =
      action.kind === "run"
        ? runFields(action.spec)
        : { agentId: action.agentId, mode: action.mode };
    return { kind, mapping, content, fields };
  });
  return {
    ...eventView(event, statuses),
    would,
    debug: event.debug ?? null,
    request: requestView(event.request),
  };
}

/** What a run waits for. `until` is null if it is not known. */
function waitView(reason: WaitReason) {
  switch (reason.kind) {
    case "session":
    case "worker":
      return reason;
    case "limit":
      return { ...reason, until: isoOrNull(reason.until) };
    default:
      return { ...reason, until: iso(reason.until) };
  }
}

/** A wait of a run that is over: what for, and how long. */
const pastWaitView = ({ since, until, ...wait }: PastWait) => ({
  ...wait,
  since: iso(since),
  until: iso(until),
});

/** What is looked up for a run: the delivery of its reply, and what it waits for. */
export interface RunFacts {
  delivery: DeliveryRecord | undefined;
  waitsFor: WaitReason | undefined;
}

const scheduleMark = ({ schedule }: RunSpec) =>
  schedule ? { ...schedule, dueAt: iso(schedule.dueAt) } : null;

/** Renders a run. */
export function runView(run: RunRecord, { delivery, waitsFor }: RunFacts) {
  const { session } = run.spec;
  return {
    id: run.id,
    eventId: run.eventId,
    kind: run.kind,
    /** The schedule that started the run, and the due time that it is for. */
    schedule: scheduleMark(run.spec),
    mapping: run.mapping ?? null,
    status: run.status,
    agentId: session.agentId,
    origin: session.origin,
    sessionKey: session.key,
    /** Whose session it is; null for other origins than hooks, and for keys of `hooks.sharedSessions`. */
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
    /** The delivery of its receipt, if the mapping has a callback. */
    callbackId: run.callbackId ?? null,
    /** Why it waits, and until when; null if it is executed or has ended. */
    waitsFor: waitsFor ? waitView(waitsFor) : null,
    /** The limit or the model that it was parked for. */
    parked: run.parked ? { ...run.parked, until: isoOrNull(run.parked.until) } : null,
    /** The approvals that it waits for. */
    waiting: run.waiting ? { ...run.waiting, since: iso(run.waiting.since) } : null,
    /** How many events its batch has. */
    collected: run.collect?.count ?? null,
    /** The number of the config that made one run of its batch; null before that, and if it was not recorded. */
    combinedBy: run.combinedBy ?? null,
    /** Null if nothing collected traces. */
    traceId: run.spec.trace ? getTraceId(run.spec.trace) : null,
    createdAt: iso(run.createdAt),
    startedAt: isoOrNull(run.startedAt),
    endedAt: isoOrNull(run.endedAt),
  };
}

/** Renders a breaker. */
export const breakerView = ({
  of,
  state,
  since,
  until,
  running,
  limit,
  waiting,
}: WaitState): BreakerView => ({
  of,
  state,
  since: isoOrNull(since),
  nextTest: isoOrNull(until),
  running,
  limit: limit ?? null,
  waiting,
});

const attemptView = ({ at, model, error, waitedMs }: FailedAttempt) => ({
  at: iso(at),
  model,
  error,
  waitedMs: waitedMs ?? null,
});

/** Renders a run with what the agent was given and what it replied. */
export function runDetail(run: RunRecord, facts: RunFacts) {
  const { spec } = run;
  return {
    ...runView(run, facts),
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
    /** Model calls at which tries of the run ended; those before an answer are in the steps. */
    failedAttempts: (run.failedAttempts ?? []).map(attemptView),
    /** What it has waited for before, oldest first: the newest 20 waits. */
    waits: (run.waits ?? []).map(pastWaitView),
    /** What the mapping's code threw and printed when it made one run of a batch; null if nothing. */
    debug: spec.debug ?? null,
    /** The ids that the front end of an API user gave its chat and message. */
    correlation: spec.correlation ?? null,
  };
}

/** What the model said in a step, or its reasoning; null if there is none. */
function getWords({ messages }: StepRecord, type: "text" | "reasoning"): string | null {
  const words = (messages as { content?: string | { type: string; text?: string }[] }[]).flatMap(
    ({ content = [] }) =>
      (typeof content === "string" ? [{ type: "text", text: content }] : content).map((part) =>
        part.type === type ? (part.text ?? "") : "",
      ),
  );
  return words.join("") || null;
}

/** Renders what a tool answered. Of a file its size is shown, not its bytes. */
export function outputView({ parts, isError }: ToolOutput) {
  return {
    isError: isError ?? false,
    parts: parts.map((part) =>
      part.type === "text"
        ? part
        : {
            type: part.type,
            mediaType: part.mediaType,
            filename: part.filename ?? null,
            bytes: Buffer.byteLength(part.data, "base64"),
          },
    ),
  };
}

/** Renders a question to a person about one call, and the answer. */
function askedView({ id, code, reason, why, input, askedAt, expiresAt, decision }: ApprovalRecord) {
  const decided = decision
    ? { ...decision, note: decision.note ?? null, at: iso(decision.at) }
    : null;
  return {
    id,
    code,
    reason,
    why,
    input,
    askedAt: iso(askedAt),
    expiresAt: iso(expiresAt),
    decision: decided,
  };
}

/** Renders a tool call; `approvals` are those of its run, oldest first. */
function toolCallView(call: ToolCallRecord, approvals: readonly ApprovalRecord[]) {
  return {
    id: call.id,
    tool: call.tool,
    name: call.name,
    state: call.state,
    /** Whether the tool declares that it changes nothing. */
    readOnly: call.readOnly ?? false,
    input: call.input,
    startedAt: isoOrNull(call.startedAt),
    endedAt: isoOrNull(call.endedAt),
    output: call.output ? outputView(call.output) : null,
    /** If the output was cut: the id and the length of its whole text, in UTF-16 units. */
    stored: call.stored ?? null,
    approvals: approvals.filter(({ callId }) => callId === call.id).map(askedView),
  };
}

/** The most names that a sentence lists. */
const MAX_NAMES = 20;

const nameTools = (names: readonly string[]): string =>
  names.slice(0, MAX_NAMES).join(", ") +
  (names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} more` : "");

/** Says what a run was offered of its agent's tools, and by which key of the config it was not offered the rest. */
export const renderOffer = ({ offered, leftOut, by }: ToolOffer): string =>
  offered.length === 0
    ? `tools offered: none (${by})`
    : `tools offered: ${nameTools(offered)}; left out by ${by}: ${nameTools(leftOut)}`;

/** Renders a step of a run: one model call and the tool calls that it asked for. */
export function stepView(step: StepRecord, approvals: readonly ApprovalRecord[]) {
  const failed = step.failedAttempts ?? [];
  return {
    index: step.index,
    model: step.model,
    /** The model that was asked first, if another one answered. */
    insteadOf: failed.find(({ model }) => model !== step.model)?.model ?? null,
    finish: step.finish,
    usage: step.usage,
    startedAt: iso(step.startedAt),
    endedAt: iso(step.endedAt),
    /** Tries at the model call that gave no answer. */
    failedAttempts: failed.map(attemptView),
    thinking: getWords(step, "reasoning"),
    text: getWords(step, "text"),
    /** What was offered of the agent's tools, in a first step to which not all were; null otherwise. */
    tools: step.offer ? renderOffer(step.offer) : null,
    calls: step.calls.map((call) => toolCallView(call, approvals)),
  };
}

export function sessionView({ ref, turns, createdAt, lastUsedAt }: SessionRecord): SessionView {
  return { ...unusedSession(ref), turns, createdAt: iso(createdAt), lastUsedAt: iso(lastUsedAt) };
}

/** Renders the main session of an agent that has taken no turn yet. */
export function unusedSession({ via, ...ref }: SessionRef) {
  const times: { createdAt: string | null; lastUsedAt: string | null } = {
    createdAt: null,
    lastUsedAt: null,
  };
  // The hook path and the configured credential that it belongs to; null for other origins, and if it is shared.
  return {
    ...ref,
    path: via?.path ?? null,
    credential: via?.credential ?? null,
    turns: 0,
    ...times,
  };
}
