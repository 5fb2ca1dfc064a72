import type { Context } from "hono";
import type { Intake } from "../intake/receive.ts";
import { answerReceived, type AnswerDeps } from "./answer.ts";
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
