import type { Context } from "hono";
import type { Operation } from "../openapi/operation.ts";
import type { createSharedCounts } from "../../intake/shared-counts.ts";
import type { Approvals } from "../../approvals/approvals.ts";
import type { Chats } from "../../chat/types.ts";
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../core/log.ts";
import type { LazyKnowledge } from "../../knowledge/lazy.ts";
import type { EarlierRuns } from "../../chat/earlier-runs.ts";
import type { IdempotentTurns } from "./idempotent-turns.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { ApiKey, ApiKeys, Scope } from "../../chat/api-keys.ts";

/** Everything that the platform API needs. */
export interface PlatformDeps {
  sharedCounts?: ReturnType<typeof createSharedCounts>;
  chats: Chats;
  keys: ApiKeys;
  approvals: Approvals;
  knowledge: LazyKnowledge;
  earlierRuns: EarlierRuns;
  clock: Clock;
  log: Logger;
  snapshot(): Snapshot;
  /** The gateway is stopping. */
  draining(): boolean;
  /** When the gateway started: what its agents count as made. Milliseconds since the epoch. */
  startedAt: number;
  fetch: typeof fetch;
}

/** What the routes of the platform API share. */
export interface PlatformParts extends PlatformDeps {
  turns: IdempotentTurns;
  upload(c: Context<PlatformEnv>): Promise<Response>;
}

/** What every route knows of its request. */
export interface Caller {
  key: ApiKey;
  requestId: string;
}
export interface PlatformEnv {
  Variables: { caller: Caller };
}

/** One method of an address. */
export interface ApiRoute {
  /** The scope that a key needs for it. Undefined: the route itself decides who may use it. */
  scope: Scope | undefined;
  handle(c: Context<PlatformEnv>, parts: PlatformParts): Response | Promise<Response>;
  /** What the published document says of it, besides the failures that every route may answer. */
  doc: Operation;
}

export type Method = "GET" | "POST" | "DELETE";
/** Routes by their address below `/v1`. */
export type ApiRoutes = Record<string, Partial<Record<Method, ApiRoute>>>;
