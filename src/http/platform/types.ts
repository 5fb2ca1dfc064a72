import type { Context } from "hono";
import { type Operation, answers, failures } from "../openapi/operation.ts";
import type { createSharedCounts } from "../../intake/callers.ts";
import type { Approvals } from "../../approvals/approvals.ts";
import type { Chats } from "../../chat/types.ts";
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../core/log.ts";
import type { LazyKnowledge } from "../../knowledge/lazy.ts";
import type { EarlierRuns } from "../../chat/history.ts";
import type { IdempotentTurns } from "./idempotent-turns.ts";
import type { FirstAnswers } from "../first-answers.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { ApiKey, ApiKeys, Scope } from "../../chat/api-keys.ts";
import type { z } from "zod";
import { apiErrorAnswer } from "./answer-schemas.ts";

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
  /** Absent if the store cannot hang. */
  firstAnswers: FirstAnswers | undefined;
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

/** Failures of the platform API by status, each with its reason. */
export const problems = <S extends string>(reasons: Record<S, string>) =>
  failures(apiErrorAnswer, reasons);

/** What the published document says of a route beside its success. */
type Details = Partial<Operation> & {
  /** What a 200 means. Default: the summary. */
  ok?: string;
};

/**
 * Defines a route that answers with JSON.
 * @param id the operation's id in the published document
 */
export function defineRoute(
  scope: Scope | undefined,
  handle: ApiRoute["handle"],
  [id, summary, answered]: readonly [id: string, summary: string, answered: z.ZodType],
  { ok = summary, responses, ...details }: Details = {},
): ApiRoute {
  return {
    scope,
    handle,
    doc: {
      operationId: id,
      summary,
      ...details,
      responses: { "200": answers(ok, answered), ...responses },
    },
  };
}

/** An answer in JSON that no cache keeps. */
export function jsonResponse(c: Context<PlatformEnv>, body: object, status = 200): Response {
  const headers = {
    "content-type": "application/json",
    "x-request-id": c.get("caller").requestId,
    "cache-control": "no-store",
  };
  return new Response(JSON.stringify(body), { status, headers });
}
