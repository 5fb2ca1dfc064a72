import type { Agent, AgentRuntime, Models } from "../agent/types.ts";
import type { Config } from "../config/schema/index.ts";
import type { Failure } from "../core/errors.ts";
import type { Channels } from "../delivery/types.ts";
import type { RunRecord } from "../store/types.ts";

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
