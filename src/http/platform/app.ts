import type { IncomingMessage } from "node:http";
import { Hono, type Context } from "hono";
import { createAddressList, clientAddress } from "../../core/address.ts";
import { RouseError, safeError, type Failure } from "../../core/errors.ts";
import { newId } from "../../core/ids.ts";
import { createFailureLimiter } from "../auth.ts";
import { createRateLimiter } from "../rate.ts";
import { chatCompletions } from "./chat.ts";
import { createJoins } from "./joins.ts";
import type { Scope } from "./keys.ts";
import { listAgents, listModels, showModel } from "./models.ts";
import { problemOf, problemResponse, type Problem } from "./problems.ts";
import { createResponse } from "./responses.ts";
import type { PlatformDeps, PlatformEnv } from "./types.ts";

/** The platform API, below `/v1`. Every answer has a request id, every failure the error object. */
export interface Platform {
  fetch(request: Request, env: object): Response | Promise<Response>;
  /** A failure from before the routes, in this interface's shape. */
  failure(failure: Failure): Response;
}

type Handler = (c: Context<PlatformEnv>) => Response | Promise<Response>;

const NO_KEY: Failure = {
  code: "unauthorized",
  message: "send an API key as `Authorization: Bearer <key>`; `rouse keys create` makes one",
};
const WRONG_KEY: Failure = { code: "unauthorized", message: "the API key is wrong, or was revoked" };
const TOO_MANY = "too many wrong keys from this address; wait";

const noScope = (scope: Scope): Problem => ({
  status: 403,
  type: "permission_error",
  code: "insufficient_scope",
  param: null,
  message: `this API key does not have the scope "${scope}"`,
});

/** Only a header, and only this form of it: an address ends up in logs. */
const bearer = (header: string | undefined): string | undefined => /^bearer\s+(\S+)\s*$/i.exec(header ?? "")?.[1];

function addressOf(c: Context<PlatformEnv>, deps: PlatformDeps): string {
  const { trustedProxies } = deps.snapshot().config.gateway;
  const trusted = trustedProxies.length > 0 ? createAddressList(trustedProxies).list : undefined;
  const incoming = (c.env as { incoming?: IncomingMessage } | undefined)?.incoming;
  return clientAddress(incoming?.socket.remoteAddress ?? "127.0.0.1", c.req.header("x-forwarded-for"), trusted);
}

/** Lets in who has a key, and counts how often. */
function createGate(deps: PlatformDeps) {
  const limiter = createFailureLimiter(deps.clock);
  const tooFast = createRateLimiter(deps.clock);
  return async (c: Context<PlatformEnv>, requestId: string): Promise<Problem | undefined> => {
    const presented = bearer(c.req.header("authorization"));
    const key = presented === undefined ? undefined : await deps.keys.find(presented);
    if (!key) {
      const wait = limiter.failed(addressOf(c, deps));
      if (wait > 0) return problemOf({ code: "rate_limited", message: TOO_MANY, retryAfterSeconds: wait });
      return problemOf(presented === undefined ? NO_KEY : WRONG_KEY);
    }
    c.set("caller", { key, requestId });
    const limited = key.rateLimit && tooFast(key.id, key.rateLimit);
    return limited && problemOf({ ...limited, message: "more requests than this key's rateLimit allows; slow down" });
  };
}

/** Makes the platform API. */
export function createPlatform(deps: PlatformDeps): Platform {
  const app = new Hono<PlatformEnv>().basePath("/v1");
  const gate = createGate(deps);
  const joins = createJoins(deps.clock);
  const route = (method: "GET" | "POST", path: string, scope: Scope, handler: Handler): void => {
    app.on(method, path, async (c) => {
      const { key, requestId } = c.get("caller");
      return key.scopes.includes(scope) ? handler(c) : problemResponse(noScope(scope), requestId);
    });
    app.all(path, (c) => {
      const message = `only ${method} at this address`;
      const headers = { allow: method === "GET" ? "GET, HEAD" : method };
      return problemResponse({ ...problemOf({ code: "method_not_allowed", message }), headers }, c.get("caller").requestId);
    });
  };
  app.use("*", async (c, next) => {
    const requestId = newId("req");
    const problem = await gate(c, requestId);
    if (problem) return problemResponse(problem, requestId);
    await next();
  });
  route("POST", "/chat/completions", "chat", (c) => chatCompletions(c, deps, joins));
  route("POST", "/responses", "chat", (c) => createResponse(c, deps, joins));
  route("GET", "/models", "agents:read", (c) => listModels(c, deps));
  route("GET", "/models/:id", "agents:read", (c) => showModel(c, deps));
  route("GET", "/agents", "agents:read", (c) => listAgents(c, deps));
  app.notFound(() => problemResponse(problemOf({ code: "not_found", message: "there is nothing at this address" }), newId("req")));
  app.onError((error, c) => {
    const requestId = newId("req");
    if (error instanceof RouseError) return problemResponse(problemOf(error), requestId);
    deps.log.error({ err: safeError(error), requestId, path: c.req.routePath }, "a request failed unexpectedly");
    const message = "something failed inside the gateway; its log has the request id";
    return problemResponse(problemOf({ code: "internal", message }), requestId);
  });
  return {
    fetch: (request, env) => app.fetch(request, env),
    failure: (failure) => problemResponse(problemOf(failure), newId("req")),
  };
}
