import type { Admission } from "../queue/admission.ts";
import type { Approvals } from "../people/approvals.ts";
import type { ApprovalRules } from "../people/rules.ts";
import type { Memory } from "../people/notes.ts";
import type { PersonLinks } from "../people/links.ts";
import type { Pairings } from "../people/pairings.ts";
import type { RunOperations } from "../turns/types.ts";
import type { Chats } from "../chat/types.ts";
import type { Clock } from "../core/clock.ts";
import type { Logger } from "../core/log.ts";
import type { Failure, Issue } from "../core/errors.ts";
import type { ChannelHealth, ChannelState } from "../delivery/health.ts";
import type { RetryDelivery } from "../delivery/plan.ts";
import type { LazyKnowledge } from "../knowledge/lazy.ts";
import type {
  Denial,
  ReplayOptions,
  ReplayResult,
  SignatureState,
  Snapshot,
} from "../intake/types.ts";
import type { Latencies } from "./watch/watch-views.ts";
import type { BreakerView } from "./records/views.ts";
import type { ServicesOptions, ServiceStatus } from "../plugin/services.ts";
import type { Schedules } from "../turns/schedules/schedules.ts";
import type { Bookmarks } from "./records/bookmarks.ts";
import type { FailureStates } from "./watch/failure-states.ts";
import type { ApiKeys } from "../chat/api-keys.ts";
import type { ConfigRecord, Cluster, EventRecord, Queue, Store } from "../store/types.ts";

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

/** The config that decided an event, and what decides as it did. */
export interface DecidedBy {
  /** Undefined if it was not recorded. */
  record: ConfigRecord | undefined;
  /** The config in use today; undefined if it was not recorded. */
  today: ConfigRecord | undefined;
  /** Since when this gateway has been using it; undefined if the gateway was not started. */
  todaySince: number | undefined;
  /** Whether the event was decided by the config that is in use today. */
  isToday: boolean;
  /** Decides as the config did then, or as today's if `note` says so. */
  snapshot: Snapshot;
  /** In what `snapshot` may decide otherwise than was decided; null if in nothing. */
  note: string | null;
}

/** Everything that the operator's operations need. */
export interface AdminDeps {
  clock: Clock;
  log: Logger;
  store: Store;
  queue: Queue;
  cluster: Pick<Cluster, "shared" | "list" | "leases">;
  snapshot(): Snapshot;
  decidedBy(event: EventRecord): Promise<DecidedBy>;
  status(): RuntimeStatus;
  /** What recorded hooks show about mappings: warnings, and fields that mappings read and that new bodies do not have. */
  recorded(): Promise<{
    warnings: readonly Issue[];
    bodyChanges: readonly { mapping: string; message: string }[];
  }>;
  refusals(): readonly Denial[];
  /** Of each signed path: which secret fitted last, and which secrets were brought while it has none. */
  signatures(): readonly SignatureState[];
  runs: RunOperations;
  approvals: Approvals;
  rules: ApprovalRules;
  schedules: Schedules;
  pairings: Pick<Pairings, "list" | "decide" | "revoke">;
  memory: Memory;
  links: Pick<PersonLinks, "list" | "unlink">;
  limits: Admission["usage"];
  channels: Pick<ChannelHealth, "probeAll" | "test">;
  replay(
    event: EventRecord,
    options: ReplayOptions,
  ): Promise<{ ok: true; result: ReplayResult } | { ok: false; failure: Failure }>;
  /** Takes an event that a plugin sends, without the credential of its path. */
  sendEvent: ServicesOptions["hook"];
  retryDelivery: RetryDelivery;
  /** Builds a new snapshot from disk and swaps it in, or keeps the old one. */
  reload(): Promise<{ ok: true; hash: string } | { ok: false; issues: Issue[] }>;
  metrics(): Promise<string>;
  /** How long the newest answers, waits and runs of this gateway took. */
  latencies(): Latencies;
  keys: ApiKeys;
  bookmarks: Bookmarks;
  failures: FailureStates;
  chats: Chats;
  knowledge: LazyKnowledge;
}
