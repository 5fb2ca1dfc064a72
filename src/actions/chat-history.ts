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
  keep: "turn" | "nothing" | { answered: readonly unknown[] };
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
}
const partsOf = (message: unknown): Part[] => {
  const { content } = message as { content?: unknown };
  return Array.isArray(content) ? (content as Part[]) : [];
};
const idsOf = (messages: readonly unknown[], type: string): unknown[] =>
  messages.flatMap((message) => partsOf(message).flatMap((part) => (part.type === type ? [part.toolCallId] : [])));

/**
 * A caller that answers the tool calls of the last kept turn sends them along with everything before, which is its own
 * history from then on. The results are kept all the same, so that the session's next turn knows how the calls ended.
 */
function answeredCalls(said: readonly SaidMessage[], turns: readonly TurnRecord[]): readonly unknown[] | undefined {
  const messages = turns.at(-1)?.messages ?? [];
  const done = idsOf(messages, "tool-result");
  const open = idsOf(messages, "tool-call").filter((id) => !done.includes(id));
  const results = said.slice(said.findLastIndex((message) => message.role !== "tool") + 1);
  const given = new Set(results.map((message) => (message.role === "tool" ? message.callId : "")));
  if (open.length === 0 || !open.every((id) => given.has(id as string))) return undefined;
  return results.flatMap((message) => {
    if (message.role !== "tool") return [];
    const output = { type: "text", value: message.text };
    return [{ role: "tool", content: [{ type: "tool-result", toolCallId: message.callId, toolName: message.tool, output }] }];
  });
}

const asNew = ({ seq: _seq, ...turn }: TurnRecord): NewTurn => turn;

/** What the server keeps of a turn's conversation so far. */
export async function historyFor(request: ChatRequest, session: SessionRef, runId: string, store: Store): Promise<ChatHistory> {
  const { kind } = request.session;
  if (kind === "none") return { session, turns: [], copied: [], keep: "nothing" };
  if (kind === "new") return { session, turns: [], copied: [], keep: "turn" };
  const turns = await store.getTurns(session);
  if (request.callerKeepsHistory) {
    const answered = answeredCalls(request.said, turns);
    return { session, turns: [], copied: [], keep: answered ? { answered } : "nothing" };
  }
  if (request.session.kind !== "after") return { session, turns, copied: [], keep: "turn" };
  const { run } = request.session;
  const upTo = turns.slice(0, turns.findIndex((turn) => turn.runId === run.id) + 1);
  if (upTo.length === turns.length) return { session, turns, copied: [], keep: "turn" };
  const branch = { ...session, key: session.key.replace(/[^:]*$/, runId) };
  return { session: branch, turns: upTo, copied: upTo.map(asNew), keep: "turn" };
}

/** The turn as its session keeps it, where it does. */
export function turnToAppend(run: RunRecord, { keep }: ChatHistory, messages: readonly unknown[], now: number): NewTurn | undefined {
  if (keep === "nothing") return undefined;
  const { hook, input } = run.spec;
  if (keep === "turn") return { runId: run.id, at: now, hook, input, unsafe: false, messages: [...messages] };
  return { runId: run.id, at: now, hook, input: [], unsafe: false, messages: [...keep.answered, ...messages] };
}
