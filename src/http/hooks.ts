import type { Context } from "hono";
import type { Clock } from "../core/clock.ts";
import { RouseError, safeError, type Failure } from "../core/errors.ts";
import { newId } from "../core/ids.ts";
import type { Logger } from "../core/log.ts";
import type { Metrics } from "../core/metrics.ts";
import { sha256Hex } from "../core/secret.ts";
import { plainText } from "../core/text.ts";
import type { MappingInput } from "../mapping/types.ts";
import type { DedupeRecord, EventRecord, Store } from "../store/types.ts";
import { createAddressList, type AddressList } from "./address.ts";
import { createAuthenticator, createFailureLimiter, type Authenticator } from "./auth.ts";
import { parsePayload, readBody } from "./body.ts";
import { failureResponse } from "./errors.ts";
import {
  answerDuplicate,
  recordResolution,
  recordWithoutWork,
  type Answered,
  type Arrival,
  type EventKey,
  type RecordDeps,
} from "./record.ts";
import { deliveryStatus } from "./receipts.ts";
import { hookRequest, withoutCredentials, type HookRequest } from "./request.ts";
import { resolveHook, type Resolution } from "./resolve.ts";
import type { Refusal, ReplayResult, Snapshot } from "./types.ts";

export interface HooksDeps {
  store: Store;
  clock: Clock;
  log: Logger;
  metrics: Metrics;
  snapshot(): Snapshot;
  /** The tokens of `hooks.token`, or the one kept in the state folder. */
  hookTokens(snapshot: Snapshot): readonly string[];
  draining(): boolean;
  revive(record: DedupeRecord): Promise<void>;
  /** Resolves when the run has ended or the time is over. */
  waitForRun(runId: string, ms: number): Promise<void>;
}

export interface Hooks {
  /** Answers `{base}/<path>`, for every method. */
  handle(c: Context, path: string): Promise<Response>;
  replay(eventId: string, options: { dryRun: boolean }): Promise<{ ok: true; result: ReplayResult } | { ok: false; failure: Failure }>;
  refusals(): readonly Refusal[];
}

interface Compiled {
  auth: Authenticator;
  trusted: AddressList | undefined;
}

const MAX_REFUSALS = 1000;
const MAX_KEY = 256;
const MAX_WAIT_SECONDS = 60;
const HOUR_MS = 3_600_000;

const methodNotAllowed: Failure = { code: "method_not_allowed", message: "hooks are called with POST" };
const draining: Failure = { code: "draining", message: "the gateway is stopping; try again in a moment", retryAfterSeconds: 5 };

/** The hooks of the gateway: one request's way from the method to the answer, in the contract's order of checks. */
export function createHooks(deps: HooksDeps): Hooks {
  const { store, clock, log, metrics } = deps;
  const compiled = new WeakMap<Snapshot, Compiled>();
  const limiter = createFailureLimiter(clock);
  const refusals: Refusal[] = [];
  const warnedCallers = new Map<string, number>();

  const compile = (snapshot: Snapshot): Compiled => {
    const known = compiled.get(snapshot);
    if (known) return known;
    const { hooks, gateway } = snapshot.config;
    const made: Compiled = {
      auth: createAuthenticator(deps.hookTokens(snapshot), snapshot.mappings.paths, hooks.allowQueryToken),
      trusted: gateway.trustedProxies.length > 0 ? createAddressList(gateway.trustedProxies).list : undefined,
    };
    compiled.set(snapshot, made);
    return made;
  };

  const refuse = (c: Context, request: HookRequest, failure: Failure, reason: string): Response => {
    const wait = limiter.failed(request.address);
    refusals.push({ at: clock.now(), address: request.address, path: request.path.slice(0, 200), reason });
    if (refusals.length > MAX_REFUSALS) refusals.shift();
    metrics.refused(reason);
    const final: Failure =
      wait > 0 ? { code: "rate_limited", message: "too many failed attempts from this address", retryAfterSeconds: wait } : failure;
    return failureResponse(c, final, newId("req"));
  };

  const warnQueryToken = (address: string, requestId: string): void => {
    const now = clock.now();
    if (now - (warnedCallers.get(address) ?? -HOUR_MS) < HOUR_MS) return;
    if (warnedCallers.size > 10_000) warnedCallers.clear();
    warnedCallers.set(address, now);
    log.warn({ requestId, address }, "a caller sends its token as ?token=; it should use the Authorization header");
  };

  const recordDeps = (snapshot: Snapshot): RecordDeps => ({ store, dedupeTtlMs: snapshot.config.hooks.dedupe.ttl, revive: deps.revive });

  /** Keeps a request that was believed but is wrong; that it could not be kept does not change the answer. */
  const recordRefused = async (arrival: Arrival, failure: Failure): Promise<void> => {
    await recordWithoutWork(store, arrival, "rejected", { reason: failure.message }, { status: 0, body: null }).catch((error: unknown) =>
      log.error({ err: safeError(error), requestId: arrival.id }, "a rejected hook could not be recorded"),
    );
    metrics.hookAnswered({ path: arrival.request.path, outcome: "rejected", seconds: (clock.now() - arrival.now) / 1000 });
  };

  const respond = (c: Context, answered: Answered, extra: Record<string, string>): Response => {
    const headers: Record<string, string> = { "x-request-id": answered.event.id, ...extra };
    if (answered.failure) return failureResponse(c, answered.failure, answered.event.id, headers);
    if (answered.replayed) headers["idempotent-replayed"] = "true";
    const { status, body } = answered.answer;
    if (status === 204) return c.body(null, { status: 204, headers });
    headers["content-type"] = "application/json";
    const { runId } = body as { runId?: unknown };
    if (typeof runId === "string" && status === 202) headers["location"] = `${deps.snapshot().config.hooks.path}/runs/${runId}`;
    return c.body(JSON.stringify(body), { status: status as 200, headers });
  };

  const accept = async (
    c: Context,
    arrival: Arrival,
    payload: unknown,
    snapshot: Snapshot,
    byHookToken: boolean,
    extra: Record<string, string>,
  ): Promise<Response> => {
    const { request } = arrival;
    const input: MappingInput = {
      path: request.path,
      method: request.method,
      byHookToken,
      payload,
      headers: withoutCredentials(request.headers),
      query: withoutCredentials(request.query),
      now: arrival.now,
    };
    const record = recordDeps(snapshot);
    const header = request.headers["idempotency-key"];
    let key = header === undefined ? undefined : eventKey(arrival, header);
    if (key === null) return failed(c, arrival, keyTooLong, extra);
    if (key) {
      const [known] = await store.findDuplicates([key]);
      if (known) return respond(c, await answerDuplicate(record, arrival, key, known), extra);
    }
    const pending = resolveHook(input, snapshot);
    const resolution = pending instanceof Promise ? await pending : pending;
    if (!key && resolution.kind === "work" && resolution.idempotencyKey !== undefined) {
      key = eventKey(arrival, resolution.idempotencyKey);
      if (key === null) return failed(c, arrival, keyTooLong, extra);
    }
    const answered = await recordResolution(record, arrival, resolution, key ?? undefined);
    metrics.hookAnswered({ path: request.path, outcome: answered.outcome, seconds: (clock.now() - arrival.now) / 1000 });
    const held = waitSeconds(request.headers["prefer"]);
    if (held > 0 && request.path === "agent" && answered.answer.status === 202) return waited(c, answered, held, extra);
    return respond(c, answered, extra);
  };

  const waited = async (c: Context, answered: Answered, seconds: number, extra: Record<string, string>): Promise<Response> => {
    const { runId } = answered.answer.body as { runId?: string };
    if (runId === undefined) return respond(c, answered, extra);
    await deps.waitForRun(runId, seconds * 1000);
    const run = await store.getRun(runId);
    if (run?.endedAt === undefined) return respond(c, answered, extra);
    const delivery = run.deliveryId === undefined ? undefined : await store.getDelivery(run.deliveryId);
    const status = deliveryStatus(run, delivery);
    const body = {
      ok: run.status === "succeeded",
      runId,
      status: run.status,
      reply: run.reply ?? null,
      delivery: status === undefined ? null : { status },
    };
    return respond(c, { ...answered, answer: { status: 200, body } }, { ...extra, "preference-applied": `wait=${seconds}` });
  };

  const failed = async (c: Context, arrival: Arrival, failure: Failure, extra: Record<string, string>): Promise<Response> => {
    await recordRefused(arrival, failure);
    return failureResponse(c, failure, arrival.id, extra);
  };

  const handle = async (c: Context, path: string): Promise<Response> => {
    const snapshot = deps.snapshot();
    const { hooks } = snapshot.config;
    const { auth, trusted } = compile(snapshot);
    const now = clock.now();
    const rules = snapshot.mappings.rules(path);
    const method = c.req.method;
    if (method !== "POST" && !(method === "GET" && rules?.methods.includes("GET"))) {
      return failureResponse(c, methodNotAllowed, newId("req", now), { allow: rules?.methods.includes("GET") ? "GET, POST" : "POST" });
    }
    if (deps.draining()) return failureResponse(c, draining, newId("req", now));
    const request = hookRequest(c, path, trusted);
    // Unsigned handshakes of the path answer here, before authentication.
    const believed = auth.check(request, rules);
    if (!believed.ok) return refuse(c, request, believed.failure, believed.reason);
    limiter.succeeded(request.address);
    const id = newId("evt", now);
    const extra: Record<string, string> = {};
    if (believed.byQuery) {
      warnQueryToken(request.address, id);
      extra["deprecation"] = "true";
    }
    const arrival: Arrival = { id, now, request, credential: believed.credential, bytes: Buffer.alloc(0) };
    const limits = { maxBytes: rules?.maxBodyBytes ?? hooks.maxBodyBytes, timeoutMs: hooks.bodyTimeoutSeconds * 1000 };
    const encoding = request.headers["content-encoding"];
    if (encoding !== undefined && encoding !== "identity") return failed(c, arrival, compressed, extra);
    if (method === "GET") return accept(c, arrival, withoutCredentials(request.query), snapshot, believed.byHookToken, extra);
    const body = await readBody(request.source, request.headers["content-length"], limits);
    if (!body.ok) return failed(c, arrival, body.failure, { ...extra, connection: "close" });
    arrival.bytes = body.bytes;
    // A signature over the raw bytes is checked here, then signed handshakes are answered.
    const parsed = parsePayload(body.bytes, request.headers["content-type"]);
    const payload = parsed instanceof Promise ? await parsed : parsed;
    if (!payload.ok) return failed(c, arrival, payload.failure, extra);
    return accept(c, arrival, payload.payload, snapshot, believed.byHookToken, extra);
  };

  const guarded = async (c: Context, path: string): Promise<Response> => {
    try {
      return await handle(c, path);
    } catch (error) {
      const requestId = newId("req");
      if (error instanceof RouseError) return failureResponse(c, error, requestId);
      log.error({ err: safeError(error), requestId }, "a hook failed unexpectedly");
      return failureResponse(
        c,
        { code: "internal", message: "something failed inside the gateway; its log has the request id" },
        requestId,
      );
    }
  };

  return {
    handle: guarded,
    refusals: () => refusals,
    replay: (eventId, options) => replayEvent(eventId, options, deps, recordDeps(deps.snapshot())),
  };
}

const keyTooLong: Failure = {
  code: "invalid_body",
  message: `Idempotency-Key: use 1 to ${MAX_KEY} characters`,
  issues: [{ path: "idempotencyKey", message: `use 1 to ${MAX_KEY} characters` }],
};
const compressed: Failure = { code: "unsupported_media_type", message: "send the body without Content-Encoding" };

/** The event's key, or null where it is too long. */
function eventKey(arrival: Arrival, key: string): EventKey | null {
  if (key.length === 0 || key.length > MAX_KEY) return null;
  return { scope: `${arrival.request.path}|${arrival.credential}`, key, bodyHash: sha256Hex(arrival.bytes) };
}

/** Seconds of `Prefer: wait=N` (RFC 7240), at most 60; 0 where it does not say so. */
function waitSeconds(prefer: string | undefined): number {
  if (prefer === undefined) return 0;
  const found = /(?:^|[,;\s])wait\s*=\s*"?(\d{1,6})/i.exec(prefer);
  return found ? Math.min(Number(found[1]), MAX_WAIT_SECONDS) : 0;
}

function describe(resolution: Resolution): Omit<ReplayResult, "eventId"> {
  if (resolution.kind === "refused")
    return {
      outcome: resolution.outcome,
      reason: resolution.failure.message,
      actions: [],
      ...(resolution.mapping ? { mapping: resolution.mapping } : {}),
    };
  if (resolution.kind === "skipped") return { outcome: "skipped", reason: resolution.reason, mapping: resolution.mapping, actions: [] };
  const actions = resolution.items.flatMap((item) => {
    if (!item.ok) return [];
    const { action } = item;
    const text = plainText(action.kind === "run" ? action.spec.input : action.text);
    return [{ kind: action.kind, summary: text.slice(0, 200), ...(action.mapping === undefined ? {} : { mapping: action.mapping }) }];
  });
  return { outcome: "accepted", actions, ...(resolution.mapping === undefined ? {} : { mapping: resolution.mapping }) };
}

async function replayEvent(
  eventId: string,
  { dryRun }: { dryRun: boolean },
  deps: HooksDeps,
  record: RecordDeps,
): Promise<{ ok: true; result: ReplayResult } | { ok: false; failure: Failure }> {
  const event = await deps.store.getEvent(eventId);
  if (!event) return { ok: false, failure: { code: "not_found", message: "there is no event with this id" } };
  const { body } = event.request;
  if (body === null)
    return { ok: false, failure: { code: "not_found", message: "the body of this event is no longer kept (hooks.retention)" } };
  const now = deps.clock.now();
  const snapshot = deps.snapshot();
  const arrival = arrivalOf(event, Buffer.from(body), now);
  const payload =
    event.request.method === "GET"
      ? { ok: true as const, payload: event.request.query }
      : await parsePayload(arrival.bytes, event.request.contentType);
  const resolution: Resolution = payload.ok
    ? await resolveHook({ ...arrival.request, byHookToken: event.credential === "hooks.token", payload: payload.payload, now }, snapshot)
    : { kind: "refused", outcome: "rejected", failure: payload.failure };
  const described = describe(resolution);
  if (dryRun) return { ok: true, result: { eventId, ...described } };
  // An operator's replay is meant: keys that earlier work holds do not stop it.
  const unkeyed: Resolution =
    resolution.kind === "work"
      ? {
          ...resolution,
          items: resolution.items.map((item) => (item.ok ? { ok: true, action: item.action, missing: item.missing } : item)),
        }
      : resolution;
  const answered = await recordResolution(record, arrival, unkeyed, undefined);
  const ids = answered.event.actions.map((action) => (action.kind === "run" ? action.runId : action.systemEventId));
  return {
    ok: true,
    result: {
      eventId,
      newEventId: answered.event.id,
      ...described,
      actions: described.actions.map((action, index) => ({ ...action, ...(ids[index] === undefined ? {} : { id: ids[index] }) })),
    },
  };
}

function arrivalOf(event: EventRecord, bytes: Buffer, now: number): Arrival {
  const { method, headers, query, contentType } = event.request;
  const request: HookRequest = {
    method,
    path: event.path,
    query,
    headers: contentType === undefined ? headers : { ...headers, "content-type": contentType },
    address: event.address ?? "replay",
    source: null,
  };
  return { id: newId("evt", now), now, request, credential: event.credential, bytes, replayOf: event.id };
}
