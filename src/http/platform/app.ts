import { Hono, type Context } from "hono";
import { type RouseError, safeError, type Failure } from "../../core/errors.ts";
import { newId } from "../../core/ids.ts";
import { createFailureLimiter, createRateLimiter } from "../../intake/callers.ts";
import { createIdempotentTurns } from "./idempotent-turns.ts";
import type { Scope } from "../../chat/api-keys.ts";
import { getCaller, ROUTING } from "../request.ts";
import { createUploads } from "./knowledge-upload.ts";
import { findProblem, toProblem, problemResponse, type ApiProblem } from "./problems.ts";
import { ROUTES } from "./routes.ts";
import type { Caller, PlatformDeps, PlatformEnv, PlatformParts, ApiRoutes } from "./types.ts";
import type { Config } from "../../config/schema/index.ts";

type Cors = Config["platform"]["cors"];

const METHODS = "GET, HEAD, POST, DELETE";
/** Headers of answers that pages may read, besides those that they may always read. */
const EXPOSED =
  "x-request-id, x-session-id, retry-after, x-should-retry, idempotent-replayed, deprecation, sunset, www-authenticate";
/** How long browsers keep the answer whether a page may send a request. */
const MAX_AGE_SECONDS = "600";
const HEADER_NAMES = /^[\w!#$%&'*+.^`|~ ,-]{1,2000}$/;

const NOT_ALLOWED: ApiProblem = {
  status: 403,
  type: "permission_error",
  code: "origin_not_allowed",
  param: null,
  message: "pages of this origin may not use the API: add the origin to platform.cors.origins",
};

/** Returns what `access-control-allow-origin` says to an origin; undefined if it has no access. */
function getAllowedOrigin(origin: string, { origins }: Cors): string | undefined {
  if (origins.includes(origin.toLowerCase())) return origin;
  return origins.includes("*") ? "*" : undefined;
}

function toHeaders(allowed: string, { credentials }: Cors): Record<string, string> {
  return {
    "access-control-allow-origin": allowed,
    ...(credentials && allowed !== "*" ? { "access-control-allow-credentials": "true" } : {}),
  };
}

/** Answers the question of a browser whether a page may send a request. It carries no key. */
function answerPreflight({ headers }: Request, allowed: string | undefined, cors: Cors): Response {
  if (allowed === undefined) return problemResponse(NOT_ALLOWED, newId("req"));
  const asked = headers.get("access-control-request-headers") ?? "";
  return new Response(null, {
    status: 204,
    headers: {
      ...toHeaders(allowed, cors),
      "access-control-allow-methods": METHODS,
      ...(HEADER_NAMES.test(asked) ? { "access-control-allow-headers": asked } : {}),
      "access-control-max-age": MAX_AGE_SECONDS,
      vary: "origin, access-control-request-headers",
      "x-request-id": newId("req"),
    },
  });
}

/** Answers a request of the platform API with what browsers need to give the answer to a page. */
async function withCors(
  request: Request,
  cors: Cors,
  answer: () => Response | Promise<Response>,
): Promise<Response> {
  const origin = request.headers.get("origin");
  if (cors.origins.length === 0) return answer();
  const allowed = origin === null ? undefined : getAllowedOrigin(origin, cors);
  const isPreflight =
    request.method === "OPTIONS" &&
    origin !== null &&
    request.headers.has("access-control-request-method");
  if (isPreflight) return answerPreflight(request, allowed, cors);
  const response = await answer();
  response.headers.append("vary", "origin");
  if (allowed === undefined) return response;
  for (const [name, value] of Object.entries(toHeaders(allowed, cors)))
    response.headers.set(name, value);
  response.headers.set("access-control-expose-headers", EXPOSED);
  return response;
}

/** The platform API, below `/v1`. Every answer has a request id, every failure the error object. */
export interface Platform {
  fetch(request: Request, env: object): Response | Promise<Response>;
}

const NO_KEY: Failure = {
  code: "unauthorized",
  message: "send an API key as `Authorization: Bearer <key>`; `rouse keys create` makes one",
};
const WRONG_KEY: Failure = {
  code: "unauthorized",
  message: "the API key is wrong, or was revoked",
};
const TOO_MANY = "too many wrong keys from this address; wait";

const getMissing = (path: string): string =>
  path.startsWith("/v1/")
    ? "there is nothing at this address"
    : "there is nothing at this address: the API is below /v1, so end the base address of the client with /v1";

const noScope = (scope: Scope): ApiProblem => ({
  status: 403,
  type: "permission_error",
  code: "insufficient_scope",
  param: null,
  message: `this API key does not have the scope "${scope}"`,
});

/** Only a header, and only this form of it: an address ends up in logs. */
const bearer = (header: string | undefined): string | undefined =>
  /^bearer\s+(\S+)\s*$/i.exec(header ?? "")?.[1];

/** Lets in who has a key, and counts how often. */
function createGate(deps: PlatformDeps) {
  const limiter = createFailureLimiter(deps.clock, deps.sharedCounts?.("keys"));
  const rate = createRateLimiter(deps.clock, deps.sharedCounts?.("key-rate"));
  return async (c: Context<PlatformEnv>, requestId: string): Promise<ApiProblem | undefined> => {
    const presented = bearer(c.req.header("authorization"));
    const key = presented === undefined ? undefined : await deps.keys.find(presented);
    if (!key) {
      const wait = limiter.failed(
        getCaller(c, c.req.header("x-forwarded-for"), deps.snapshot()).address,
      );
      if (wait > 0)
        return toProblem({ code: "rate_limited", message: TOO_MANY, retryAfterSeconds: wait });
      return toProblem(presented === undefined ? NO_KEY : WRONG_KEY);
    }
    c.set("caller", { key, requestId });
    const limited = key.rateLimit && rate.take(key.id, key.rateLimit);
    return (
      limited &&
      toProblem({
        ...limited,
        message: "more requests than this key's rateLimit allows; slow down",
      })
    );
  };
}

function addRoutes(
  app: Hono<PlatformEnv>,
  path: string,
  methods: ApiRoutes[string],
  parts: PlatformParts,
): void {
  for (const [method, { scope, handle }] of Object.entries(methods))
    app.on(method, path, (c) => {
      const { key, requestId } = c.get("caller");
      return scope === undefined || key.scopes.includes(scope)
        ? handle(c, parts)
        : problemResponse(noScope(scope), requestId);
    });
  const names = Object.keys(methods);
  const headers = {
    allow: names.flatMap((name) => (name === "GET" ? ["GET", "HEAD"] : [name])).join(", "),
  };
  const problem = {
    ...toProblem({
      code: "method_not_allowed",
      message: `only ${names.join(" and ")} at this address`,
    }),
    headers,
  };
  app.all(path, (c) => problemResponse(problem, c.get("caller").requestId));
}

/** Creates the platform API. */
export function createPlatform(deps: PlatformDeps): Platform {
  const app = new Hono<PlatformEnv>(ROUTING).basePath("/v1");
  const gate = createGate(deps);
  const parts: PlatformParts = {
    ...deps,
    turns: createIdempotentTurns(deps.clock),
    upload: createUploads(deps),
  };
  app.use("*", async (c, next) => {
    const requestId = newId("req");
    const problem = await gate(c, requestId);
    if (problem) return problemResponse(problem, requestId);
    await next();
  });
  for (const [path, methods] of Object.entries(ROUTES)) addRoutes(app, path, methods, parts);
  app.notFound((c) =>
    problemResponse(
      toProblem({ code: "not_found", message: getMissing(c.req.path) }),
      newId("req"),
    ),
  );
  app.onError((error, c) => {
    const requestId = (c.get("caller") as Caller | undefined)?.requestId ?? newId("req");
    const problem = findProblem(error);
    if (problem) return problemResponse(problem, requestId);
    deps.log.error(
      { err: safeError(error), requestId, path: c.req.routePath },
      "a request failed unexpectedly",
    );
    const message = "something failed inside the gateway; its log has the request id";
    return problemResponse(toProblem({ code: "internal", message }), requestId);
  });
  const { firstAnswers, snapshot } = deps;
  const refuse = (error: unknown): Response =>
    problemResponse(toProblem(error as RouseError), newId("req"));
  const answer = (request: Request, env: object): Response | Promise<Response> =>
    firstAnswers
      ? firstAnswers.before((async () => app.fetch(request, env))()).catch(refuse)
      : app.fetch(request, env);
  return {
    fetch: (request, env) =>
      withCors(request, snapshot().config.platform.cors, () => answer(request, env)),
  };
}
