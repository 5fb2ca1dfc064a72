import type { DenialHints, IntakeReceipt, Origin, RawInput, Received } from "../intake/types.ts";
import { QUERY_TOKEN_HEADERS } from "../core/http/deprecation.ts";
import type { HttpContext } from "./context.ts";
import { errorBody, renderFailureAnswer } from "./errors.ts";
import type { Intake } from "../intake/receive.ts";
import { parseQuery } from "../core/http/payload.ts";
import { resolveCaller, type HttpAnswer } from "./transport.ts";

type ActionReceipt = IntakeReceipt["actions"][number];
type StoredReceipt = NonNullable<NonNullable<IntakeReceipt["repeats"]>["receipt"]>;
type Done = Extract<ActionReceipt, { ok: true }>;

function renderItem(action: ActionReceipt, index: number, eventId: string): unknown {
  return action.ok ? action : { ok: false, index, error: errorBody(action.error, eventId).error };
}

/** The status of an answer and its body. */
type Outcome = Pick<HttpAnswer, "status" | "body">;

function renderWork(
  { actions, list, warnings = [] }: StoredReceipt | IntakeReceipt,
  eventId: string,
): Outcome {
  const done = actions.filter((action): action is Done => action.ok);
  const body: Record<string, unknown> = { ok: true, eventId };
  if (list) body["results"] = actions.map((action, index) => renderItem(action, index, eventId));
  else {
    const { systemEventId: _systemEventId, ...only } = done[0] as Done;
    Object.assign(body, only);
    const all = [...new Set([...warnings, ...(only.warnings ?? [])])];
    if (all.length > 0) body["warnings"] = all;
  }
  return { status: done.some((action) => action.runId !== undefined) ? 202 : 200, body };
}

function renderOutcome(receipt: StoredReceipt | IntakeReceipt, eventId: string): Outcome {
  if (receipt.actions.length > 0) return renderWork(receipt, eventId);
  const { outcome, reason, quiet } = receipt;
  if (outcome === "skipped")
    return quiet
      ? { status: 204, body: null }
      : { status: 200, body: { ok: true, eventId, outcome, reason } };
  const nearest = "nearest" in receipt ? { nearest: receipt.nearest } : {};
  return { status: 200, body: { ok: true, eventId, outcome, ...nearest } };
}

/** A repeat gets the answer of the first request. */
function renderReceipt(received: IntakeReceipt): Outcome {
  const { repeats } = received;
  if (!repeats) return renderOutcome(received, received.eventId);
  if (repeats.receipt) return renderOutcome(repeats.receipt, repeats.eventId);
  return { status: 200, body: { ok: true, eventId: repeats.eventId } };
}

function hintHeaders({ methods, bodyUnread, tokenInQuery }: DenialHints): Record<string, string> {
  return {
    ...(methods ? { allow: methods.join(", ") } : {}),
    ...(bodyUnread ? { connection: "close" } : {}),
    ...(tokenInQuery ? QUERY_TOKEN_HEADERS : {}),
  };
}

/** Renders the answer to a hook, whoever has sent it. */
export function renderAnswer(received: Received): HttpAnswer {
  if (received.kind === "handshake") {
    const { status, headers, body } = received.answer;
    return { status, headers: { ...headers }, body };
  }
  const headers: Record<string, string> = received.hints ? hintHeaders(received.hints) : {};
  if (received.kind === "denied")
    return renderFailureAnswer(received.error, received.requestId, headers);
  if (received.error && !received.acknowledged)
    return renderFailureAnswer(received.error, received.eventId, headers);
  headers["x-request-id"] = received.eventId;
  if (received.repeats) headers["idempotent-replayed"] = "true";
  return { ...renderReceipt(received), headers };
}

const MAX_WAIT_SECONDS = 60;

/** Seconds of `Prefer: wait=N` (RFC 7240), at most 60; 0 if it does not say so. */
function waitSeconds(prefer: string | undefined): number {
  if (prefer === undefined) return 0;
  const found = /(?:^|[,;\s])wait\s*=\s*"?(\d{1,6})/i.exec(prefer);
  return found ? Math.min(Number(found[1]), MAX_WAIT_SECONDS) : 0;
}

/** Returns the run's own answer once it has ended; undefined if it has not within `seconds`. */
async function renderEnded(
  runId: string,
  seconds: number,
  deps: HttpContext,
): Promise<Outcome | undefined> {
  const full = deps.snapshot().config.hooks.receipts === "full";
  const ended = await deps.receipts.wait(runId, seconds * 1000, full);
  if (!ended) return undefined;
  const { status, delivery, ...rest } = ended;
  const reply = "reply" in rest ? { reply: rest.reply } : {};
  const sent = delivery && { status: delivery.status };
  return {
    status: 200,
    body: { ok: status === "succeeded", runId, status, delivery: sent, ...reply },
  };
}

/** Answers a hook. With `Prefer: wait=N` the answer is held until its run has ended, at most so long. */
function answerReceived(
  input: RawInput,
  received: Received,
  deps: HttpContext,
): HttpAnswer | Promise<HttpAnswer> {
  const answer = renderAnswer(received);
  if (answer.status !== 202) return answer;
  const { runId } = answer.body as { runId?: string };
  if (runId === undefined) return answer;
  const { headers } = answer;
  const begun = (): HttpAnswer => {
    headers["location"] = `${deps.snapshot().config.hooks.path}/runs/${runId}`;
    return answer;
  };
  const seconds = input.path === "agent" ? waitSeconds(input.headers["prefer"]) : 0;
  if (seconds === 0) return begun();
  return renderEnded(runId, seconds, deps).then((ended) => {
    if (!ended) return begun();
    headers["preference-applied"] = `wait=${seconds}`;
    return { ...ended, headers };
  });
}

/** A request below the hooks' base path. */
export interface HookRequest extends Pick<RawInput, "method" | "path" | "headers" | "body"> {
  url: NonNullable<RawInput["url"]>;
  /** The address of the connection's other end; undefined for a request that was made in this process. */
  peer: string | undefined;
}

/** Answers a hook, of every method. */
export type AnswerHook = (request: HookRequest) => Promise<HttpAnswer>;

/** Creates what answers hooks: reads the request as the intake takes it, and renders the answer. */
export function createHooks(deps: HttpContext): AnswerHook {
  return async ({ peer, ...request }) => {
    const { address, share } = resolveCaller(
      peer,
      request.headers["x-forwarded-for"],
      deps.snapshot(),
    );
    const input = { ...request, query: parseQuery(request.url.target) };
    const receiving = deps.receive(input, { kind: "http", address, share });
    return answerReceived(input, await deps.inTime(receiving), deps);
  };
}

type FencingToken = Extract<Origin, { kind: "source" }>["fencingToken"];

const JSON_TYPE = { "content-type": "application/json" };

/** Creates what services of plugins send events to hooks by. They are answered as callers are. */
export const createServiceHook =
  ({ receive }: Intake) =>
  async (
    plugin: string,
    path: string,
    value: unknown,
    fencingToken: FencingToken,
  ): Promise<{ status: number; body: unknown }> => {
    const body = Buffer.from(JSON.stringify(value) ?? "");
    const input = {
      method: "POST",
      path: path.replace(/\/+$/, ""),
      query: {},
      headers: JSON_TYPE,
      body,
    };
    const { status, body: answered } = renderAnswer(
      await receive(input, { kind: "source", plugin, fencingToken }),
    );
    return { status, body: answered };
  };
