import type { createSharedCounts } from "../../intake/shared-counts.ts";
import type { Chats } from "../../actions/chat-types.ts";
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../core/log.ts";
import type { LazyKnowledge } from "../../knowledge/lazy.ts";
import type { Store } from "../../store/types.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { ApiKey, ApiKeys } from "./keys.ts";

/** Everything that the platform API needs. */
export interface PlatformDeps {
  sharedCounts?: ReturnType<typeof createSharedCounts>;
  chats: Chats;
  keys: ApiKeys;
  knowledge: LazyKnowledge;
  store: Store;
  clock: Clock;
  log: Logger;
  snapshot(): Snapshot;
  /** The gateway is stopping. */
  draining(): boolean;
  /** When the gateway started: what its agents count as made. Milliseconds since the epoch. */
  startedAt: number;
  fetch: typeof fetch;
}

/** What every route knows of its request. */
export interface Caller {
  key: ApiKey;
  requestId: string;
}
export interface PlatformEnv {
  Variables: { caller: Caller };
}
