import type { IncomingMessage } from "node:http";
import type { Context } from "hono";
import { clientAddress, createAddressList } from "../core/address.ts";
import { guardRequest } from "../core/body.ts";
import { newId } from "../core/ids.ts";
import { bodyFailure } from "../intake/body.ts";
import { shareName, type BodyBudget } from "../intake/body-budget.ts";
import { failureResponse } from "./errors.ts";
import type { Refusals } from "../intake/denials.ts";
import type { Snapshot } from "../intake/types.ts";

/** The longest body of a vendor's webhook. Plugins may set less. */
const MAX_BYTES = 8 * 2 ** 20;

export interface ChannelRequestDeps {
  snapshot(): Snapshot;
  bodyBudget: BodyBudget;
  refusals: Refusals;
  /** Lets the service of a plugin answer; undefined if there is none that answers requests. */
  serviceRequest(id: string, request: Request): Promise<Response> | undefined;
}

/**
 * Answers `/channels/<id>/…` by its plugin, which checks who sends the request after it has read the body. Whatever the
 * plugin does, the body stays within the clock, the rate and the budget of unauthenticated callers.
 */
export async function answerChannelRequest(c: Context, id: string, deps: ChannelRequestDeps): Promise<Response | undefined> {
  const { gateway, hooks } = deps.snapshot().config;
  const trusted = gateway.trustedProxies.length > 0 ? createAddressList(gateway.trustedProxies).list : undefined;
  const peer = (c.env as { incoming?: IncomingMessage } | undefined)?.incoming?.socket.remoteAddress ?? "127.0.0.1";
  const forwardedFor = c.req.header("x-forwarded-for");
  const address = clientAddress(peer, forwardedFor, trusted);
  const allowance = deps.bodyBudget.open(shareName(address, { peer, forwarded: forwardedFor !== undefined, trusted }));
  const limits = { maxBytes: MAX_BYTES, timeoutMs: hooks.bodyTimeoutSeconds * 1000, allowance };
  const guarded = guardRequest(c.req.raw, limits);
  try {
    const answering = deps.serviceRequest(id, guarded.request);
    if (!answering) return undefined;
    // What a plugin makes of a body that broke off, an error or an answer, is not what happened.
    const settled = await answering.catch((error: unknown) => ({ error }));
    const problem = guarded.problem();
    if (problem === undefined) {
      if (settled instanceof Response) return settled;
      throw settled.error;
    }
    const failure = bodyFailure(problem, limits);
    deps.refusals.note({ address, path: `channels/${id}` }, failure.code);
    return failureResponse(c, failure, newId("req"), { connection: "close" });
  } finally {
    guarded.end();
    allowance.release();
  }
}
