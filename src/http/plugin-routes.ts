import type { Context } from "hono";
import type { Clock } from "../core/clock.ts";
import type { Failure } from "../core/errors.ts";
import { newId } from "../core/ids.ts";
import { createFailureLimiter } from "../intake/failure-limiter.ts";
import type { createSharedCounts } from "../intake/shared-counts.ts";
import { answerGuarded, type GuardedDeps } from "./channel-requests.ts";
import { failureResponse } from "./errors.ts";
import type { ApiKeys } from "../chat/api-keys.ts";
import { getCaller } from "./request.ts";

export interface PluginRouteDeps extends GuardedDeps {
  clock: Clock;
  keys: Pick<ApiKeys, "find">;
  sharedCounts: ReturnType<typeof createSharedCounts>;
}

/** The path of a plugin's routes, for the router. */
export const PLUGIN_PATH = "/plugins/:id{[a-z0-9:-]+}/*";

const NO_KEY: Failure = { code: "unauthorized", message: "send an API key as `Authorization: Bearer <key>`" };
const TOO_MANY: Failure = { code: "rate_limited", message: "too many wrong keys from this address; wait" };

/**
 * Creates the handler of a plugin's routes. It gives undefined for a plugin without routes for such callers: `operator`
 * if the operator's token has been checked, else everyone.
 */
export function createPluginRoutes(deps: PluginRouteDeps): (c: Context, caller: "operator" | "anyone") => Promise<Response | undefined> {
  const limiter = createFailureLimiter(deps.clock, deps.sharedCounts?.("plugin-keys"));
  const denyWithoutKey = async (c: Context): Promise<Response | undefined> => {
    const presented = /^bearer\s+(\S+)\s*$/i.exec(c.req.header("authorization") ?? "")?.[1];
    if (presented !== undefined && (await deps.keys.find(presented))) return undefined;
    const wait = limiter.failed(getCaller(c, c.req.header("x-forwarded-for"), deps.snapshot()).address);
    return failureResponse(c, wait > 0 ? { ...TOO_MANY, retryAfterSeconds: wait } : NO_KEY, newId("req"));
  };
  return async (c, caller) => {
    const id = c.req.param("id") ?? "";
    const routes = deps.snapshot().offers.routes.find(({ plugin }) => plugin === id)?.value;
    if (!routes || (routes.auth === "operator") !== (caller === "operator")) return undefined;
    const denied = routes.auth === "api" ? await denyWithoutKey(c) : undefined;
    return denied ?? answerGuarded(c, `plugins/${id}`, deps, async (request) => routes.fetch(request));
  };
}
