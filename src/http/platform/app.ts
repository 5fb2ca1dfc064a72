import { Hono } from "hono";
import { RouseError } from "../../core/errors.ts";
import { newId } from "../../core/ids.ts";
import { createRateLimiter } from "../../intake/callers.ts";
import { createKeyCheck, ROUTING } from "../transport.ts";
import { createUploads } from "./knowledge-upload.ts";
import { findProblem, forbidden, ProblemError, problemResponse, toProblem } from "./problems.ts";
import { ROUTES } from "./routes.ts";
import { createIdempotentTurns } from "./turn.ts";
import type { Caller, PlatformDeps, PlatformEnv, PlatformParts, ApiRoutes } from "./types.ts";
import type { Config } from "../../config/schema/index.ts";

type Cors = Config["platform"]["cors"];

const METHODS = "GET, HEAD, POST, DELETE";
/** Headers of answers that pages may read, besides those that they may always read. */
const EXPOSED =
  "x-request-id, x-session-id, retry-after, x-should-retry, idempotent-replayed, deprecation, sunset, www-authenticate";
/** Seconds for which browsers keep the answer to a preflight request. */
const MAX_AGE_SECONDS = "600";
const HEADER_NAMES = /^[\w!#$%&'*+.^`|~ ,-]{1,2000}$/;

const NOT_ALLOWED = forbidden(
  "origin_not_allowed",
  "pages of this origin may not use the API: add the origin to platform.cors.origins",
);

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
  if (allowed === undefined) throw NOT_ALLOWED;
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

const TOO_FAST = "more requests than this key's rateLimit allows; slow down";

/** Says what may be wrong with an address: clients put the path of a route behind whatever base address they were given. */
function getMissing(path: string): string {
  const meant = Object.keys(ROUTES).find((route) => path.replace(/\/+$/, "").endsWith(route));
  if (path.startsWith("/v1/"))
    return `there is nothing at this address${meant === undefined ? "" : `: you may mean /v1${meant}`}`;
  return "there is nothing at this address: the API is below /v1, so end the base address of the client with /v1";
}

function addRoutes(
  app: Hono<PlatformEnv>,
  path: string,
  methods: ApiRoutes[string],
  parts: PlatformParts,
): void {
  for (const [method, { scope, handle }] of Object.entries(methods))
    app.on(method, path, (c) => {
      const { key } = c.get("caller");
      if (scope === undefined || key.scopes.includes(scope)) return handle(c, parts);
      throw forbidden("insufficient_scope", `this API key does not have the scope "${scope}"`);
    });
  const names = Object.keys(methods);
  const allow = names.flatMap((name) => (name === "GET" ? ["GET", "HEAD"] : [name])).join(", ");
  const message = `only ${names.join(" and ")} at this address`;
  app.all(path, () => {
    const problem = toProblem({ code: "method_not_allowed", message });
    throw new ProblemError({ ...problem, headers: { allow } });
  });
}

/** Creates the platform API. */
export function createPlatform(deps: PlatformDeps): Platform {
  const app = new Hono<PlatformEnv>(ROUTING).basePath("/v1");
  const checkKey = createKeyCheck("keys", deps);
  const rate = createRateLimiter(deps.clock, deps.sharedCounts?.("key-rate"));
  const parts: PlatformParts = {
    ...deps,
    turns: createIdempotentTurns(deps.clock),
    upload: createUploads(deps),
  };
  app.use("*", async (c, next) => {
    const requestId = newId("req");
    const checked = await checkKey(c);
    if (!checked.ok) return problemResponse(toProblem(checked.failure), requestId);
    const { key } = checked;
    c.set("caller", { key, requestId });
    const limited = key.rateLimit && rate.take(key.id, key.rateLimit);
    if (limited) throw new RouseError({ ...limited, message: TOO_FAST });
    await next();
  });
  for (const [path, methods] of Object.entries(ROUTES)) addRoutes(app, path, methods, parts);
  const answerError = (error: unknown, requestId = newId("req"), path = "*"): Response =>
    problemResponse(findProblem(error, deps.log, { requestId, path }), requestId);
  app.notFound((c) =>
    answerError(new RouseError({ code: "not_found", message: getMissing(c.req.path) })),
  );
  app.onError((error, c) =>
    answerError(error, (c.get("caller") as Caller | undefined)?.requestId, c.req.routePath),
  );
  const { firstAnswers, snapshot } = deps;
  const answer = (request: Request, env: object): Response | Promise<Response> =>
    firstAnswers
      ? firstAnswers
          .before((async () => app.fetch(request, env))())
          .catch((error: unknown) => answerError(error))
      : app.fetch(request, env);
  return {
    fetch: (request, env) =>
      withCors(request, snapshot().config.platform.cors, () => answer(request, env)).catch(
        (error: unknown) => answerError(error),
      ),
  };
}
