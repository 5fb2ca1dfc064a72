/** Judges the calls and the reply of a turn by the text from outside that its model sees. */
import { removeLinksTo } from "../agent/reply/links.ts";
import { getExactInput } from "../agent/tools/call-inputs.ts";
import { joinTexts } from "../agent/tools/tool-results.ts";
import type { CallVerdict, ConversationMessage, JudgedCall } from "../agent/types.ts";
import type { Config } from "../config/schema/index.ts";
import type { Part, TurnInfo } from "../contract/kinds.ts";
import type { TextPart } from "../core/text.ts";
import type { ToolCallRecord, TurnRecord } from "../store/types.ts";
import {
  coversTool,
  RECALL_TOOL,
  RECALL_TOOL_NAME,
  REMEMBER_TOOL,
  REMEMBER_TOOL_NAME,
  type ToolPatterns,
} from "../vocabulary/tool-names.ts";
import { createOutsideWords, renderHosts, type SeenWords } from "./outside-words.ts";
import { judgeCall, type OutsidePlace } from "./policy.ts";
import { coversCall, type ApprovalRule } from "./rules.ts";

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
const isTrustedMemory = (tool: string, text: string): boolean =>
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

/** The fields that the operator's template shows by themselves. */
function getShownFields({ kind, input }: View): string[] {
  const isTemplate =
    kind === "hook" &&
    input.some((part) => !part.outside && part.by !== "sender" && part.text.trim() !== "");
  return isTemplate ? input.flatMap(({ outside, text }) => (outside ? text : [])) : [];
}

/** Divides the words that the model sees by who has said them. */
export function divideWords(view: View): SeenWords {
  const { kind, history, input, messages = [], context, results } = view;
  const added = [...history.flatMap((turn) => turn.context ?? []), ...context];
  const named = [
    ...getNamedParts(input, kind === "channel"),
    ...history.flatMap((turn) => getNamedParts(turn.input, turn.hook.startsWith("channels/"))),
    ...added.filter(({ from }) => from === "operator").map(({ text }) => text),
    ...messages.flatMap((message) =>
      message.role === "user"
        ? message.parts.map((part) => (part.type === "text" ? part.text : ""))
        : [],
    ),
  ];
  const outside = (): string =>
    [
      ...[input, ...history.map((turn) => turn.input)].flat().map(({ text }) => text),
      ...added.map(({ text }) => text),
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
  return { named, shown: getShownFields(view), outside };
}

/** The settings of the config and the mapping for the tools of a run. */
interface ToolSettings {
  agent: {
    id: string;
    tools: readonly string[];
    approve: readonly string[];
    instructions?: string;
  };
  config: Pick<Config, "hooks" | "tools">;
  /** Of the run's mapping. */
  mapping: { tools?: readonly string[]; approve?: readonly string[] };
  kind: View["kind"];
}

/** The tools that the operator has named for a run about what hooks sent; undefined for a run of another kind. */
const getNamed = ({ kind, mapping, config }: ToolSettings): readonly string[] | undefined =>
  kind === "hook" || kind === "heartbeat" ? (mapping.tools ?? config.hooks.tools) : undefined;

/** Returns the tools that a run may use: the agent's own; in hook runs and heartbeats only those that are named for them. */
export function getOfferedTools(settings: ToolSettings): ToolPatterns {
  const named = getNamed(settings);
  return named ? [settings.agent.tools, named] : [settings.agent.tools];
}

/**
 * Returns whether a call has a result that is text from outside. What the gateway says itself is not: about calls that
 * it did not make, and of notes.
 */
function hasOutsideAnswer({ tool, startedAt, output }: ToolCallRecord): boolean {
  if (startedAt === undefined || output === undefined) return false;
  return !output.parts.every((part) => part.type === "text" && isTrustedMemory(tool, part.text));
}

/** The facts about a turn on which its calls are judged. */
interface JudgedRun extends ToolSettings, Pick<View, "history" | "input" | "messages"> {
  /** True if a person can be asked: the run can wait. */
  canAsk: boolean;
  /** True if this is a turn of a main session: the owner's notes are not for others to write. */
  isMain: boolean;
  rules: readonly ApprovalRule[];
  /** The operator's for this turn. */
  instructions?: string;
  callerInstructions?: string;
}

export type Judge = ReturnType<typeof createJudge>;

/** Creates the judge of what a run does. */
export function createJudge(run: JudgedRun) {
  const { agent, config, mapping, kind, history, input, messages, canAsk, isMain, rules } = run;
  const named = getNamed(run) ?? [];
  const approve = [...agent.approve, ...(mapping.approve ?? [])];
  const { untrusted } = config.tools;
  const recipients = config.tools.recipients ?? untrusted ?? "ask";
  const links =
    config.tools.links ?? (config.hooks.allowedLinkHosts ? (untrusted ?? "ask") : "allow");
  const operator = [agent.instructions, run.instructions, run.callerInstructions].filter(
    (text) => text !== undefined,
  );
  const getView = ({ steps, context }: Pick<JudgedCall, "steps" | "context">): View => {
    const results = steps
      .filter(({ calls }) => calls.some(hasOutsideAnswer))
      .flatMap(({ calls }) => calls.map(({ output }) => output));
    return {
      kind,
      history,
      input,
      messages,
      context,
      results,
      countsOwnResults: untrusted !== undefined,
    };
  };
  const trusted = new Set<string>();
  return {
    /** Says whether a call is made immediately, waits for a person, or is not made. */
    judgeCall({ steps, context, ...call }: JudgedCall): CallVerdict {
      const view = getView({ steps, context });
      const outside = findOutside(view);
      if (outside === undefined) trusted.add(call.id);
      const isHarmless = outside === undefined || call.hints.readOnly;
      const found = isHarmless
        ? undefined
        : createOutsideWords(() => divideWords(view), operator, config).inCall(call.input);
      return judgeCall(call, {
        approve,
        untrusted: untrusted ?? "ask",
        links: { policy: links, isFound: (found?.hosts.size ?? 0) > 0 },
        recipients: { policy: recipients, isFound: (found?.recipients.size ?? 0) > 0 },
        outside,
        ...(call.tool === REMEMBER_TOOL_NAME && {
          beyondPeople: isMain ? outside : findOutside(view, false),
        }),
        isNamed: coversTool(named, call.tool),
        canAsk,
        isAllowed: rules.some((rule) =>
          coversCall(rule, { agentId: agent.id, tool: call.tool, input: call.input }),
        ),
      });
    },
    /** Says of a call of `remember` that was let through whose words were in view. Of a call that was not judged it is `people`. */
    findOrigin: (callId: string): "trusted" | "people" =>
      trusted.has(callId) ? "trusted" : "people",
    /** Returns the reply as it may leave, and warnings about links and recipients that outside text alone has named. */
    reviewTurn(
      text: string,
      seen: Pick<JudgedCall, "steps" | "context">,
    ): { text: string; warnings: string[] } {
      const view = getView(seen);
      if (findOutside(view) === undefined) return { text, warnings: [] };
      const words = createOutsideWords(() => divideWords(view), operator, config);
      const calls = seen.steps
        .flatMap((step) => step.calls)
        .filter(({ readOnly }) => readOnly !== true);
      const warnings = calls.flatMap((call) => {
        const { hosts, recipients: reached } = words.inCall(getExactInput(call));
        const what = [
          ...(reached.size > 0 ? ["a recipient"] : []),
          ...(hosts.size > 0 ? [`links to ${renderHosts([...hosts])}`] : []),
        ];
        return what.length === 0
          ? []
          : [
              `a call of ${call.tool} (${call.state}) had ${what.join(" and ")} that only text from outside has named`,
            ];
      });
      const hosts = words.inReply(text);
      if (hosts.length === 0) return { text, warnings };
      const isRemoved =
        config.tools.links !== undefined && config.tools.links !== "allow" && kind !== "api";
      const said = isRemoved ? "were removed from the reply" : "are in the reply";
      warnings.push(
        `links to hosts that only text from outside has named ${said}: ${renderHosts(hosts)}`,
      );
      return { text: isRemoved ? removeLinksTo(text, hosts) : text, warnings };
    },
  };
}
