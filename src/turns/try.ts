/** The additions of each kind of run to the way of every run, and one try of a run on that way. */
import type { RunStatus } from "../vocabulary/outcomes.ts";
import type { TurnFailure } from "../agent/failure.ts";
import type { Agent, ResolvedModel, TurnInput, TurnResult } from "../agent/types.ts";
import type { RunErrorCode } from "../core/errors.ts";
import type { Planned } from "../delivery/plan.ts";
import type { Admission } from "../queue/admission.ts";
import type {
  ApiRun,
  ApprovalRecord,
  Job,
  LiveMessage,
  Ms,
  Route,
  RunChange,
  RunRecord,
  StepRecord,
  Writes,
} from "../store/types.ts";
import type { ExecutorDeps } from "./context.ts";
import type { NamedCitation } from "./knowledge.ts";
import type { SessionHistory } from "./session-history.ts";
import type { ActionContext } from "./types.ts";

/** A turn that has an answer, and the passages that the model was given for it. */
export type AnsweredTurn = Extract<TurnResult, { ok: true }> & {
  citations: readonly NamedCitation[];
};
export type FailedTurn = TurnFailure;
export type ModelTurn = AnsweredTurn | FailedTurn;

export interface LoadedRun<R extends RunRecord = RunRecord> {
  run: R;
  agent: Agent | undefined;
  /** True if the store has the run already. */
  isStored: boolean;
  /** Set if the run spends from budgets. */
  admission?: Admission | undefined;
}

/** The beginning of a turn. */
export interface Prepared<R extends RunRecord = RunRecord> {
  /** The kind's part of the model's input. */
  input: Partial<TurnInput>;
  /** Whose documents may be searched; default the operator's. */
  tenant?: string;
  /** The text that context is looked up for; default the run's input. */
  question?: string;
  /** Default: that of the run's session. */
  history?: SessionHistory;
  /** True if the history stays as it is: no checkpoint of it is made. */
  isFitted?: boolean;
  /** The change of the run when it starts. */
  change?: RunChange<R>;
  /** Adds to the commit of the start. */
  write?(tx: Writes): void;
}

/** The end of a run. */
export interface RunEnd {
  change?: Pick<RunChange<ApiRun>, "reply" | "route" | "error" | "answer">;
  warnings?: readonly string[];
  /** The delivery of the reply, or of the apology. */
  planned?: Planned | undefined;
  /** Adds to the commit of the end. */
  write(tx: Writes): void;
  /** Called after that commit; `done` is false if another gateway has the job by now. */
  after?(done: boolean): void | Promise<void>;
}

/** Streams the text of a turn to a place that a person sees. */
interface LiveInput {
  readonly input: Partial<TurnInput>;
  /** Ends the edits, and waits for the one under way. Returns the message, if one was sent. */
  end(): Promise<LiveMessage | undefined>;
}

/** A kind of run: where the input comes from, who waits for the answer, and what the commits add. */
export interface RunKind<R extends RunRecord = RunRecord> {
  /** The snapshot that the run keeps from its start to its end. */
  readonly context: ActionContext;
  /** The job that the run is executed for. A run without one is tried once, and ends with its process. */
  readonly job?: Job;
  /** False if no person can be asked about a call. A run with a job waits; one without stays under way meanwhile. */
  readonly canAsk?: boolean;
  /** True if the run is in no conversation to which notes could belong. */
  readonly isOneShot?: boolean;
  /** False if a run without a step is not tried again after an error that may pass, while its provider takes calls. */
  readonly isRetried?: false;
  /** When the start is written: while the model thinks because a person waits, or never. Default: before the turn. */
  readonly start?: "meanwhile" | "never";
  /** Loads or makes the run. Undefined if there is nothing to execute: the kind has settled its job. */
  load(): Promise<LoadedRun<R> | undefined>;
  /** `mayWait`: whether the run can be tried again. @throws NotNowError only then. */
  prepare(run: R, agent: Agent, mayWait: boolean): Promise<Prepared<R>>;
  finish(
    run: R,
    result: ModelTurn,
    now: Ms,
    steps: readonly StepRecord[],
  ): RunEnd | Promise<RunEnd>;
  /** Adds to the commit of the first step of a run that the store does not have until then (`start: "never"`). */
  writeFirst?(tx: Writes, run: R): void;
  /** The setting that says how old a run may be that is tried again. Default: `maxAge`. */
  readonly maxAge?: "messageMaxAge";
  /**
   * Milliseconds that an attempt waits between its calls for models that give no answer, since a person waits for it.
   * Default: not at all.
   */
  readonly patienceMs?: Ms;
  /** Returns the place in which a person waits for the answer, and sees that the agent works. */
  getReplyRoute?(run: R): Route;
  /** Shows that person the text of the turn as it grows, and takes away what was shown of a turn that has no answer now. */
  readonly live?: {
    begin(current: Try): LiveInput | undefined;
    withdraw(current: Try): Promise<void>;
  };
  /** Plans what tells a person that models are away: added to the commit that puts the run back, so long after the first failure. */
  readonly awayNotice?: {
    afterMs: Ms;
    plan(run: R, now: Ms): Promise<(tx: Writes) => void>;
  };
  /** Called when the models of a run without a job begin to fail, and when one answers again. */
  onRetrying?(isRetrying: boolean): void;
  /** Tells whoever watches the run of a question to a person. */
  onApproval?(approval: ApprovalRecord): void;
  /** Turns an error into the run's failure. Without it, the error leaves the run to the worker. */
  recover?(error: unknown): FailedTurn;
}

/** One try of a run, and how far it has come. */
export interface Try extends LoadedRun {
  readonly kind: RunKind;
  readonly deps: ExecutorDeps;
  readonly signal: AbortSignal;
  /** The steps so far, those of earlier tries first. */
  readonly steps: StepRecord[];
  /** The usage of a summary of the session that was made for the run. */
  summaryUsage?: RunRecord["usage"];
  /** Starts that ended with their process, since the run got further last. */
  crashes: number;
  /** The outcome of the try, with what the run has used until then. `lost`: another gateway has the run. */
  end?: {
    status: RunStatus | "lost";
    error?: RunErrorCode;
    usage?: RunRecord["usage"];
  };
}

/** A try that was checked: it is known what it is made with. */
export type CheckedTry = Try & { agent: Agent; model: ResolvedModel };
