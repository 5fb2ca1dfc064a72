import type { Agent, AgentRuntime, Models } from "../agent/types.ts";
import type { Config } from "../config/schema/index.ts";
import type { Clock } from "../core/clock.ts";
import type { Failure } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { Channels } from "../delivery/types.ts";
import type { Heartbeat } from "../sessions/heartbeat.ts";
import type { Queue, RunRecord, Store } from "../store/types.ts";

/** The agents of a snapshot; there is always at least one. */
export interface Agents {
  readonly list: readonly Agent[];
  /** The first of the list: the main session is its. */
  readonly standard: Agent;
  get(id: string): Agent | undefined;
}

/** What actions need of a snapshot: work keeps the one it began with. */
export interface ActionContext {
  readonly config: Config;
  readonly agents: Agents;
  readonly models: Models;
  readonly runtime: AgentRuntime;
  readonly channels: Channels;
}

/** What an operator may do to runs. Failures are values, each saying what to change. */
export interface RunOperations {
  cancel(id: string): Promise<{ ok: true; run: RunRecord } | { ok: false; failure: Failure }>;
  retry(id: string): Promise<{ ok: true; run: RunRecord } | { ok: false; failure: Failure }>;
}

export interface TurnMetrics {
  runStarted(run: { waitSeconds: number }): void;
  runEnded(run: { status: string; seconds: number }): void;
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
  metrics?: TurnMetrics;
}
