import type { Receipts } from "../turns/receipts.ts";
import type {
  DeniedRequest,
  DenialHints,
  RawInput,
  IntakeReceipt,
  Received,
  Snapshot,
} from "../intake/types.ts";
import { deprecationHeaders, QUERY_TOKEN } from "../core/deprecation.ts";
import { getStatus } from "../core/errors.ts";
import { errorBody, type HttpAnswer, renderFailureAnswer } from "./errors.ts";
import type { FirstAnswers } from "./first-answers.ts";
import type { Intake } from "../intake/receive.ts";
import type { ServicesOptions } from "../plugin/services.ts";
import { parseQuery } from "../core/query.ts";
import { resolveCaller } from "./request.ts";

export interface AnswerDeps {
  snapshot(): Snapshot;
  receipts: Pick<Receipts, "wait">;
}

/** The answer to a hook: its status and its body as JSON. */
export interface Answer {
  status: number;
  body: unknown;
}

type ActionReceipt = IntakeReceipt["actions"][number];
type StoredReceipt = NonNullable<NonNullable<IntakeReceipt["repeats"]>["receipt"]>;
type Done = Extract<ActionReceipt, { ok: true }>;

function renderItem(action: ActionReceipt, index: number, eventId: string): unknown {
  return action.ok ? action : { ok: false, index, error: errorBody(action.error, eventId).error };
}

function renderWork(
  { actions, list, warnings = [] }: StoredReceipt | IntakeReceipt,
  eventId: string,
): Answer {
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

function renderOutcome(receipt: StoredReceipt | IntakeReceipt, eventId: string): Answer {
  if (receipt.actions.length > 0) return renderWork(receipt, eventId);
  const { outcome, reason, quiet } = receipt;
  if (outcome === "skipped")
    return quiet
      ? { status: 204, body: null }
      : { status: 200, body: { ok: true, eventId, outcome, reason } };
  const nearest = "nearest" in receipt ? { nearest: receipt.nearest } : {};
  return { status: 200, body: { ok: true, eventId, outcome, ...nearest } };
}

/** Renders the answer to a hook. A repeat gets the answer of the first request. */
export function renderAnswer(received: IntakeReceipt | DeniedRequest): Answer {
  const { error } = received;
  if (received.kind === "denied")
    return {
      status: getStatus(received.error.code),
      body: errorBody(received.error, received.requestId),
    };
  if (error && !received.acknowledged)
    return { status: getStatus(error.code), body: errorBody(error, received.eventId) };
  const { repeats } = received;
  if (!repeats) return renderOutcome(received, received.eventId);
  if (repeats.receipt) return renderOutcome(repeats.receipt, repeats.eventId);
  return { status: 200, body: { ok: true, eventId: repeats.eventId } };
}

function hintHeaders({ methods, bodyUnread, tokenInQuery }: DenialHints = {}): Record<
  string,
  string
> {
  return {
    ...(methods ? { allow: methods.join(", ") } : {}),
    ...(bodyUnread ? { connection: "close" } : {}),
    ...(tokenInQuery ? deprecationHeaders(QUERY_TOKEN) : {}),
  };
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
  deps: AnswerDeps,
): Promise<Answer | undefined> {
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

/** Writes out an answer, with a `location` if it is that of a run. */
function render(
  { status, body }: Answer,
  headers: Record<string, string>,
  base: string,
): HttpAnswer {
  if (status === 204) return { status, headers, body: null };
  headers["content-type"] = "application/json";
  const { runId } = body as { runId?: unknown };
  if (typeof runId === "string" && status === 202) headers["location"] = `${base}/runs/${runId}`;
  return { status, headers, body: JSON.stringify(body) };
}

/** Answers a hook. With `Prefer: wait=N` the answer is held until its run has ended, at most so long. */
function answerReceived(
  input: RawInput,
  received: Received,
  deps: AnswerDeps,
): HttpAnswer | Promise<HttpAnswer> {
  if (received.kind === "handshake") {
    const { status, headers, body } = received.answer;
    return { status, headers: { ...headers }, body };
  }
  if (received.kind === "denied")
    return renderFailureAnswer(received.error, received.requestId, hintHeaders(received.hints));
  const headers: Record<string, string> = received.hints ? hintHeaders(received.hints) : {};
  headers["x-request-id"] = received.eventId;
  if (received.error && !received.acknowledged)
    return renderFailureAnswer(received.error, received.eventId, headers);
  if (received.repeats) headers["idempotent-replayed"] = "true";
  const answer = renderAnswer(received);
  const seconds =
    input.path === "agent" && answer.status === 202 ? waitSeconds(input.headers["prefer"]) : 0;
  const base = deps.snapshot().config.hooks.path;
  const { runId } = (answer.body ?? {}) as { runId?: string };
  if (seconds === 0 || runId === undefined) return render(answer, headers, base);
  return renderEnded(runId, seconds, deps).then((ended) => {
    if (ended) headers["preference-applied"] = `wait=${seconds}`;
    return render(ended ?? answer, headers, base);
  });
}

export interface HooksDeps extends AnswerDeps {
  intake: Pick<Intake, "receive">;
  /** Absent if the store cannot hang. */
  firstAnswers: FirstAnswers | undefined;
}

/** A request below the hooks' base path. */
export interface HookRequest extends Pick<RawInput, "method" | "path" | "headers" | "body"> {
  /** The address that was called, with its query. */
  url: string;
  /** The address of the connection's other end; undefined for a request that was made in this process. */
  peer: string | undefined;
}

/** Answers a hook, of every method. */
export type AnswerHook = (request: HookRequest) => Promise<HttpAnswer>;

/** Creates what answers hooks: reads the request as the intake takes it, and renders the answer. */
export function createHooks(deps: HooksDeps): AnswerHook {
  return async ({ peer, ...request }) => {
    const { address, share } = resolveCaller(
      peer,
      request.headers["x-forwarded-for"],
      deps.snapshot(),
    );
    const input = { ...request, query: parseQuery(request.url) };
    const receiving = deps.intake.receive(input, { kind: "http", address, share });
    return answerReceived(input, await (deps.firstAnswers?.before(receiving) ?? receiving), deps);
  };
}

const JSON_TYPE = { "content-type": "application/json" };

/** Creates what services of plugins send events to hooks by. They are answered as callers are. */
export function createServiceHook({ receive }: Pick<Intake, "receive">): ServicesOptions["hook"] {
  return async (plugin, path, value, fencingToken) => {
    const body = Buffer.from(JSON.stringify(value) ?? "");
    const input = {
      method: "POST",
      path: path.replace(/\/+$/, ""),
      query: {},
      headers: JSON_TYPE,
      body,
    };
    const received = await receive(input, { kind: "source", plugin, fencingToken });
    return received.kind === "handshake"
      ? { status: received.answer.status, body: received.answer.body }
      : renderAnswer(received);
  };
}
