import type { Part, TurnInfo } from "../contract/kinds.ts";
import type { TextPart } from "../core/text.ts";
import type { TurnRecord } from "../store/types.ts";
import { joinTexts } from "./tools/tool-results.ts";
import type { ConversationMessage } from "./types.ts";
import {
  RECALL_TOOL,
  RECALL_TOOL_NAME,
  REMEMBER_TOOL,
  REMEMBER_TOOL_NAME,
} from "../vocabulary/tool-names.ts";

/**
 * The beginnings of results of `recall`: with notes of trusted words alone, with any others, and without notes. No note
 * can change them.
 */
export const TRUSTED_NOTES = "Notes:\n";
export const OTHER_NOTES = "Notes, some of words of others:\n";
export const NO_NOTES = "There are no such notes.";

const RECALLS: readonly string[] = [RECALL_TOOL, RECALL_TOOL_NAME];
const REMEMBERS: readonly string[] = [REMEMBER_TOOL, REMEMBER_TOOL_NAME];

/**
 * Returns whether a result of Rouse's own tools for notes has no text from outside. `tool`: the name in the config, or
 * the model's.
 */
export const isTrustedMemory = (tool: string, text: string): boolean =>
  REMEMBERS.includes(tool) ||
  (RECALLS.includes(tool) && (text.startsWith(TRUSTED_NOTES) || text === NO_NOTES));

/** The text that the model of a turn can see. */
export interface View {
  kind: TurnInfo["kind"];
  /** The turns of the session before this one, oldest first. */
  history: readonly TurnRecord[];
  input: readonly TextPart[];
  /** The new input of a caller, where it is more than text: takes the place of `input`. */
  messages?: readonly ConversationMessage[] | undefined;
  /** The text that context providers have added, passages included. */
  context: readonly Part[];
  /** Answers of tools in this turn. */
  results: readonly unknown[];
  /** True if results of tools that a turn of the API has called itself count as outside text. */
  countsOwnResults: boolean;
}

/** The place of the outside text that the model sees. */
export type OutsidePlace = "input" | "history" | "context" | "results" | "messages";

const isToolMessage = (message: unknown): boolean =>
  (message as { role?: unknown } | null)?.role === "tool";
const getDocuments = (messages: readonly ConversationMessage[] = []) =>
  messages.flatMap((message) =>
    message.role === "user" ? message.parts.filter((part) => part.type === "document") : [],
  );
const hasToolMessage = (message: ConversationMessage): boolean =>
  message.role === "steps" ? message.messages.some(isToolMessage) : isToolMessage(message);

/**
 * Returns whether an input is outside text. Text of a hook is, even if the operator has taken its boundary away, and so
 * are the words of people other than the owner. With `countsPeople` false, their words and names are not, but what they
 * quote and send is.
 */
function isOutsideInput(
  input: readonly TextPart[],
  isChannel: boolean,
  countsPeople: boolean,
): boolean {
  if (isChannel && !countsPeople) return input.some((part) => part.outside && part.by !== "sender");
  if (input.some((part) => part.outside || part.by === "sender")) return true;
  return isChannel && !input.some((part) => part.by === "owner");
}

const hasOutsideContext = ({ context = [] }: Pick<TurnRecord, "context">): boolean =>
  context.some(({ from }) => from !== "operator");

/**
 * Returns whether a message has nothing but notes of trusted words. A caller's tools may have the names of Rouse's own.
 */
function isTrustedNotes(message: unknown, hook: string): boolean {
  const { content } = message as { content?: unknown };
  return !hook.startsWith("api:") && Array.isArray(content) && content.every(isTrustedResult);
}

function isTrustedResult(part: unknown): boolean {
  const { toolName, output } = part as { toolName?: unknown; output?: { value?: unknown } };
  return (
    typeof toolName === "string" &&
    typeof output?.value === "string" &&
    isTrustedMemory(toolName, output.value)
  );
}

const isOutsideCheckpoint = ({ checkpoint }: TurnRecord, countsPeople: boolean): boolean =>
  checkpoint?.outside === true && (countsPeople || checkpoint.onlyPeople !== true);

/** Returns whether a turn has text from outside, or stands for turns that had. `countsPeople` as for `findOutside`. */
export const isOutsideTurn = (turn: TurnRecord, countsPeople = true): boolean =>
  isOutsideCheckpoint(turn, countsPeople) ||
  isOutsideInput(turn.input, turn.hook.startsWith("channels/"), countsPeople) ||
  hasOutsideContext(turn) ||
  turn.messages.some((message) => isToolMessage(message) && !isTrustedNotes(message, turn.hook));

/**
 * Divides what a caller has sent, and the history before it, at the beginning of its current turn. A caller that answers the
 * calls of a turn goes on with that turn.
 */
function divideTurns({ history, messages = [] }: View): {
  earlier: View["history"];
  own: View["history"];
  said: number;
} {
  const last = messages.findLastIndex((message) => message.role === "user");
  if (last >= 0) return { earlier: history, own: [], said: last };
  const first = history.findLastIndex((turn) => turn.input.length > 0);
  return {
    earlier: history.slice(0, Math.max(0, first)),
    own: history.slice(Math.max(0, first)),
    said: 0,
  };
}

/**
 * Finds outside text among what the model of a turn sees; undefined if there is none. With `countsPeople` false, what people
 * have written in the conversation itself is none.
 */
export function findOutside(view: View, countsPeople = true): OutsidePlace | undefined {
  const { kind, input, messages, context, results, countsOwnResults } = view;
  if (hasOutsideContext({ context })) return "context";
  if (kind !== "api") {
    if (isOutsideInput(input, kind === "channel", countsPeople)) return "input";
    if (view.history.some((turn) => isOutsideTurn(turn, countsPeople))) return "history";
    return results.length > 0 ? "results" : undefined;
  }
  const { earlier, own, said } = divideTurns(view);
  if (getDocuments(messages).length > 0) return "input";
  if (earlier.some((turn) => isOutsideTurn(turn))) return "history";
  if (own.some(hasOutsideContext)) return "context";
  if (messages?.slice(0, said).some(hasToolMessage)) return "messages";
  if (!countsOwnResults) return undefined;
  return results.length > 0 ||
    own.some((turn) => isOutsideTurn(turn)) ||
    messages?.slice(said).some(hasToolMessage)
    ? "results"
    : undefined;
}

/** The words of people, and of the operator, among the parts of an input. */
function getNamedParts(input: readonly TextPart[], isChannel: boolean): string[] {
  const isOthers = isChannel && !input.some((part) => part.by === "owner");
  return isOthers
    ? []
    : input.filter((part) => !part.outside && part.by !== "sender").map(({ text }) => text);
}

/** Divides what the model sees into the words of the operator, the owner and the API's caller, and all else, as one text. */
export function divideWords({ kind, history, input, messages = [], context, results }: View): {
  named: string[];
  outside: () => string;
} {
  const shown = [...history.flatMap((turn) => turn.context ?? []), ...context];
  const named = [
    ...getNamedParts(input, kind === "channel"),
    ...history.flatMap((turn) => getNamedParts(turn.input, turn.hook.startsWith("channels/"))),
    ...shown.filter(({ from }) => from === "operator").map(({ text }) => text),
    ...messages.flatMap((message) =>
      message.role === "user"
        ? message.parts.map((part) => (part.type === "text" ? part.text : ""))
        : [],
    ),
  ];
  const outside = (): string =>
    [
      ...[input, ...history.map((turn) => turn.input)].flat().map(({ text }) => text),
      ...shown.map(({ text }) => text),
      ...getDocuments(messages).map(({ text }) => text),
      ...messages.map((message) =>
        message.role === "tool" ? joinTexts(message.output.parts) : "",
      ),
      JSON.stringify(
        messages.flatMap((message) =>
          message.role === "steps" ? message.messages.filter(isToolMessage) : [],
        ),
      ),
      JSON.stringify(history.flatMap((turn) => turn.messages.filter(isToolMessage))),
      JSON.stringify(results),
    ].join("\n");
  return { named, outside };
}
