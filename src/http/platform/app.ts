import type { IncomingMessage } from "node:http";
import { Hono, type Context } from "hono";
import { createAddressList, clientAddress } from "../../core/address.ts";
import { RouseError, safeError, type Failure } from "../../core/errors.ts";
import { newId } from "../../core/ids.ts";
import { createFailureLimiter } from "../../intake/failure-limiter.ts";
import { createRateLimiter } from "../../intake/rate.ts";
import { chatCompletions } from "./chat.ts";
import { createJoins } from "./joins.ts";
import type { Scope } from "./keys.ts";
import { deleteDocument, listDocuments, listFormats, reindexDocument, searchDocuments, showDocument } from "./knowledge-documents.ts";
import { createUploads } from "./knowledge-upload.ts";
import { listAgents, listModels, showModel } from "./models.ts";
import { problemOf, problemResponse, type Problem } from "./problems.ts";
import { createResponse } from "./responses.ts";
import type { PlatformDeps, PlatformEnv } from "./types.ts";

/** The platform API, below `/v1`. Every answer has a request id, every failure the error object. */
export interface Platform {
  fetch(request: Request, env: object): Response | Promise<Response>;
}

type Handler = (c: Context<PlatformEnv>) => Response | Promise<Response>;
/** What an address takes, each with the scope that a key needs for it. */
type Methods = Partial<Record<"GET" | "POST" | "DELETE", [Scope, Handler]>>;

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

function knowledgeRoutes(deps: PlatformDeps): Record<string, Methods> {
  const upload = createUploads(deps);
  return {
    "/knowledge/upload": { POST: ["knowledge:write", upload] },
    "/knowledge/documents": { GET: ["knowledge:read", (c) => listDocuments(c, deps)] },
    "/knowledge/documents/:id": {
      GET: ["knowledge:read", (c) => showDocument(c, deps)],
      DELETE: ["knowledge:write", (c) => deleteDocument(c, deps)],
    },
    "/knowledge/documents/:id/reindex": { POST: ["knowledge:write", (c) => reindexDocument(c, deps)] },
    "/knowledge/search": { POST: ["knowledge:read", (c) => searchDocuments(c, deps)] },
    "/knowledge/formats": { GET: ["knowledge:read", (c) => listFormats(c, deps)] },
  };
}

/** Lets in who has a key, and counts how often. */
function createGate(deps: PlatformDeps) {
  const limiter = createFailureLimiter(deps.clock, deps.sharedCounts?.("keys"));
  const rate = createRateLimiter(deps.clock, deps.sharedCounts?.("key-rate"));
  return async (c: Context<PlatformEnv>, requestId: string): Promise<Problem | undefined> => {
    const presented = bearer(c.req.header("authorization"));
    const key = presented === undefined ? undefined : await deps.keys.find(presented);
    if (!key) {
      const wait = limiter.failed(addressOf(c, deps));
      if (wait > 0) return problemOf({ code: "rate_limited", message: TOO_MANY, retryAfterSeconds: wait });
      return problemOf(presented === undefined ? NO_KEY : WRONG_KEY);
    }
    c.set("caller", { key, requestId });
    const limited = key.rateLimit && rate.take(key.id, key.rateLimit);
    return limited && problemOf({ ...limited, message: "more requests than this key's rateLimit allows; slow down" });
  };
}

/** Makes the platform API. */
export function createPlatform(deps: PlatformDeps): Platform {
  const app = new Hono<PlatformEnv>().basePath("/v1");
  const gate = createGate(deps);
  const joins = createJoins(deps.clock);
  const route = (path: string, methods: Methods): void => {
    for (const [method, [scope, handler]] of Object.entries(methods))
      app.on(method, path, async (c) => {
        const { key, requestId } = c.get("caller");
        return key.scopes.includes(scope) ? handler(c) : problemResponse(noScope(scope), requestId);
      });
    const names = Object.keys(methods);
    const headers = { allow: names.flatMap((name) => (name === "GET" ? ["GET", "HEAD"] : [name])).join(", ") };
    const problem = { ...problemOf({ code: "method_not_allowed", message: `only ${names.join(" and ")} at this address` }), headers };
    app.all(path, (c) => problemResponse(problem, c.get("caller").requestId));
  };
  app.use("*", async (c, next) => {
    const requestId = newId("req");
    const problem = await gate(c, requestId);
    if (problem) return problemResponse(problem, requestId);
    await next();
  });
  route("/chat/completions", { POST: ["chat", (c) => chatCompletions(c, deps, joins)] });
  route("/responses", { POST: ["chat", (c) => createResponse(c, deps, joins)] });
  route("/models", { GET: ["agents:read", (c) => listModels(c, deps)] });
  route("/models/:id", { GET: ["agents:read", (c) => showModel(c, deps)] });
  route("/agents", { GET: ["agents:read", (c) => listAgents(c, deps)] });
  for (const [path, methods] of Object.entries(knowledgeRoutes(deps))) route(path, methods);
  app.notFound(() => problemResponse(problemOf({ code: "not_found", message: "there is nothing at this address" }), newId("req")));
  app.onError((error, c) => {
    const requestId = newId("req");
    if (error instanceof RouseError) return problemResponse(problemOf(error), requestId);
    deps.log.error({ err: safeError(error), requestId, path: c.req.routePath }, "a request failed unexpectedly");
    const message = "something failed inside the gateway; its log has the request id";
    return problemResponse(problemOf({ code: "internal", message }), requestId);
  });
  return { fetch: (request, env) => app.fetch(request, env) };
}
