import { getExactInput } from "../../agent/tools/call-inputs.ts";
import { getTraceId } from "../../core/http/trace-context.ts";
import {
  type ApprovalRecord,
  type DeliveryRecord,
  type EventRecord,
  type FailedAttempt,
  type PastWait,
  type RunRecord,
  type RunSpec,
  type SessionRecord,
  type SessionRef,
  type StepRecord,
  type StoredRequest,
  type ToolCallRecord,
  type ToolOffer,
  type ToolOutput,
  type WaitReason,
  deliveryState,
  getOwnModel,
} from "../../store/types.ts";
import type { WaitState } from "../../core/breaker.ts";
import { LAST_CHANNEL } from "../../delivery/channels.ts";
import { getVerdicts } from "../../people/approvals.ts";
import { deliveryStatus } from "../../turns/receipts.ts";
import { given } from "./operation.ts";
import {
  renderAttempt,
  renderEvent,
  renderReason,
  renderTokens,
  renderVendor,
  renderWait,
} from "./texts.ts";

/** The operator's view of what is kept. Times are ISO 8601; what is not there is null, so that every row has all fields. */
export type EventView = ReturnType<typeof eventView>;
export type EventDetail = ReturnType<typeof eventDetail>;
export type RunView = ReturnType<typeof runView>;
export type RunDetail = ReturnType<typeof runDetail>;
export type StepView = ReturnType<typeof stepView>;
export type ToolCallView = ReturnType<typeof toolCallView>;
export type ApprovalView = ReturnType<typeof approvalView>;
export type DeliveryView = ReturnType<typeof deliveryView>;
export type DeliveryDetail = ReturnType<typeof deliveryDetail>;
export type SessionView = ReturnType<typeof unusedSession>;

export const iso = (ms: number): string => new Date(ms).toISOString();
export const isoOrNull = (ms: number | undefined): string | null =>
  ms === undefined ? null : iso(ms);

/** Returns some fields of a record. */
export const pick = <T extends object, K extends keyof T>(
  record: T,
  ...names: readonly K[]
): Pick<T, K> =>
  Object.fromEntries(names.map((name) => [name, record[name]])) as unknown as Pick<T, K>;

/** Returns some fields of a record; those that are not there are null. */
export const pickOrNull = <T extends object, K extends keyof T>(
  record: T | undefined,
  ...names: readonly K[]
) =>
  Object.fromEntries(names.map((name) => [name, record?.[name] ?? null])) as {
    [N in K]-?: Exclude<T[N], undefined> | null;
  };

/** Renders a body as text if it is UTF-8, else as base64. */
function renderBody(bytes: Uint8Array | null): {
  body: string | null;
  encoding: "utf8" | "base64";
} {
  if (bytes === null) return { body: null, encoding: "utf8" };
  try {
    return { body: new TextDecoder("utf-8", { fatal: true }).decode(bytes), encoding: "utf8" };
  } catch {
    return { body: Buffer.from(bytes).toString("base64"), encoding: "base64" };
  }
}

/** Renders what is kept of a request. */
function requestView(request: StoredRequest) {
  const { method, headers, query, contentType, body } = request;
  return { method, contentType: contentType ?? null, headers, query, ...renderBody(body) };
}

/** Renders an event; `statuses` are those of its runs, by id. */
export function eventView(event: EventRecord, statuses?: ReadonlyMap<string, string>) {
  return {
    id: event.id,
    receivedAt: iso(event.receivedAt),
    ...pick(event, "path", "credential", "outcome"),
    /** `nearest`: if no mapping matched, or one skipped it, the closest other one and its condition that failed. */
    ...pickOrNull(event, "address", "mapping", "nearest", "duplicateOf", "replayOf"),
    reason: renderReason(event),
    /** Its fate in a few words: the reason, or the names of its work. */
    text: renderEvent(event),
    /** The HTTP status that the sender was answered, if it was an error. */
    answerStatus: event.status ?? null,
    /** The number of its actions that failed beside others. */
    failedActions: event.failedActions ?? 0,
    missing: event.missing ?? [],
    /** Anything that was ignored, cut or replaced in its body and in its runs. */
    warnings: [
      ...new Set([
        ...(event.warnings ?? []),
        ...event.actions.flatMap((action) => (action.kind === "run" ? action.warnings : [])),
      ]),
    ],
    /** True if an operator has changed the body for the replay. */
    edited: event.edited ?? false,
    /** The end of an event that failed: its replay, or that it was discarded. */
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

/** The settings that only some kinds of runs have, with defaults for all other kinds. */
function withDefaults(spec: RunSpec) {
  const target = "target" in spec ? spec.target : "channel" in spec ? spec : undefined;
  return {
    deliver: "deliver" in spec ? spec.deliver : target !== undefined,
    channel: target?.channel ?? LAST_CHANNEL,
    to: target?.to,
    instructions: "instructions" in spec ? spec.instructions : undefined,
    model: "model" in spec ? spec.model : undefined,
    thinking: "thinking" in spec ? spec.thinking : undefined,
    timeoutSeconds: "timeoutSeconds" in spec ? spec.timeoutSeconds : undefined,
    wakeMode: "wakeMode" in spec ? spec.wakeMode : "next-heartbeat",
    unsafe: "unsafe" in spec && spec.unsafe,
  };
}

/** Renders the fields of a run, besides its message. */
function runFields(spec: RunSpec): Record<string, string | boolean> {
  const { session, name } = spec;
  return given({
    agentId: session.agentId,
    sessionKey: session.key,
    name,
    ...pick(withDefaults(spec), "deliver", "channel", "to", "model", "thinking", "wakeMode"),
  });
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

/** Renders the wait of a run. `until` is null if it is not known, or if nothing but other work ends the wait; `since` if no more is known. */
const waitView = (wait: WaitReason) => ({
  ...wait,
  text: renderWait(wait),
  since: isoOrNull(wait.since),
  until: "until" in wait ? isoOrNull(wait.until) : null,
});

/** A wait of a run that is over: what for, and how long. */
const pastWaitView = (wait: PastWait) => ({
  ...wait,
  text: renderWait(wait),
  since: iso(wait.since),
  until: iso(wait.until),
});

/** The records that are looked up for a run: the delivery of its reply, and its wait. */
export interface RunFacts {
  delivery: DeliveryRecord | undefined;
  waitsFor: WaitReason | undefined;
}

/** Renders a run. */
export function runView(run: RunRecord, { delivery, waitsFor }: RunFacts) {
  const { kind, spec } = run;
  const { session } = spec;
  const ofHook = kind === "hook" ? run : undefined;
  return {
    ...pick(run, "id", "eventId", "kind", "status", "attempts", "restarts", "warnings"),
    ...pickOrNull(run, "mapping", "error", "usage", "deliveryId"),
    /** The schedule that started the run, and the due time that it is for. */
    schedule: kind === "schedule" ? { ...spec.schedule, dueAt: iso(spec.schedule.dueAt) } : null,
    agentId: session.agentId,
    origin: session.origin,
    sessionKey: session.key,
    /** Whose session it is; null for other origins than hooks, and for keys of `hooks.sharedSessions`. */
    ...pickOrNull(session.via, "path", "credential"),
    ...pick(spec, "name", "hook"),
    model: run.model ?? getOwnModel(run) ?? null,
    /** The words of the provider about the error. */
    providerText: renderVendor(run.error),
    usageText: renderTokens(run.usage),
    delivery: deliveryStatus(run, delivery) ?? null,
    /** The reason that it waits, since when and until when; null if it is executed or has ended. */
    waitsFor: waitsFor ? waitView(waitsFor) : null,
    /** The delivery of a hook's receipt, if the mapping has a callback; the number of the config that made one run of its batch, if that was recorded. */
    ...pickOrNull(ofHook, "callbackId", "combinedBy"),
    /** The number of events of its batch. */
    collected: ofHook?.collect?.count ?? null,
    /** Null if nothing collected traces. */
    traceId: spec.trace ? getTraceId(spec.trace) : null,
    createdAt: iso(run.createdAt),
    startedAt: isoOrNull(run.startedAt),
    endedAt: isoOrNull(run.endedAt),
  };
}

/** Renders a breaker. Times are null if it is closed; `limit` is null if there is none. */
export const breakerView = ({ of, state, since, until, running, limit, waiting }: WaitState) => ({
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
  text: renderAttempt(model, error, waitedMs),
});

/** Renders a run with what the agent was given and what it replied. */
export function runDetail(run: RunRecord, facts: RunFacts) {
  const { kind, spec } = run;
  const settings = withDefaults(spec);
  return {
    ...runView(run, facts),
    input: spec.input,
    ...pickOrNull(run, "reply", "route"),
    ...pickOrNull(settings, "instructions", "to", "thinking", "timeoutSeconds"),
    ...pick(settings, "deliver", "channel", "wakeMode"),
    allowUnsafeExternalContent: settings.unsafe,
    /** Model calls at which tries of the run ended; those before an answer are in the steps. */
    failedAttempts: (run.failedAttempts ?? []).map(attemptView),
    /** Its waits before, oldest first: the newest 20. */
    waits: (run.waits ?? []).map(pastWaitView),
    /** The errors and the output of the mapping's code when it made one run of a batch; null if there was none. */
    debug: (kind === "hook" && spec.debug) || null,
  };
}

/** Returns the words of the model in a step, or its reasoning; null if there are none. */
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

/** Says who made the agent do the run. */
function describeAsker({ kind, spec }: RunRecord): string {
  const { hook, session } = spec;
  switch (kind) {
    case "channel": {
      const { from, owner } = spec.incoming;
      return `${from}${owner ? " (the owner)" : ""} on ${spec.channel}`;
    }
    case "hook":
      return session.via ? `hook ${session.via.path} (${session.via.credential})` : `hook ${hook}`;
    case "api":
      return `API key ${hook.replace(/^api:/, "")}`;
    case "schedule":
      return `schedule ${session.agentId}/${spec.schedule.id}`;
    case "heartbeat":
      return `heartbeat of ${session.agentId}`;
  }
}

/** Renders a question to a person about one call, and the answer; `run` if it is kept. */
export function approvalView(approval: ApprovalRecord, run: RunRecord | undefined) {
  const { input, askedAt, expiresAt, decision, refused = [] } = approval;
  return {
    ...pick(approval, "id", "code", "runId", "callId", "agentId", "tool", "reason", "why"),
    /** Null if none were given. */
    input: input ?? null,
    /** The one who made the agent do the run, in words; null if the run is not kept any more. */
    askedBy: run ? describeAsker(run) : null,
    /** The event that started the run. */
    eventId: run?.eventId ?? null,
    askedAt: iso(askedAt),
    expiresAt: iso(expiresAt),
    state: decision ? ("decided" as const) : ("open" as const),
    verdicts: [...getVerdicts(approval)],
    decision: decision
      ? { ...pick(decision, "verdict", "by"), at: iso(decision.at), note: decision.note ?? null }
      : null,
    /** Decisions that were refused, oldest first: the newest 20. */
    refused: refused.map((one) => ({ ...one, at: iso(one.at) })),
  };
}

/** The records that are shown with the steps of a run: the questions about its calls, oldest first. */
interface StepFacts {
  run: RunRecord;
  approvals: readonly ApprovalRecord[];
}

function toolCallView(call: ToolCallRecord, { run, approvals }: StepFacts) {
  return {
    ...pick(call, "id", "tool", "name", "state"),
    input: getExactInput(call),
    /** True if the tool declares that it changes nothing. */
    readOnly: call.readOnly ?? false,
    startedAt: isoOrNull(call.startedAt),
    endedAt: isoOrNull(call.endedAt),
    output: call.output ? outputView(call.output) : null,
    /** If the output was cut: the id and the length of its whole text, in UTF-16 units. */
    stored: call.stored ?? null,
    approvals: approvals
      .filter(({ callId }) => callId === call.id)
      .map((approval) => approvalView(approval, run)),
  };
}

/** The most names that a sentence lists. */
const MAX_NAMES = 20;

const nameTools = (names: readonly string[]): string =>
  names.slice(0, MAX_NAMES).join(", ") +
  (names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} more` : "");

/** Says what a run was offered of its agent's tools, and by which key of the config it was not offered the rest. */
const renderOffer = ({ offered, leftOut, by }: ToolOffer): string =>
  offered.length === 0
    ? `tools offered: none (${by})`
    : `tools offered: ${nameTools(offered)}; left out by ${by}: ${nameTools(leftOut)}`;

/** Renders a step of a run: one model call and the tool calls that it asked for. */
export function stepView(step: StepRecord, facts: StepFacts) {
  const failed = step.failedAttempts ?? [];
  return {
    ...pick(step, "index", "model", "finish", "usage"),
    /** The model that was asked first, if another one answered. */
    insteadOf: failed.find(({ model }) => model !== step.model)?.model ?? null,
    usageText: renderTokens(step.usage),
    startedAt: iso(step.startedAt),
    endedAt: iso(step.endedAt),
    /** Tries at the model call that gave no answer. */
    failedAttempts: failed.map(attemptView),
    thinking: getWords(step, "reasoning"),
    text: getWords(step, "text"),
    /** The agent's tools that were offered, in a first step to which not all were; null otherwise. */
    tools: step.offer ? renderOffer(step.offer) : null,
    calls: step.calls.map((call) => toolCallView(call, facts)),
  };
}

/** Renders a delivery. */
export function deliveryView(delivery: DeliveryRecord) {
  const { route } = delivery;
  return {
    ...pick(delivery, "id", "runId", "attempts", "messageIds"),
    /** `no_route`: it failed because no recipient was known. */
    status: deliveryState(delivery),
    /** Without a route: what the run asked for, a channel or `last`. */
    channel: route.channel,
    ...pickOrNull(route, "to", "thread"),
    chunks: delivery.chunks.length,
    sentChunks: Math.min(delivery.nextChunk, delivery.chunks.length),
    files: delivery.files?.length ?? 0,
    sentFiles: Math.max(delivery.nextChunk - delivery.chunks.length, 0),
    error: delivery.error ?? null,
    createdAt: iso(delivery.createdAt),
    nextAt: delivery.status === "pending" ? iso(delivery.nextAt) : null,
    endedAt: isoOrNull(delivery.endedAt),
  };
}

/** Renders a delivery with its messages. */
export function deliveryDetail(delivery: DeliveryRecord) {
  const { ask } = delivery;
  return {
    ...deliveryView(delivery),
    /** Its messages in order; the first `sentChunks` of them are sent. */
    texts: delivery.chunks,
    /** The files that follow the messages, in order. */
    attached: (delivery.files ?? []).map((file) => pick(file, "name", "mediaType", "bytes")),
    /** Anything that was sent in another way than it was meant to be. */
    warnings: delivery.warnings ?? [],
    /** Of a question about a tool call: the approval. */
    approvalId: ask?.approvalId ?? null,
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
    ...pickOrNull(via, "path", "credential"),
    turns: 0,
    ...times,
  };
}
