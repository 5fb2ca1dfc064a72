import type { Agent, AgentRuntime, Models } from "../agent/types.ts";
import type { Config } from "../config/schema/index.ts";
import type { Callback } from "../config/schema/limits.ts";
import type { Failure } from "../core/errors.ts";
import type { Channels } from "../delivery/channels.ts";
import type { LinkRules, PersonAddress } from "../people/links.ts";
import type { Budgets } from "../queue/types.ts";
import type { HookSpec, RunAction, RunRecord } from "../store/types.ts";
import type { EventDebug } from "../vocabulary/debug-notes.ts";

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
  /** The channels on which the owner can write: only these can become the last route. */
  readonly ownerChannels: ReadonlySet<string>;
  /** The agent for a message: that of the first binding that fits, else the default agent. */
  agentFor(channel: string, message: { from: string; to: string }): Agent;
  /** The agents that people may choose for the conversation of a message, that of its binding first. */
  choicesFor(channel: string, message: { from: string; to: string }): readonly Agent[];
  /** The bindings of a channel, in order. */
  bindingsOn(channel: string): readonly Binding[];
}

/** A mapping's settings for its runs: their tools, and the callback that gets their receipts. */
interface RunSettings {
  tools?: readonly string[];
  approve?: readonly string[];
  callback?: Callback;
}

/** The part of a snapshot that actions need: work keeps the one it began with. */
export interface ActionContext {
  readonly config: Config;
  readonly agents: Agents;
  readonly models: Models;
  readonly runtime: AgentRuntime;
  readonly channels: Channels;
  readonly rooms: Rooms;
  readonly budgets: Budgets;
  readonly mappings: { settings(id: string): RunSettings | undefined };
  /** The people who may decide about calls that wait, as decisions name them. */
  readonly approvers: readonly string[];
}

/** The operations of an operator on runs. Failures are values, each saying what to change. */
export interface RunOperations {
  cancel(id: string): Promise<{ ok: true; run: RunRecord } | { ok: false; failure: Failure }>;
  retry(id: string): Promise<{ ok: true; run: RunRecord } | { ok: false; failure: Failure }>;
}

/** The callers that wait for the ends of runs. */
export interface RunEnds {
  /** To be called when a run has ended here. */
  ended(runId: string): void;
  /** Resolves when the run has ended, after `ms`, or when the gateway stops. */
  wait(runId: string, ms: number): Promise<void>;
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

/** The data of the jobs of a run. */
export interface RunJob {
  type: "run";
  runId: string;
}
