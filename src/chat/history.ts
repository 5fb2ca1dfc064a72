import type { ToolCallPart } from "ai";
import type { ConversationMessage, ConversationPart } from "../agent/types.ts";
import type { AnsweredTurn } from "../turns/try.ts";
import type { TextPart } from "../core/text.ts";
import type {
  NewTurn,
  ApiRun,
  RunRecord,
  SessionRef,
  Reads,
  Store,
  TurnRecord,
  RunError,
  StepRecord,
} from "../store/types.ts";
import {
  findTurn,
  getHistoryLimits,
  getLastTurn,
  NO_HISTORY,
  readHistory,
  type SessionHistory,
} from "../turns/session-history.ts";
import type { ActionContext } from "../turns/types.ts";
import type { ChatRequest, ChatEnd } from "./types.ts";
import { toAssistantParts, toCallRecord } from "../agent/messages.ts";
import { getModelCallId, getParts, getRunId, toHistoryMessages } from "../agent/steps.ts";
import { toCallPart } from "../agent/tools/call-inputs.ts";
import { toToolMessage } from "../agent/tools/tool-results.ts";
import { sha256Hex } from "../core/secret.ts";

/** Turns of one conversation that are looked up: those that come last. */
const MAX_RUNS = 100;

const getIdsOfCalls = (message: ConversationMessage): string[] => {
  if (message.role === "tool") return [message.callId];
  return message.role === "assistant" ? message.calls.map(({ id }) => id) : [];
};

/** An id that every provider accepts: those that name a run are longer than some do. */
const toShortId = (callerId: string): string => `call_${sha256Hex(callerId).slice(0, 24)}`;

/** Puts the inputs of calls that a caller sent, and may have changed, into the messages of their turn. */
const withInputs = (
  messages: readonly unknown[],
  inputs: ReadonlyMap<string, unknown>,
): unknown[] =>
  messages.map((message) => {
    const content = getParts(message).map((part) => {
      const { type, toolCallId: id } = part;
      return type === "tool-call" && typeof id === "string" && inputs.has(id)
        ? toCallPart({ ...(part as ToolCallPart), input: inputs.get(id) })
        : part;
    });
    return content.length === 0 ? message : { ...(message as object), content };
  });

/**
 * Puts the steps of a turn in place of what its caller has of it, if the ids of its calls name the turn: so the model sees the
 * results of the agent's tools, and does not call them again, and a provider gets the thoughts that belong to the calls. What
 * is no longer kept stays as the caller sent it.
 */
export async function restoreServerSteps(
  messages: readonly ConversationMessage[],
  runs: Pick<EarlierRuns, "getSteps">,
  owner: RunOwner,
): Promise<readonly ConversationMessage[]> {
  const runIds = [...new Set(messages.flatMap(getIdsOfCalls).flatMap((id) => getRunId(id) ?? []))];
  if (runIds.length === 0) return messages;
  const found = new Map<string, StepRecord[]>();
  for (const runId of runIds.slice(-MAX_RUNS)) {
    const steps = await runs.getSteps(runId, owner);
    if (steps) found.set(runId, [...steps]);
  }
  const getSteps = (callerId: string): readonly StepRecord[] | undefined =>
    found.get(getRunId(callerId) ?? "");
  const toId = (callerId: string): string => {
    if (getRunId(callerId) === undefined) return callerId;
    return getModelCallId(callerId, getSteps(callerId) ?? []) ?? toShortId(callerId);
  };
  const restored = new Set<readonly StepRecord[]>();
  return messages.map((message): ConversationMessage => {
    if (message.role === "tool") return { ...message, callId: toId(message.callId) };
    if (message.role !== "assistant") return message;
    const steps = message.calls
      .map(({ id }) => getSteps(id))
      .find((one) => one?.every(({ messages: said }) => said.length > 0));
    const calls = message.calls.map((call) => ({ ...call, id: toId(call.id) }));
    if (!steps) return { ...message, calls };
    // Some programs send each call of a step in a message of its own, with its result.
    if (restored.has(steps)) return { role: "steps", messages: [] };
    restored.add(steps);
    const inputs = new Map(calls.map(({ id, input }) => [id, input]));
    return { role: "steps", messages: withInputs(steps.flatMap(toHistoryMessages), inputs) };
  });
}

/** Whose runs: those of a key, of one of its agents. */
export interface RunOwner {
  keyId: string;
  agentId: string;
}

/** A response that can be read again. */
export interface StoredResponse extends Pick<RunRecord, "createdAt" | "status"> {
  runId: string;
  agentId: string;
  /** The fields of its request that it repeats. */
  echo: Readonly<Record<string, unknown>>;
  /** Undefined if the turn has no answer. */
  end: Omit<Extract<ChatEnd, { ok: true }>, "ok"> | undefined;
  error: Pick<RunError, "code" | "message"> | undefined;
}

/** The earlier turns that an API's user may refer to. Runs of another key or agent are not among them. */
export type EarlierRuns = ReturnType<typeof createEarlierRuns>;

export function createEarlierRuns(store: Reads) {
  const findOfKey = async (runId: string, keyId: string) => {
    const run = await store.runs.get(runId);
    const { agentId, key } = run?.spec.session ?? {};
    return run?.kind === "api" && key?.startsWith(`api:${keyId}:${agentId}:`) ? run : undefined;
  };
  const find = async (runId: string, { keyId, agentId }: RunOwner) => {
    const run = await findOfKey(runId, keyId);
    return run?.spec.session.agentId === agentId ? run : undefined;
  };
  return {
    find,
    /** Returns a run whose turn is kept in its session, so that another turn can follow it. */
    async findKept(runId: string, owner: RunOwner) {
      const run = await find(runId, owner);
      return run && (await findTurn(store, run.spec.session, runId)) ? run : undefined;
    },
    /** Returns the steps of a run, without messages if their content is no longer kept; undefined if there are none. */
    async getSteps(runId: string, owner: RunOwner): Promise<readonly StepRecord[] | undefined> {
      const steps = (await find(runId, owner)) ? await store.steps.list(runId) : [];
      return steps.length > 0 ? steps : undefined;
    },
    /** Returns a response that can be read again, of any agent of the key. */
    async findResponse(runId: string, keyId: string): Promise<StoredResponse | undefined> {
      const run = await findOfKey(runId, keyId);
      if (!run?.spec.response) return undefined;
      const { createdAt, status, spec, reply = "", answer, usage = {}, error } = run;
      return {
        runId,
        agentId: spec.session.agentId,
        createdAt,
        status,
        echo: run.spec.response,
        end: answer && { ...answer, text: reply, usage },
        error,
      };
    },
  };
}

/** The history that a turn begins with, and the form in which its session keeps the turn. */
export interface ChatHistory {
  /** The session of the turn: a branch of a conversation has one of its own. */
  session: SessionRef;
  history: SessionHistory;
  /** True if the history is all of the session up to now: only then a checkpoint may be made of it. */
  isWhole: boolean;
  /** Turns that a branch takes over. */
  copied: readonly NewTurn[];
  /** The input that is kept: the one message of the user as the turn's input, several messages as they are, or nothing. */
  store: "turn" | "nothing" | readonly unknown[];
}

function renderPart(part: ConversationPart): string {
  if (part.type === "text") return part.text;
  return part.type === "image" ? `[image ${part.mediaType}]` : `[file ${part.filename}]`;
}

/** The user's last message, as the run's record and the session keep it: its words, then its files. Images are only named. */
export function buildInput(messages: readonly ConversationMessage[]): TextPart[] {
  const last = messages.findLast((message) => message.role === "user");
  if (last?.role !== "user") return [];
  const files = last.parts.flatMap((part) =>
    part.type === "document" ? [{ text: `${part.filename}:\n${part.text}`, outside: true }] : [],
  );
  return [{ text: last.parts.map(renderPart).join("\n"), outside: false }, ...files];
}

const getCallIds = (messages: readonly unknown[], type: string): unknown[] =>
  messages.flatMap((message) =>
    getParts(message).flatMap((part) => (part.type === type ? [part.toolCallId] : [])),
  );

/** A message as a session keeps it: the form that the runtime reads, images only named. */
function messageToKeep(message: ConversationMessage): unknown {
  switch (message.role) {
    case "steps":
      return message.messages;
    case "user":
      return { role: "user", content: buildInput([message])[0]?.text ?? "" };
    case "assistant":
      return { role: "assistant", content: toAssistantParts(message) };
    case "tool":
      return toToolMessage([toCallRecord(message)], { files: false });
  }
}

/**
 * A caller that answers the tool calls of the last kept turn sends them along with everything before, which is its own
 * history from then on. The results are kept all the same, so that the session's next turn knows how the calls ended.
 */
function answeredCalls(
  messages: readonly ConversationMessage[],
  last: TurnRecord | undefined,
): readonly ConversationMessage[] | undefined {
  const kept = last?.messages ?? [];
  const done = getCallIds(kept, "tool-result");
  const open = getCallIds(kept, "tool-call").filter((id) => !done.includes(id));
  const results = messages.slice(messages.findLastIndex((message) => message.role !== "tool") + 1);
  const given = new Set<unknown>(
    results.map((message) => (message.role === "tool" ? message.callId : "")),
  );
  return open.length > 0 && open.every((id) => given.has(id)) ? results : undefined;
}

const asNew = ({ seq: _seq, ...turn }: TurnRecord): NewTurn => turn;

const keepAll = (messages: readonly ConversationMessage[]): ChatHistory["store"] =>
  messages.length === 1 && messages[0]?.role === "user" ? "turn" : messages.flatMap(messageToKeep);

/** A branch begins with the turns that it takes over, and with the checkpoint of those before them. */
function buildBranch({ checkpoint, turns }: SessionHistory): NewTurn[] {
  const copied = turns.map(asNew);
  if (!checkpoint?.checkpoint) return copied;
  return [
    { ...asNew(checkpoint), checkpoint: { ...checkpoint.checkpoint, upTo: 0, covered: 0 } },
    ...copied,
  ];
}

/** Reads the part of a turn's conversation that the server keeps, as much as the model's window has room for. */
export async function historyFor(
  request: ChatRequest,
  run: ApiRun,
  context: ActionContext,
  store: Store,
): Promise<ChatHistory> {
  const { agent, session: wanted, messages } = request;
  const { session } = run.spec;
  const read = (before?: number): Promise<SessionHistory> =>
    readHistory(store, session, getHistoryLimits({ agent, context }, session), before);
  const none = { session, history: NO_HISTORY, isWhole: false, copied: [] };
  if (wanted.kind === "none") return { ...none, store: "nothing" };
  if (wanted.kind === "new") return { ...none, store: keepAll(messages) };
  if (request.callerKeepsHistory) {
    const answered = answeredCalls(messages, await getLastTurn(store, session));
    return { ...none, store: answered ? answered.flatMap(messageToKeep) : "nothing" };
  }
  if (wanted.kind === "named") {
    const history = await read();
    const keep = keepAll(withToolNames(messages, history.turns));
    return { session, history, isWhole: true, copied: [], store: keep };
  }
  const last = await findTurn(store, session, wanted.run.id);
  const history = last ? await read(last.seq + 1) : NO_HISTORY;
  if (!wanted.keep) return { ...none, history, store: "nothing" };
  const keep = keepAll(withToolNames(messages, history.turns));
  const isWhole = last?.seq === (await getLastTurn(store, session))?.seq;
  if (isWhole) return { session, history, isWhole, copied: [], store: keep };
  const branch = { ...session, key: session.key.replace(/[^:]*$/, run.id) };
  return { session: branch, history, isWhole, copied: buildBranch(history), store: keep };
}

/** Results whose calls only the server knows do not say which tool they are of. */
export function withToolNames(
  messages: readonly ConversationMessage[],
  turns: readonly TurnRecord[],
): readonly ConversationMessage[] {
  if (!messages.some((message) => message.role === "tool" && message.tool === "")) return messages;
  const calls = turns
    .flatMap((turn) => turn.messages.flatMap(getParts))
    .filter((part) => part.type === "tool-call");
  return messages.map((message) => {
    if (message.role !== "tool" || message.tool !== "") return message;
    const name = calls.find((part) => part.toolCallId === message.callId)?.toolName;
    return { ...message, tool: typeof name === "string" ? name : "unknown" };
  });
}

/** The turn as its session keeps it; undefined if it does not. */
export function turnToAppend(
  run: ApiRun,
  { store: keep }: ChatHistory,
  { messages, context = [] }: Pick<AnsweredTurn, "messages" | "context">,
  now: number,
): NewTurn | undefined {
  if (keep === "nothing") return undefined;
  const { boundaryId, spec } = run;
  const turn = {
    runId: run.id,
    at: now,
    hook: spec.hook,
    unsafe: false,
    ...(boundaryId !== undefined && { boundaryId }),
  };
  if (keep === "turn")
    return {
      ...turn,
      input: spec.input,
      messages: [...messages],
      ...(context.length > 0 && { context }),
    };
  return { ...turn, input: [], messages: [...keep, ...messages] };
}
