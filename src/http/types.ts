import type { ActionContext, Admission, RunOperations } from "../actions/types.ts";
import type { Chats } from "../actions/chat-types.ts";
import type { Clock } from "../core/clock.ts";
import type { Failure, Issue } from "../core/errors.ts";
import type { ChannelHealth, ChannelState } from "../delivery/health.ts";
import type { LazyKnowledge } from "../knowledge/lazy.ts";
import type { MappingSet } from "../mapping/types.ts";
import type { ServiceStatus } from "../plugin/services.ts";
import type { Verifier } from "../signatures/types.ts";
import type { ApiKeys } from "./platform/keys.ts";
import type { SecretCandidate } from "./secret-candidates.ts";
import type { DeliveryRecord, EventOutcome, Peers, Queue, Store } from "../store/types.ts";

/** One frozen whole of everything that a request reads. Made at start and at each reload. */
export interface Snapshot extends ActionContext {
  /** SHA-256 of the config, the mapping files and the transform modules. */
  readonly hash: string;
  /** The same on every machine with the same settings and files: without addresses, ports and folders. */
  readonly clusterHash: string;
  readonly configFile: string | undefined;
  readonly mappings: MappingSet;
  /** By path, for those whose callers sign. */
  readonly verifiers: ReadonlyMap<string, Verifier>;
  readonly plugins: readonly { id: string; origin: string; channel: boolean; configured: boolean }[];
  /** Things that work but are worth a look, each with the path of its field. */
  readonly warnings: readonly Issue[];
}

export interface SignatureState {
  path: string;
  /** `secret` counts from 0; `at` is in milliseconds since the epoch. */
  last: { secret: number; of: number; at: number } | undefined;
  /** Secrets that requests brought while that of the path is `pending`, oldest first. */
  candidates: readonly SecretCandidate[];
}

/** A refused caller: kept in memory only, the last 1,000. */
export interface Refusal {
  at: number;
  address: string;
  path: string;
  reason: string;
  /** Its credential was right; it was refused for another reason, such as a rate limit. */
  authenticated: boolean;
}

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

/** What a replay made, or would make with `dryRun`. */
export interface ReplayResult {
  eventId: string;
  /** The new event; absent with `dryRun`. */
  newEventId?: string;
  outcome: EventOutcome;
  reason?: string;
  mapping?: string;
  actions: { kind: "run" | "wake"; id?: string; mapping?: string; summary: string }[];
}

/** Everything that the admin routes need. */
export interface AdminDeps {
  clock: Clock;
  store: Store;
  queue: Queue;
  peers: Pick<Peers, "shared" | "list" | "leases">;
  snapshot(): Snapshot;
  status(): GatewayStatus;
  refusals(): readonly Refusal[];
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
