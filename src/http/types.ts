import type { Admission, RunOperations } from "../actions/types.ts";
import type { Chats } from "../actions/chat-types.ts";
import type { Clock } from "../core/clock.ts";
import type { Failure, Issue } from "../core/errors.ts";
import type { ChannelHealth, ChannelState } from "../delivery/health.ts";
import type { LazyKnowledge } from "../knowledge/lazy.ts";
import type { Denial, ReplayResult, SignatureState, Snapshot } from "../intake/types.ts";
import type { ServiceStatus } from "../plugin/services.ts";
import type { ApiKeys } from "./platform/keys.ts";
import type { DeliveryRecord, Peers, Queue, Store } from "../store/types.ts";

export interface GatewayStatus {
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
}

/** Everything that the admin routes need. */
export interface AdminDeps {
  clock: Clock;
  store: Store;
  queue: Queue;
  peers: Pick<Peers, "shared" | "list" | "leases">;
  snapshot(): Snapshot;
  status(): GatewayStatus;
  refusals(): readonly Denial[];
  /** Of each signed path: which secret fitted last, and which secrets were brought while it has none. */
  signatures(): readonly SignatureState[];
  runs: RunOperations;
  limits: Admission["usage"];
  channels: Pick<ChannelHealth, "look" | "test">;
  replay(eventId: string, options: { dryRun: boolean }): Promise<{ ok: true; result: ReplayResult } | { ok: false; failure: Failure }>;
  retryDelivery(id: string): Promise<{ ok: true; delivery: DeliveryRecord } | { ok: false; failure: Failure }>;
  /** Builds a new snapshot from disk and swaps it in, or keeps the old one. */
  reload(): Promise<{ ok: true; hash: string } | { ok: false; issues: Issue[] }>;
  metrics(): Promise<string>;
  keys: ApiKeys;
  chats: Chats;
  knowledge: LazyKnowledge;
}
