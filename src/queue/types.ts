import type { LimitsConfig } from "../config/schema/limits.ts";
import type { Clock } from "../core/clock.ts";
import type { Failure } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type {
  Collected,
  LimitReason,
  RunAction,
  RunRecord,
  SharedBatches,
  Spent,
  Store,
  UsageStore,
} from "../store/types.ts";

/** Limits, and whose they are: `hooks` for all together, `mapping:<id>`, `preset:<name>`. */
export interface Budget {
  scope: string;
  limits: LimitsConfig;
}

/** The budgets of a snapshot. */
export interface Budgets {
  /** The budgets that a run of this mapping spends from. */
  of(mapping: string | undefined): readonly Budget[];
  readonly all: readonly Budget[];
  /** The counters whose sum is what a scope has spent. */
  counters(scope: string): readonly string[];
}

/** The spending of a budget, and the number of runs that wait for it. */
export interface BudgetStatus extends Spent {
  waiting: number;
}

export interface BudgetView extends Budget {
  usage: BudgetStatus;
}

/** The settings by which a mapping collects events into a batch, with the key rendered. */
interface BatchSettings {
  key: string;
  windowSeconds: number;
  maxSeconds: number;
  maxEvents: number;
}

/** A run that is about to be accepted. */
export interface Applicant {
  action: RunAction;
  /** Set if it is to be collected with others. */
  batch?: BatchSettings & { event: Collected };
}

/** The place of an accepted run: in the queue, behind a limit, or in the batch of the run that collects its event. */
export type Placement =
  | { state: "queued" }
  | { state: "parked"; parked: LimitReason }
  | { state: "collecting"; runId: string; batch: NonNullable<RunAction["collect"]> };

export type Admitted =
  /** One placement for each applicant. `settle` must be called once it is known whether the event is on disk. */
  | { ok: true; placements: readonly Placement[]; settle(accepted: boolean): void }
  | { ok: false; failure: Failure };

/**
 * The total usage of a run, with its earlier tries, when it ends, waits for a person, or is back in the queue (`again`). It
 * replaces the usage that was counted of the run before.
 */
export interface RunSpend {
  usage?: RunRecord["usage"];
  again: boolean;
}

/** A run as it was before it was executed. */
export type ReleasedRun = Pick<
  RunRecord,
  "id" | "mapping" | "status" | "usage" | "attempts" | "hold"
>;

export interface AdmissionDeps {
  store: Store;
  usage: UsageStore;
  /** If several gateways share batches. */
  batches?: SharedBatches | undefined;
  clock: Clock;
  log: Logger;
  /** The budgets of the current snapshot. */
  snapshot(): { budgets: Budgets };
}
