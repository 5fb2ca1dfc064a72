import type { Part } from "../contract/kinds.ts";
import type {
  ApprovalDecision,
  ApprovalRecord,
  StepRecord,
  ToolCallChange,
} from "../store/steps.ts";
import type { ToolHints } from "./offered-tool.ts";

/** A change of one tool call, by the call's id. */
export interface CallChange {
  id: string;
  change: ToolCallChange;
  /** The whole text of an output that was cut, to be kept under the call's id. */
  whole?: string;
}

/** Where a turn keeps its steps, so that another attempt continues after the last one that was committed. */
export interface Journal {
  /** Steps of earlier attempts, oldest first. */
  readonly steps: readonly StepRecord[];
  /** Resolves once the step is on disk. False: another gateway has the run; the loop stops and starts nothing more. */
  addStep(step: StepRecord): Promise<boolean>;
  /** The same for changes of calls of steps that are on disk. */
  updateCalls(changes: readonly CallChange[]): Promise<boolean>;
  /** The decision about an approval; undefined while it is open. A deleted approval counts as timed out. */
  getDecision(approvalId: string): Promise<ApprovalDecision | undefined>;
}

/** A question to a person, before it has an id. */
export type NewApproval = Pick<ApprovalRecord, "callId" | "tool" | "input" | "reason" | "why">;

/** Whether a call is made: immediately, after a person has approved it, or not at all. `why` is one sentence that quotes no text from outside. */
export type CallVerdict =
  | { kind: "run" }
  | { kind: "ask"; reason: Exclude<ApprovalRecord["reason"], "outcome_unknown">; why: string }
  | { kind: "withhold"; why: string };

/** A tool call before it is made, and what the model sees. The last of the steps is that of the call. */
export interface JudgedCall {
  id: string;
  tool: string;
  hints: ToolHints;
  input: unknown;
  steps: readonly StepRecord[];
  /** What context providers have added to the turn. */
  context: readonly Part[];
}

/** Creates the journal of a turn that has one attempt, and whose steps are not stored. */
export function createMemoryJournal(): Journal {
  return {
    steps: [],
    addStep: () => Promise.resolve(true),
    updateCalls: () => Promise.resolve(true),
    getDecision: () => Promise.resolve(undefined),
  };
}
