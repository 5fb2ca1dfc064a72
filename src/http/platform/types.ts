import type { Context } from "hono";
import { type Operation, answers, failures, sends } from "../openapi/operation.ts";
import type { HttpContext } from "../context.ts";
import type { ApiKey, Scope } from "../../chat/api-keys.ts";
import type { z } from "zod";
import { apiErrorAnswer } from "./answer-schemas.ts";
import type { IdempotentTurns } from "./idempotent-turns.ts";
import { check, readCheckedBody } from "./read.ts";

/** The parts that the routes of the platform API share. */
export interface PlatformParts extends HttpContext {
  idempotentTurns: IdempotentTurns;
  upload(c: Context<PlatformEnv>): Promise<Response>;
}

/** The key and the id of a request, as every route gets them. */
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
  /** Its description in the published document. */
  doc: Operation;
}

export type Method = "GET" | "POST" | "DELETE";
/** Routes by their address below `/v1`. */
export type ApiRoutes = Record<string, Partial<Record<Method, ApiRoute>>>;

/** The parts of a request, checked. */
interface Asked<Q, B> {
  c: Context<PlatformEnv>;
  key: ApiKey;
  /** The `:id` of the address. */
  id: string;
  query: Q;
  body: B;
}

type Answered = object | Response;

/** The request and the answer of a route. The schemas that check a request are those that the published document shows. */
interface OperationSpec<Q extends z.ZodType, B extends z.ZodType> {
  operationId: string;
  summary: string;
  /** The body of a 200. */
  answer: z.ZodType;
  /** The meaning of a 200. Default: the summary. */
  ok?: string;
  query?: Q;
  body?: B;
  /** Further parts of its description. */
  details?: Partial<Operation>;
}

interface RouteSpec<Q extends z.ZodType, B extends z.ZodType> extends OperationSpec<Q, B> {
  /** The scope that a key needs for it. Undefined: the route itself decides who may use it. */
  scope: Scope | undefined;
  /** Answers with what goes out as JSON, or with a response of its own. */
  handle(
    asked: Asked<z.output<Q>, z.output<B>>,
    parts: PlatformParts,
  ): Answered | Promise<Answered>;
}

/** Describes a route for the published document. */
export function describeRoute<Q extends z.ZodType, B extends z.ZodType>({
  operationId,
  summary,
  answer,
  ok = summary,
  query,
  body,
  details,
}: OperationSpec<Q, B>): Operation {
  return {
    operationId,
    summary,
    ...(query && { requestParams: { query: query as unknown as z.ZodObject } }),
    ...(body && { requestBody: sends(body) }),
    ...details,
    responses: {
      "200": answers(ok, answer),
      ...failures(apiErrorAnswer),
      ...details?.responses,
    },
  };
}

/** Defines a route that answers with JSON. */
export function defineRoute<Q extends z.ZodType, B extends z.ZodType>(
  spec: RouteSpec<Q, B>,
): ApiRoute {
  const { scope, query, body, handle } = spec;
  return {
    scope,
    doc: describeRoute(spec),
    async handle(c, parts) {
      const asked = {
        c,
        key: c.get("caller").key,
        id: c.req.param("id") ?? "",
        query: query && check(query, c.req.query()),
        body: body && (await readCheckedBody(c, parts.snapshot(), body)).body,
      } as Asked<z.output<Q>, z.output<B>>;
      const answered = await handle(asked, parts);
      return answered instanceof Response ? answered : jsonResponse(c, answered);
    },
  };
}

/** A page of a list. */
export const toList = (data: readonly object[], hasMore = false) => ({
  object: "list" as const,
  data,
  has_more: hasMore,
});

/** An answer in JSON that no cache keeps. */
export function jsonResponse(c: Context<PlatformEnv>, body: object, status = 200): Response {
  const headers = {
    "content-type": "application/json",
    "x-request-id": c.get("caller").requestId,
    "cache-control": "no-store",
  };
  return new Response(JSON.stringify(body), { status, headers });
}
