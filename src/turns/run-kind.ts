import type { TurnFailure } from "../agent/failure.ts";
import type { Agent, TurnInput, TurnResult } from "../agent/types.ts";
import type { Planned } from "../delivery/plan.ts";
import type { Admission } from "../queue/admission.ts";
import type { ApprovalRecord, Job, Ms, RunRecord, StepRecord, Writes } from "../store/types.ts";
import type { NamedCitation } from "./knowledge.ts";
import type { SessionHistory } from "./session-history.ts";
import type { ActionContext } from "./types.ts";

/** A turn that has an answer, and the passages that the model was given for it. */
export type AnsweredTurn = Extract<TurnResult, { ok: true }> & {
  citations: readonly NamedCitation[];
};
export type FailedTurn = TurnFailure;
export type ModelTurn = AnsweredTurn | FailedTurn;

export interface LoadedRun {
  run: RunRecord;
  agent: Agent | undefined;
  /** Whether the store has the run already. */
  isStored: boolean;
  /** Set if the run spends from budgets. */
  admission?: Admission | undefined;
}

/** What a turn begins with. */
export interface Prepared {
  /** What the kind adds to the model's input. */
  input: Partial<TurnInput>;
  /** Whose documents may be searched; default the operator's. */
  tenant?: string;
  /** What context is looked up for; default the run's input. */
  question?: string;
  /** Default: that of the run's session. */
  history?: SessionHistory;
  /** Whether the history stays as it is: no checkpoint of it is made. */
  isFitted?: boolean;
  /** What changes in the run when it starts. */
  change?: Pick<Partial<RunRecord>, "spec" | "warnings" | "route" | "edits">;
  /** Adds to the commit of the start. */
  write?(tx: Writes): void;
}

/** What a run ends with. */
export interface RunEnd {
  change?: Partial<RunRecord>;
  warnings?: readonly string[];
  /** The delivery of the reply, or of the apology. */
  planned?: Planned | undefined;
  /** Adds to the commit of the end. */
  write(tx: Writes): void;
  /** Called after that commit; `done` is false if another gateway has the job by now. */
  after?(done: boolean): void | Promise<void>;
}

/** What distinguishes the kinds of run: where the input comes from, and what the end commit adds. */
export interface RunKind {
  /** The snapshot that the run keeps from its start to its end. */
  readonly context: ActionContext;
  /** The job that the run is executed for. A run without one is tried once, and ends with its process. */
  readonly job?: Job;
  /** Whether a person can be asked about a call. A run with a job waits; one without stays under way meanwhile. */
  readonly canAsk: boolean;
  /** True if the run is in no conversation to which notes could belong. */
  readonly isOneShot?: boolean;
  /** Whether a run without a step is tried again after an error that may pass, while its provider takes calls. */
  readonly isRetried: boolean;
  /** When the start is written: before the turn, while the model thinks because a person waits, or never. */
  readonly start: "before" | "meanwhile" | "never";
  /** Loads or makes the run. Undefined if there is nothing to execute: the kind has settled its job. */
  load(): Promise<LoadedRun | undefined>;
  /** `mayWait`: whether the run can be tried again. @throws NotNowError only then. */
  prepare(run: RunRecord, agent: Agent, mayWait: boolean): Promise<Prepared>;
  finish(
    run: RunRecord,
    result: ModelTurn,
    now: Ms,
    steps: readonly StepRecord[],
  ): RunEnd | Promise<RunEnd>;
  /** Adds to the commit of the first step of a run that the store does not have until then (`start: "never"`). */
  writeFirst?(tx: Writes, run: RunRecord): void;
  /** Called when the models of a run without a job begin to fail, and when one answers again. */
  onRetrying?(isRetrying: boolean): void;
  /** Tells whoever watches the run of a question to a person. */
  onApproval?(approval: ApprovalRecord): void;
  /** Turns an error into the run's failure. Without it, the error leaves the run to the worker. */
  recover?(error: unknown): FailedTurn;
}
