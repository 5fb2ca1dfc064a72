import type { Admission } from "../limits/types.ts";
import type { Approvals } from "../approvals/approvals.ts";
import type { ApprovalRules } from "../approvals/rules.ts";
import type { RunOperations } from "../runs/types.ts";
import type { Chats } from "../chat/types.ts";
import type { Clock } from "../core/clock.ts";
import type { Logger } from "../core/log.ts";
import type { Failure, Issue } from "../core/errors.ts";
import type { ChannelHealth, ChannelState } from "../delivery/health.ts";
import type { LazyKnowledge } from "../knowledge/lazy.ts";
import type { Denial, ReplayResult, SignatureState, Snapshot } from "../intake/types.ts";
import type { WaitState } from "../core/breaker.ts";
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
  mcpServers: ReturnType<Snapshot["runtime"]["mcpServers"]>;
  /** The breakers of models and channels at this gateway: those that are open or limited, or have calls under way. */
  breakers: readonly BreakerView[];
}

/** Times are in ISO 8601; null if the breaker is closed. `limit`: calls at the same time, null if there is no limit. */
export interface BreakerView {
  of: string;
  state: WaitState["state"];
  since: string | null;
  nextTest: string | null;
  running: number;
  limit: number | null;
  waiting: number;
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
  approvals: Approvals;
  rules: ApprovalRules;
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
