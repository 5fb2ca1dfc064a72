import type { Agent, AgentRuntime, Models } from "../agent/types.ts";
import type { Config } from "../config/schema/index.ts";
import type { Clock } from "../core/clock.ts";
import type { EventDebug } from "../core/debug.ts";
import type { Failure } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { Channels } from "../delivery/types.ts";
import type { Heartbeat } from "../sessions/heartbeat.ts";
import type { Callback } from "../config/schema/limits.ts";
import type { Collected, Ms, Parked, Queue, RunAction, RunRecord, Store, StoredAction } from "../store/types.ts";
import type { Budget, Budgets, BudgetUse, Place } from "./limits.ts";
import type { KnowledgeSearch } from "./knowledge.ts";
import type { Collecting } from "./windows.ts";

/** The agents of a snapshot; there is always at least one. */
export interface Agents {
  readonly list: readonly Agent[];
  /** The first of the list: the main session is its. */
  readonly standard: Agent;
  get(id: string): Agent | undefined;
}

/** An entry of `bindings`, resolved. */
export interface Binding {
  /** Ids of channels. */
  channels: readonly string[];
  room?: string;
  person?: string;
  agent: Agent;
}

/** The owner, and the agents of rooms and people, as the config says. */
export interface Rooms {
  /** True if the person, by the id that `from` gives, is the owner. */
  isOwner(channel: string, person: string): boolean;
  /** True if the owner can write on the channel: only then it can become the last route. */
  hasOwner(channel: string): boolean;
  /** The agent for a message: that of the first binding that fits, else the default agent. */
  agentFor(channel: string, message: { from: string; to: string }): Agent;
  /** The bindings of a channel, in order. */
  bindingsOn(channel: string): readonly Binding[];
}

/** What actions need of a snapshot: work keeps the one it began with. */
export interface ActionContext {
  readonly config: Config;
  readonly agents: Agents;
  readonly models: Models;
  readonly runtime: AgentRuntime;
  readonly channels: Channels;
  readonly rooms: Rooms;
  readonly budgets: Budgets;
  /** Where the receipt of a mapping's runs goes. */
  callbackOf(mapping: string | undefined): Callback | undefined;
}

/** What an operator may do to runs. Failures are values, each saying what to change. */
export interface RunOperations {
  cancel(id: string): Promise<{ ok: true; run: RunRecord } | { ok: false; failure: Failure }>;
  retry(id: string): Promise<{ ok: true; run: RunRecord } | { ok: false; failure: Failure }>;
}

/** An action that is about to be accepted. */
export interface Applicant {
  action: StoredAction;
  /** Set where it is to be collected with others. */
  collect?: Collecting & { event: Collected };
}

/** Where an accepted action goes: into the queue, behind a limit, or into the window of the run that collects it. */
export type Placement =
  | { state: "queued" }
  | { state: "parked"; parked: Parked }
  | { state: "collecting"; runId: string; collect: NonNullable<RunAction["collect"]> };

export type Admitted =
  /** One placement for each applicant. `settle` must be called once it is known whether the event is on disk. */
  { ok: true; placements: readonly Placement[]; settle(accepted: boolean): void } | { ok: false; failure: Failure };

export interface BudgetView {
  scope: string;
  limits: Budget["limits"];
  usage: BudgetUse;
}

/** What may be accepted, what may start, and what has to wait. */
export interface Admission {
  /** Takes room for the actions of one event, all or none, and says where each goes. Changes none of them. */
  admit(applicants: readonly Applicant[], now: Ms): Admitted | Promise<Admitted>;
  /** Takes a place for a run that is accepted again, or that has come out of a window. */
  place(run: Pick<RunRecord, "id" | "mapping">, now: Ms): Place;
  /** Undefined where the run may start; it then must be given back by `over`. */
  start(run: RunRecord, now: Ms): Parked | undefined | Promise<Parked | undefined>;
  /** That the run waits is on disk. */
  parked?(runId: string): Promise<void>;
  /** The run is over, or put back into the queue. */
  over(run: Pick<RunRecord, "id" | "mapping">, end: { tokens: number; again: boolean }): void;
  /** Closes the window that a run collects in; returns when it closes instead, where an event has put that off. */
  closeWindow(runId: string, now: Ms): Promise<Ms | undefined>;
  /** No event joins the run any more; all that did are on disk. */
  dropWindow(runId: string): Promise<void>;
  /** Counts from what the store has, and gives those that wait for time a new moment: at start, and when limits change. */
  recount(): Promise<void>;
  /** Where several gateways share budgets: gives back what those that are gone have left. */
  tidy?(): Promise<void>;
  usage(): BudgetView[] | Promise<BudgetView[]>;
}

/** What collected events come to: one run, nothing, or a failure; with what the mapping's code did. */
export type Combined = ({ ok: true; action: RunAction } | { ok: true; skipped: string } | { ok: false; failure: Failure }) & {
  debug?: EventDebug;
};

export interface TurnMetrics {
  runStarted(run: { waitSeconds: number }): void;
  runEnded(run: { status: string; seconds: number }): void;
  deliveryEnded(delivery: { channel: string; status: string }): void;
}

/** What the jobs of a run carry. */
export interface RunJob {
  type: "run";
  runId: string;
}

export interface TurnDeps {
  store: Store;
  queue: Queue;
  clock: Clock;
  log: Logger;
  /** The snapshot of now; a turn keeps the one it began with. */
  context(): ActionContext;
  heartbeat: Heartbeat;
  onRunEnd(runId: string): void;
  admission: Admission;
  /** Cancels a run, whichever gateway carries it out. */
  cancel: RunOperations["cancel"];
  /** What the events that a mapping has collected come to together. */
  combine(mapping: string, events: readonly Collected[]): Promise<Combined>;
  metrics?: TurnMetrics;
  knowledge?: KnowledgeSearch;
}
