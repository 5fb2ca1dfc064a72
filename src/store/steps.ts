/** The journal of a run: what the model said, which tools it called, and what became of each call. */
import type { Verdict } from "../vocabulary/decision.ts";
import type { Ms, Usage } from "./records.ts";
import type { FailedAttempt } from "./runs.ts";

export type { Verdict };

/** A piece of a tool's result, as it is kept. `data` is base64. */
export type ToolOutputPart =
  | { type: "text"; text: string }
  | { type: "file"; mediaType: string; data: string; filename?: string };

/** The answer of a tool. An answer that says that the call failed is an answer all the same: its outcome is known. */
export interface ToolOutput {
  parts: readonly ToolOutputPart[];
  isError?: boolean;
}

/**
 * `planned`: the model asked for it. `waiting`: a person has to decide. `started`: it may have left. `done`, `failed`: the tool
 * answered. `unknown`: it was started, and there is no answer. `denied`: it was not made.
 */
export type ToolCallState =
  | "planned"
  | "waiting"
  | "started"
  | "done"
  | "failed"
  | "unknown"
  | "denied";

export interface ToolCallRecord {
  /** `<run>.<step>.<position>`: the same in every attempt, and the tool's idempotency key. */
  id: string;
  /** The id that the model gave the call, as its message has it. */
  modelCallId: string;
  /** As the config names it: `<plugin or server>.<tool>`. */
  tool: string;
  /** As the model called it. */
  name: string;
  input: unknown;
  /** The input as the model wrote it, of a call that the caller makes, or whose numbers are rounded in `input`. */
  inputText?: string;
  /** True if the tool declares that it changes nothing. */
  readOnly?: boolean;
  state: ToolCallState;
  startedAt?: Ms;
  endedAt?: Ms;
  /** Absent until the tool has answered. Text above the limit is kept apart: `read_result` and `getToolResult` read it. */
  output?: ToolOutput;
  /** The whole text of an output that was cut: the id of a stored result, and its length in UTF-16 units. */
  stored?: { id: string; length: number };
  /** The approval that the call waits for, or waited for. */
  approvalId?: string;
  /** The approval whose decision let the call start, or start again: it lets no other start happen. */
  startedFor?: string;
}

/** The tools of its agent that a run was offered, and those that were left out. */
export interface ToolOffer {
  /** By the names of the config. */
  offered: readonly string[];
  /** Names, or the agent's own patterns of which nothing was offered. */
  leftOut: readonly string[];
  /** The setting that names the tools for such runs: `hooks.tools`, or `tools` of a mapping. */
  by: string;
}

/** One model call, and the tool calls that it asked for. */
export interface StepRecord {
  runId: string;
  /** From 0. */
  index: number;
  /** `<provider>/<model>` that answered. */
  model: string;
  /** The model's answer, as the `ai` package's response messages (plain JSON). */
  messages: unknown[];
  finish: string;
  usage: Usage;
  startedAt: Ms;
  endedAt: Ms;
  calls: ToolCallRecord[];
  failedAttempts?: FailedAttempt[];
  /** Of a run's first step, if tools of the agent were left out. */
  offer?: ToolOffer;
}

/** The whole text of an output that was cut, as `stored` of its call names it. */
export interface ToolResultRecord {
  id: string;
  runId: string;
  text: string;
}

/** The fields of a call that may change. */
export type ToolCallChange = Partial<
  Omit<ToolCallRecord, "id" | "modelCallId" | "tool" | "name" | "input">
>;

export interface ApprovalDecision {
  verdict: Verdict;
  /** The one who decided: `operator`, `api:<key id>`, `<channel>:<id of the person>`, or `timeout`. */
  by: string;
  at: Ms;
  /** Words for the model, from whoever denied it. */
  note?: string;
}

/** A decision that was refused. */
export interface RefusedDecision extends Pick<ApprovalDecision, "verdict" | "by" | "at"> {
  /** The reason: `approval_decided`, `approval_expired`, `approval_changed`, `not_approver`, `run_ended` or `usage`. */
  code: string;
}

/** The most refused decisions that an approval keeps: the newest. */
const MAX_REFUSED = 20;

/** An approval is open until it has a decision. */
export type ApprovalState = "open" | "decided";

/** A question to a person about one tool call. */
export interface ApprovalRecord {
  id: string;
  /** Short, for people to type (`approve 7f3`); unique among those that are open. */
  code: string;
  runId: string;
  callId: string;
  agentId: string;
  tool: string;
  /** The input as it was asked about: a call with another one is not covered. */
  input: unknown;
  /** `rule`: `approve` names the tool. `untrusted`: outside text is in view. `outcome_unknown`: it was started, and there is no answer. */
  reason: "rule" | "untrusted" | "outcome_unknown";
  /** One sentence for people: what made it ask. It quotes nothing from outside. */
  why: string;
  askedAt: Ms;
  expiresAt: Ms;
  decision?: ApprovalDecision;
  /** Oldest first. */
  refused?: RefusedDecision[];
}

/** Returns an approval with one more refused decision. */
export const withRefused = (
  approval: ApprovalRecord,
  refused: RefusedDecision,
): ApprovalRecord => ({
  ...approval,
  refused: [...(approval.refused ?? []), refused].slice(-MAX_REFUSED),
});
