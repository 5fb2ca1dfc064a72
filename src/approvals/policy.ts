import type { CallVerdict, JudgedCall } from "../agent/journal.ts";
import type { ToolHints } from "../agent/offered-tool.ts";
import type { OutsidePlace } from "../agent/provenance.ts";
import type { UNTRUSTED } from "../config/schema/tools.ts";
import { coversTool, REMEMBER_TOOL_NAME, SCHEDULE_TOOL_NAME } from "../core/tool-names.ts";

type Untrusted = (typeof UNTRUSTED)[number];

/** The facts about the turn on which a call is judged. */
export interface JudgedTurn {
  /** Patterns of calls that wait for a person. */
  approve: readonly string[];
  untrusted: Untrusted;
  /** What happens to a call with links that only outside text has named, and whether this call has such links. */
  links?: { policy: Untrusted; isFound: boolean };
  /** The same for e-mail addresses, telephone numbers and names on channels. */
  recipients?: { policy: Untrusted; isFound: boolean };
  /** Where the model sees text from outside; undefined if it sees none. */
  outside: OutsidePlace | undefined;
  /** Of a call that notes something: where the model sees text from outside that is more than what people have written in this conversation. */
  beyondPeople?: OutsidePlace | undefined;
  /** Whether the operator has named the tool for hook runs and heartbeats, and this is one. */
  isNamed: boolean;
  /** Whether a person can be asked. */
  canAsk: boolean;
  /** Whether a saved rule covers the call. */
  isAllowed: boolean;
}

type Call = Pick<JudgedCall, "tool" | "hints" | "input">;

/** The traits that narrow a pattern. */
const TRAITS: Record<string, (hints: ToolHints) => boolean> = {
  changing: ({ readOnly }) => !readOnly,
  destructive: ({ destructive }) => destructive,
};
export const TRAIT_NAMES = Object.keys(TRAITS);

/** Parses an entry of `approve`: `!bank.*:destructive`. */
export function parseApprove(text: string): {
  isExcluded: boolean;
  pattern: string;
  trait: string | undefined;
} {
  const [, excluded = "", pattern = "", trait] = /^(!?)(.*?)(?::([^:]*))?$/s.exec(text) ?? [];
  return { isExcluded: excluded !== "", pattern, trait };
}

/** Returns the first entry of `approve` that demands approval of a call. Entries with `!` exclude tools, at any position of the list. */
function findApprove(approve: readonly string[], { tool, hints }: Call): string | undefined {
  const fits = (entry: string): boolean => {
    const { pattern, trait } = parseApprove(entry);
    return (
      (pattern === "*" || coversTool([pattern], tool)) &&
      (trait === undefined || (TRAITS[trait]?.(hints) ?? true))
    );
  };
  const [included, excluded] = [false, true].map((which) =>
    approve.filter((entry) => parseApprove(entry).isExcluded === which),
  );
  return excluded?.some(fits) ? undefined : included?.find(fits);
}

const SEEN: Record<OutsidePlace, string> = {
  input: "what the agent was given contains text from outside",
  history: "earlier turns of this conversation contain text from outside",
  context: "passages of documents, or other text from outside, were added to the turn",
  results: "a tool returned text from outside in this turn",
  messages: "the conversation that the caller sent contains results of tools",
};

const RECIPIENT = "an e-mail address, a telephone number or a name on a channel";
const UNNAMED = "that neither the operator, the owner nor the caller has named";

/** Decides whether a tool call is made, needs approval or is withheld. */
export function judgeCall(call: Call, turn: JudgedTurn): CallVerdict {
  const { tool, hints } = call;
  const ask = (reason: "rule" | "untrusted", why: string): CallVerdict =>
    turn.canAsk
      ? { kind: "ask", reason, why }
      : { kind: "withhold", why: `${why} No approver can be asked here.` };
  if (tool === SCHEDULE_TOOL_NAME) {
    const why = "A schedule always needs approval.";
    return turn.outside === undefined
      ? ask("rule", why)
      : ask("untrusted", `${why} When it was proposed, ${SEEN[turn.outside]}.`);
  }
  const isNote = tool === REMEMBER_TOOL_NAME;
  // The text would come back in later turns, in which nothing else shows that it is from outside.
  if (isNote && turn.beyondPeople !== undefined)
    return ask(
      "untrusted",
      `Notes of text from outside always need approval, and ${SEEN[turn.beyondPeople]}.`,
    );
  if (turn.isAllowed) return { kind: "run" };
  const entry = findApprove(turn.approve, call);
  if (entry !== undefined)
    return ask("rule", `Calls of ${tool} need approval: \`approve\` has "${entry}".`);
  if (isNote || hints.readOnly || turn.outside === undefined) return { kind: "run" };
  const { links, recipients } = turn;
  const concerns: { policy: Untrusted; why: string }[] = [
    // Naming a tool is consent to the tool, not to whom outside text has it reach.
    {
      policy: turn.isNamed ? "allow" : turn.untrusted,
      why: `${tool} may change something, and ${SEEN[turn.outside]}.`,
    },
    ...(recipients?.isFound
      ? [{ policy: recipients.policy, why: `${tool} would reach ${RECIPIENT} ${UNNAMED}.` }]
      : []),
    ...(links?.isFound
      ? [{ policy: links.policy, why: `${tool} would pass on a link to a host ${UNNAMED}.` }]
      : []),
  ];
  const raised = concerns.filter(({ policy }) => policy !== "allow");
  if (raised.length === 0) return { kind: "run" };
  const why = raised.map((concern) => concern.why).join(" ");
  return raised.some(({ policy }) => policy === "withhold")
    ? { kind: "withhold", why }
    : ask("untrusted", why);
}
