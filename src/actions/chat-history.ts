import type { SaidMessage } from "../agent/types.ts";
import type { TextPart } from "../core/text.ts";
import type { NewTurn, RunRecord, SessionRef, Store, TurnRecord } from "../store/types.ts";
import type { ChatRequest } from "./chat-types.ts";

/** What a turn begins with, and how its session keeps it. */
export interface ChatHistory {
  /** Where the turn belongs: a branch of a conversation is one of its own. */
  session: SessionRef;
  turns: readonly TurnRecord[];
  /** Turns that a branch takes over. */
  copied: readonly NewTurn[];
  /** What of the input is kept: the one message of the user as the turn's input, several messages as they are, or nothing. */
  keep: "turn" | "nothing" | readonly unknown[];
}

/** The words of the user's last message, as the run's record and the session keep them. Images are only named. */
export function inputOf(said: readonly SaidMessage[]): TextPart[] {
  const last = said.findLast((message) => message.role === "user");
  if (last?.role !== "user") return [];
  const text = last.parts.map((part) => (part.type === "text" ? part.text : `[image ${part.mediaType}]`)).join("\n");
  return [{ text, outside: false }];
}

interface Part {
  type?: unknown;
  toolCallId?: unknown;
  toolName?: unknown;
}
const partsOf = (message: unknown): Part[] => {
  const { content } = message as { content?: unknown };
  return Array.isArray(content) ? (content as Part[]) : [];
};
const idsOf = (messages: readonly unknown[], type: string): unknown[] =>
  messages.flatMap((message) => partsOf(message).flatMap((part) => (part.type === type ? [part.toolCallId] : [])));

/** A message as a session keeps it: the form that the runtime reads, images only named. */
function messageToKeep(message: SaidMessage): unknown {
  switch (message.role) {
    case "user":
      return { role: "user", content: inputOf([message])[0]?.text ?? "" };
    case "assistant": {
      const calls = message.calls.map(({ id, tool, input }) => ({ type: "tool-call", toolCallId: id, toolName: tool, input }));
      return { role: "assistant", content: [...(message.text === "" ? [] : [{ type: "text", text: message.text }]), ...calls] };
    }
    case "tool": {
      const output = { type: "text", value: message.text };
      return { role: "tool", content: [{ type: "tool-result", toolCallId: message.callId, toolName: message.tool, output }] };
    }
  }
}

/**
 * A caller that answers the tool calls of the last kept turn sends them along with everything before, which is its own
 * history from then on. The results are kept all the same, so that the session's next turn knows how the calls ended.
 */
function answeredCalls(said: readonly SaidMessage[], turns: readonly TurnRecord[]): readonly SaidMessage[] | undefined {
  const messages = turns.at(-1)?.messages ?? [];
  const done = idsOf(messages, "tool-result");
  const open = idsOf(messages, "tool-call").filter((id) => !done.includes(id));
  const results = said.slice(said.findLastIndex((message) => message.role !== "tool") + 1);
  const given = new Set<unknown>(results.map((message) => (message.role === "tool" ? message.callId : "")));
  return open.length > 0 && open.every((id) => given.has(id)) ? results : undefined;
}

const asNew = ({ seq: _seq, ...turn }: TurnRecord): NewTurn => turn;

const keepAll = (said: readonly SaidMessage[]): ChatHistory["keep"] =>
  said.length === 1 && said[0]?.role === "user" ? "turn" : said.map(messageToKeep);

/** What the server keeps of a turn's conversation so far. */
export async function historyFor(request: ChatRequest, session: SessionRef, runId: string, store: Store): Promise<ChatHistory> {
  const { session: wanted, said } = request;
  if (wanted.kind === "none") return { session, turns: [], copied: [], keep: "nothing" };
  if (wanted.kind === "new") return { session, turns: [], copied: [], keep: keepAll(said) };
  const turns = await store.getTurns(session);
  if (request.callerKeepsHistory) {
    const answered = answeredCalls(said, turns);
    return { session, turns: [], copied: [], keep: answered ? answered.map(messageToKeep) : "nothing" };
  }
  if (wanted.kind === "named") return { session, turns, copied: [], keep: keepAll(said) };
  const upTo = turns.slice(0, turns.findLastIndex((turn) => turn.runId === wanted.run.id) + 1);
  if (!wanted.keep) return { session, turns: upTo, copied: [], keep: "nothing" };
  const keep = keepAll(withToolNames(said, upTo));
  if (upTo.length === turns.length) return { session, turns, copied: [], keep };
  const branch = { ...session, key: session.key.replace(/[^:]*$/, runId) };
  return { session: branch, turns: upTo, copied: upTo.map(asNew), keep };
}

/** Results whose calls only the server knows do not say which tool they are of. */
export function withToolNames(said: readonly SaidMessage[], turns: readonly TurnRecord[]): readonly SaidMessage[] {
  if (!said.some((message) => message.role === "tool" && message.tool === "")) return said;
  const calls = turns.flatMap((turn) => turn.messages.flatMap(partsOf)).filter((part) => part.type === "tool-call");
  return said.map((message) => {
    if (message.role !== "tool" || message.tool !== "") return message;
    const name = calls.find((part) => part.toolCallId === message.callId)?.toolName;
    return { ...message, tool: typeof name === "string" ? name : "unknown" };
  });
}

/** The turn as its session keeps it, where it does. */
export function turnToAppend(run: RunRecord, { keep }: ChatHistory, messages: readonly unknown[], now: number): NewTurn | undefined {
  if (keep === "nothing") return undefined;
  const { hook, input } = run.spec;
  if (keep === "turn") return { runId: run.id, at: now, hook, input, unsafe: false, messages: [...messages] };
  return { runId: run.id, at: now, hook, input: [], unsafe: false, messages: [...keep, ...messages] };
}
