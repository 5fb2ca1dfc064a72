import type { Approvals, Questions } from "../people/approvals.ts";
import type { ApprovalRules } from "../people/rules.ts";
import type { TurnExtension, Agent, AgentRuntime, Models } from "../agent/types.ts";
import type { Config } from "../config/schema/index.ts";
import type { Clock } from "../core/clock.ts";
import type { ModelUse } from "../core/metrics.ts";
import type { EventDebug } from "../vocabulary/debug-notes.ts";
import type { Failure } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { Channels } from "../delivery/channels.ts";
import type { Memory } from "../people/notes.ts";
import type { LinkRules, PersonAddress, KnownPeople } from "../people/links.ts";
import type { Traces } from "../core/http/trace-context.ts";
import type { Heartbeat } from "../sessions/heartbeat.ts";
import type { Callback } from "../config/schema/limits.ts";
import type { Admission } from "../queue/admission.ts";
import type { Budgets } from "../queue/types.ts";
import type {
  ApprovalRecord,
  Cluster,
  Collected,
  HookSpec,
  Queue,
  RunAction,
  RunRecord,
  Store,
} from "../store/types.ts";
import type { ParkingLot } from "../queue/parking-lot.ts";
import type { AttachmentDeps } from "./channel/attachments.ts";
import type { KnowledgeSearch } from "./knowledge.ts";
import type { Quarantine } from "./quarantine.ts";
import type { SteerableTurns } from "./channel/steering.ts";
import type { TypingSigns } from "./channel/typing.ts";

/** The agents of a snapshot; there is always at least one. */
export interface Agents {
  readonly list: readonly Agent[];
  /** The first of the list: the main session belongs to it. */
  readonly default: Agent;
  get(id: string): Agent | undefined;
}

/** An entry of `bindings`, resolved. */
export interface Binding {
  /** Ids of channels. */
  channels: readonly string[];
  room?: string;
  person?: string;
  agent: Agent;
  /** Agents that people may choose with `/agent`, besides `agent`. */
  choices: readonly Agent[];
}

/** The owner, the people with several channels, and the agents of rooms and people, as the config says. */
export interface Rooms extends LinkRules {
  /** The addresses in `people`, in order. */
  readonly entries: readonly PersonAddress[];
  /** True if the owner can write on the channel: only then it can become the last route. */
  hasOwner(channel: string): boolean;
  /** The agent for a message: that of the first binding that fits, else the default agent. */
  agentFor(channel: string, message: { from: string; to: string }): Agent;
  /** The agents that people may choose for the conversation of a message, that of its binding first. */
  choicesFor(channel: string, message: { from: string; to: string }): readonly Agent[];
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
  /** The callback of a mapping, which gets the receipts of its runs. */
  getCallback(mapping: string | undefined): Callback | undefined;
  /** Who may decide about calls that wait, as decisions name them. */
  readonly approvers: readonly string[];
  /** What a mapping says of its runs' tools. */
  getToolRules(mapping: string | undefined): {
    tools?: readonly string[];
    approve?: readonly string[];
  };
}

/** What an operator may do to runs. Failures are values, each saying what to change. */
export interface RunOperations {
  cancel(id: string): Promise<{ ok: true; run: RunRecord } | { ok: false; failure: Failure }>;
  retry(id: string): Promise<{ ok: true; run: RunRecord } | { ok: false; failure: Failure }>;
}

/** The result of collected events: one run, nothing, or a failure; with what the mapping's code did. */
export type CombinedAction = (
  | { ok: true; action: RunAction<HookSpec> }
  | { ok: true; skipped: string }
  | { ok: false; failure: Failure }
) & {
  debug?: EventDebug;
  /** The id of the config that combined them. */
  config?: string;
};

export interface TurnMetrics {
  runStarted(run: { waitSeconds: number }): void;
  runEnded(run: { status: string; seconds: number }): void;
  modelUsed(run: ModelUse): void;
  deliveryEnded(delivery: { channel: string; status: string }): void;
}

/** What the jobs of a run carry. */
export interface RunJob {
  type: "run";
  runId: string;
}

/** What runs of every kind are executed with. */
export interface ExecutorDeps {
  store: Store;
  queue: Queue;
  /** The gateways of the store, and which of them this one is. */
  cluster: Pick<Cluster, "id" | "list">;
  clock: Clock;
  log: Logger;
  /** The current snapshot; a turn keeps the one it began with. */
  context(): ActionContext;
  onRunEnd?(runId: string): void;
  /** Called once a question to a person is on disk. */
  onApproval?(approval: ApprovalRecord): void;
  /** Where runs wait for providers that are away. */
  parking: ParkingLot;
  /** Calls that people have approved for good. */
  rules: Pick<ApprovalRules, "list">;
  /** Plans what asks people about calls. */
  questions: Questions;
  metrics?: TurnMetrics;
  traces: Traces;
  knowledge?: KnowledgeSearch;
  /** The tool by which agents propose schedules; turns have it if their agents' `tools` name it. */
  scheduleTool?: TurnExtension;
  /** What agents note; turns have the tools for it if their agents' `tools` name them. */
  memory?: Memory;
  /** What reads the files of messages. */
  attachments?: AttachmentDeps;
  /** Which runs may be under way at the same time. Absent: all. */
  quarantine?: Quarantine;
  /** The turns of this process that can start again. */
  steerable?: SteerableTurns;
  /** What shows people that a turn runs. */
  typing?: TypingSigns;
}

/** The same for runs that are taken from the queue, and for what people do with them. */
export interface TurnDeps extends ExecutorDeps {
  onRunEnd(runId: string): void;
  attachments: AttachmentDeps;
  heartbeat: Heartbeat;
  admission: Admission;
  /** Cancels a run, whichever gateway executes it. */
  cancel: RunOperations["cancel"];
  /** Records what a person decided about an approval. */
  approvals: Pick<Approvals, "decide">;
  people: KnownPeople;
  /** Combines the events that a mapping has collected. */
  combine(mapping: string, events: readonly Collected[]): Promise<CombinedAction>;
}
