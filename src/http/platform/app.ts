import { Hono, type MiddlewareHandler } from "hono";
import { cors } from "hono/cors";
import { RouseError } from "../../core/errors.ts";
import { newId } from "../../core/ids.ts";
import { createRateLimiter } from "../../intake/callers.ts";
import type { HttpContext } from "../context.ts";
import { createKeyCheck, ROUTING } from "../transport.ts";
import { createUploads } from "./knowledge-upload.ts";
import { findProblem, forbidden, ProblemError, problemResponse, toProblem } from "./problems.ts";
import { ROUTES } from "./routes.ts";
import { createIdempotentTurns } from "./idempotent-turns.ts";
import type { Caller, PlatformEnv, PlatformParts, ApiRoutes } from "./types.ts";

/** Headers of answers that pages may read, besides those that they may always read. */
const EXPOSED =
  "x-request-id x-session-id retry-after x-should-retry idempotent-replayed www-authenticate";
/** Seconds for which browsers keep the answer to a preflight request. */
const MAX_AGE_SECONDS = 600;

/** Gives pages of the origins that the config names access to answers. A preflight request carries no key. */
function withCors({ snapshot }: HttpContext): MiddlewareHandler<PlatformEnv> {
  return (c, next) => {
    const { origins, credentials } = snapshot().config.platform.cors;
    if (origins.length === 0) return next();
    const allow = cors({
      origin(origin) {
        if (origins.includes(origin.toLowerCase())) return origin;
        return origins.includes("*") ? "*" : null;
      },
      allowMethods: ["GET", "HEAD", "POST", "DELETE"],
      exposeHeaders: EXPOSED.split(" "),
      maxAge: MAX_AGE_SECONDS,
      credentials,
    });
    return allow(c, next);
  };
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

/** Creates the platform API, below `/v1`. Every answer has a request id, every failure the error object. */
export function createPlatform(deps: HttpContext) {
  const app = new Hono<PlatformEnv>(ROUTING).basePath("/v1");
  const checkKey = createKeyCheck("keys", deps);
  const rate = createRateLimiter(deps.clock, deps.sharedCounts?.("key-rate"));
  const parts: PlatformParts = {
    ...deps,
    idempotentTurns: createIdempotentTurns(deps.clock),
    upload: createUploads(deps),
  };
  app.use("*", withCors(deps));
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
  return (request: Request, env: object): Promise<Response> =>
    deps
      .inTime(Promise.resolve(app.fetch(request, env)))
      .catch((error: unknown) => answerError(error));
}
