import type { Context } from "hono";
import type { Intake } from "../intake/receive.ts";
import type { ServicesOptions } from "../plugin/services.ts";
import { answerReceived, renderAnswer, type AnswerDeps } from "./answer.ts";
import { bodySource, getCaller, getHeaders, getQuery } from "./request.ts";

export interface HooksDeps extends AnswerDeps {
  intake: Pick<Intake, "receive">;
}

/** Creates the handler of `{base}/<path>`, for every method: reads the request as the intake takes it, and writes the answer. */
export function createHooks(deps: HooksDeps): (c: Context, path: string) => Promise<Response> {
  return async (c, path) => {
    const { method, url } = c.req;
    const headers = getHeaders(c);
    const { address, share } = getCaller(c, headers["x-forwarded-for"], deps.snapshot());
    const input = { method, path, query: getQuery(url), headers, body: bodySource(c), url };
    return answerReceived(c, input, await deps.intake.receive(input, { kind: "http", address, share }), deps);
  };
}

const JSON_TYPE = { "content-type": "application/json" };

/** Creates what services of plugins send events to hooks by. They are answered as callers are. */
export function createServiceHook({ receive }: Pick<Intake, "receive">): ServicesOptions["hook"] {
  return async (plugin, path, value, fencingToken) => {
    const body = Buffer.from(JSON.stringify(value) ?? "");
    const input = { method: "POST", path: path.replace(/\/+$/, ""), query: {}, headers: JSON_TYPE, body };
    const received = await receive(input, { kind: "source", plugin, fencingToken });
    return received.kind === "handshake" ? { status: received.answer.status, body: received.answer.body } : renderAnswer(received);
  };
}
