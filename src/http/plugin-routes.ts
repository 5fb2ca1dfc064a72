import type { Context } from "hono";
import { collectBody } from "../core/http/body.ts";
import { bodyFailure } from "../intake/body.ts";
import type { Failure } from "../core/errors.ts";
import type { HttpContext } from "./context.ts";
import { failureResponse } from "./errors.ts";
import { createKeyCheck, getCaller } from "./transport.ts";

/** The longest body of a vendor's webhook. Plugins may set less. */
const MAX_BYTES = 8 * 2 ** 20;

/** Plugins read the address of a request as a URL. */
const BAD_HOST: Failure = {
  code: "invalid_body",
  message: "the Host header is no host of a URL: send the request to a name or an IP address",
};

/** Answers `/channels/<id>/…` by its plugin, which checks who sends the request after it has read the body. */
export function answerChannelRequest(
  c: Context,
  id: string,
  deps: HttpContext,
): Promise<Response | undefined> {
  return answerGuarded(c, `channels/${id}`, deps, (request) => deps.services.request(id, request));
}

/**
 * Lets a plugin answer a request; undefined if `answer` gives none. Its body is read first, within the clock, the rate and the
 * budget of unauthenticated callers. `path` names the place if the request is denied.
 */
export async function answerGuarded(
  c: Context,
  path: string,
  deps: HttpContext,
  answer: (request: Request) => Promise<Response> | undefined,
): Promise<Response | undefined> {
  if (!URL.canParse(c.req.url)) return failureResponse(BAD_HOST);
  const snapshot = deps.snapshot();
  const { hooks } = snapshot.config;
  const { address, share } = getCaller(c, snapshot);
  const allowance = deps.bodyBudget.open(share());
  const limits = { maxBytes: MAX_BYTES, timeoutMs: hooks.bodyTimeoutSeconds * 1000, allowance };
  try {
    const { url, method, headers, body } = c.req.raw;
    const read = await collectBody(body, headers.get("content-length"), limits);
    if (read.ok)
      return await answer(new Request(url, { method, headers, body: body && read.bytes }));
    const failure = bodyFailure(read.problem, limits);
    deps.denials.deny({ address, path }, failure);
    return failureResponse(failure, { connection: "close" });
  } finally {
    allowance.release();
  }
}

/** The path of a plugin's routes, for the router. */
export const PLUGIN_PATH = "/plugins/:id{[a-z0-9:-]+}/*";

/**
 * Creates the handler of a plugin's routes. It gives undefined for a plugin without routes for such callers: `operator`
 * if the operator's token has been checked, else everyone.
 */
export function createPluginRoutes(
  deps: HttpContext,
): (c: Context, caller: "operator" | "anyone") => Promise<Response | undefined> {
  const checkKey = createKeyCheck("plugin-keys", deps);
  return async (c, caller) => {
    const id = c.req.param("id") ?? "";
    const routes = deps.snapshot().offers.routes.find(({ plugin }) => plugin === id)?.value;
    if (!routes || (routes.auth === "operator") !== (caller === "operator")) return undefined;
    const checked = routes.auth === "api" ? await checkKey(c) : undefined;
    if (checked?.ok === false) return failureResponse(checked.failure);
    return answerGuarded(c, `plugins/${id}`, deps, async (request) => routes.fetch(request));
  };
}
