import type { CallVerdict, JudgedCall } from "../agent/journal.ts";
import type { ToolHints } from "../agent/offered-tool.ts";
import type { OutsidePlace } from "../agent/provenance.ts";
import type { UNTRUSTED } from "../config/schema/tools.ts";
import { coversTool } from "../core/tool-names.ts";

/** The facts about the turn on which a call is judged. */
export interface JudgedTurn {
  /** Patterns of calls that wait for a person. */
  approve: readonly string[];
  untrusted: (typeof UNTRUSTED)[number];
  /** Where the model sees text from outside; undefined if it sees none. */
  outside: OutsidePlace | undefined;
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
export function parseApprove(text: string): { isExcluded: boolean; pattern: string; trait: string | undefined } {
  const [, excluded = "", pattern = "", trait] = /^(!?)(.*?)(?::([^:]*))?$/s.exec(text) ?? [];
  return { isExcluded: excluded !== "", pattern, trait };
}

/** Returns the first entry of `approve` that demands approval of a call. Entries with `!` exclude tools, at any position of the list. */
function findApprove(approve: readonly string[], { tool, hints }: Call): string | undefined {
  const fits = (entry: string): boolean => {
    const { pattern, trait } = parseApprove(entry);
    return (pattern === "*" || coversTool([pattern], tool)) && (trait === undefined || (TRAITS[trait]?.(hints) ?? true));
  };
  const [included, excluded] = [false, true].map((which) => approve.filter((entry) => parseApprove(entry).isExcluded === which));
  return excluded?.some(fits) ? undefined : included?.find(fits);
}

const SEEN: Record<OutsidePlace, string> = {
  input: "what the agent was given contains text from outside",
  history: "earlier turns of this conversation contain text from outside",
  context: "passages of documents, or other text from outside, were added to the turn",
  results: "a tool returned text from outside in this turn",
  messages: "the conversation that the caller sent contains results of tools",
};

/** Decides whether a tool call is made, needs approval or is withheld. */
export function judgeCall(call: Call, turn: JudgedTurn): CallVerdict {
  const { tool, hints } = call;
  if (turn.isAllowed) return { kind: "run" };
  const entry = findApprove(turn.approve, call);
  const ask = (reason: "rule" | "untrusted", why: string): CallVerdict =>
    turn.canAsk ? { kind: "ask", reason, why } : { kind: "withhold", why: `${why} No approver can be asked here.` };
  if (entry !== undefined) return ask("rule", `Calls of ${tool} need approval: \`approve\` has "${entry}".`);
  if (hints.readOnly || turn.outside === undefined || turn.isNamed || turn.untrusted === "allow") return { kind: "run" };
  const why = `${tool} may change something, and ${SEEN[turn.outside]}.`;
  return turn.untrusted === "withhold" ? { kind: "withhold", why } : ask("untrusted", why);
}
