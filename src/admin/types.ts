import type { Admission } from "../limits/types.ts";
import type { McpServerState } from "../agent/mcp-server.ts";
import type { RunOperations } from "../runs/types.ts";
import type { Chats } from "../chat/types.ts";
import type { Clock } from "../core/clock.ts";
import type { Logger } from "../core/log.ts";
import type { Failure, Issue } from "../core/errors.ts";
import type { ChannelHealth, ChannelState } from "../delivery/health.ts";
import type { LazyKnowledge } from "../knowledge/lazy.ts";
import type { Denial, ReplayResult, SignatureState, Snapshot } from "../intake/types.ts";
import type { ServicesOptions, ServiceStatus } from "../plugin/services.ts";
import type { ApiKeys } from "../chat/api-keys.ts";
import type { DeliveryRecord, Cluster, Queue, Store } from "../store/types.ts";

export interface RuntimeStatus {
  version: string;
  pid: number;
  startedAt: number;
  url: string | undefined;
  workers: boolean;
  draining: boolean;
  snapshot: string;
  configFile: string | undefined;
  stateDir: string;
  /** Set while the last reload failed and the snapshot before it is still in use. */
  reloadProblems: readonly Issue[];
  warnings: readonly Issue[];
  /** What the services of plugins report; empty without workers. */
  services: readonly ServiceStatus[];
  /** Whether channels could be reached when they were looked at last. */
  channels: readonly ChannelState[];
  /** How the MCP servers do; those that no agent uses are idle. */
  mcpServers: readonly McpServerState[];
}

/** Everything that the operator's operations need. */
export interface AdminDeps {
  clock: Clock;
  log: Logger;
  store: Store;
  queue: Queue;
  cluster: Pick<Cluster, "shared" | "list" | "leases">;
  snapshot(): Snapshot;
  status(): RuntimeStatus;
  refusals(): readonly Denial[];
  /** Of each signed path: which secret fitted last, and which secrets were brought while it has none. */
  signatures(): readonly SignatureState[];
  runs: RunOperations;
  limits: Admission["usage"];
  channels: Pick<ChannelHealth, "probeAll" | "test">;
  replay(eventId: string, options: { dryRun: boolean }): Promise<{ ok: true; result: ReplayResult } | { ok: false; failure: Failure }>;
  /** Takes an event that a plugin sends, without the credential of its path. */
  sendEvent: ServicesOptions["hook"];
  retryDelivery(id: string): Promise<{ ok: true; delivery: DeliveryRecord } | { ok: false; failure: Failure }>;
  /** Builds a new snapshot from disk and swaps it in, or keeps the old one. */
  reload(): Promise<{ ok: true; hash: string } | { ok: false; issues: Issue[] }>;
  metrics(): Promise<string>;
  keys: ApiKeys;
  chats: Chats;
  knowledge: LazyKnowledge;
}
