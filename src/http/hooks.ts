import type { Context } from "hono";
import type { Clock } from "../core/clock.ts";
import { RouseError, safeError, type Failure } from "../core/errors.ts";
import { newId } from "../core/ids.ts";
import type { Logger } from "../core/log.ts";
import type { Metrics } from "../core/metrics.ts";
import { sha256Hex } from "../core/secret.ts";
import type { MappingInput, PathRules } from "../mapping/types.ts";
import type { DedupeRecord, Store } from "../store/types.ts";
import { createAddressList, type AddressList } from "../core/address.ts";
import { answerHook, answerWhenDone, waitSeconds, type AnswerDeps } from "./answer.ts";
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
import { createRefusals } from "./refusals.ts";
import { replayEvent } from "./replay.ts";
import { hookRequest, type HookRequest } from "./request.ts";
import { resolveHook } from "./resolve.ts";
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
  /** Whether a caller shows, in a header, the credential that an event came in by. */
  presents(headers: Record<string, string>, credential: string): boolean;
}

/** What a snapshot says of callers, compiled once. */
interface Compiled {
  auth: Authenticator;
  trusted: AddressList | undefined;
}

/** A request that was believed, on its way through the checks. */
interface Passage {
  c: Context;
  snapshot: Snapshot;
  rules: PathRules | undefined;
  arrival: Arrival;
  byHookToken: boolean;
  /** Headers of the answer, whatever it will be. */
  extra: Record<string, string>;
}

const MAX_KEY = 256;

const methodNotAllowed: Failure = { code: "method_not_allowed", message: "hooks are called with POST" };
const draining: Failure = { code: "draining", message: "the gateway is stopping; try again in a moment", retryAfterSeconds: 5 };
const compressed: Failure = { code: "unsupported_media_type", message: "send the body without Content-Encoding" };
const unexpected: Failure = { code: "internal", message: "something failed inside the gateway; its log has the request id" };
const keyTooLong: Failure = {
  code: "invalid_body",
  message: `Idempotency-Key: use 1 to ${MAX_KEY} characters`,
  issues: [{ path: "idempotencyKey", message: `use 1 to ${MAX_KEY} characters` }],
};

/** The event's key, or null where it is empty or too long. */
function eventKey(arrival: Arrival, key: string): EventKey | null {
  if (key.length === 0 || key.length > MAX_KEY) return null;
  return { scope: `${arrival.request.path}|${arrival.credential}`, key, bodyHash: sha256Hex(arrival.bytes) };
}

function mappingInput({ arrival, byHookToken }: Passage, payload: unknown): MappingInput {
  const { request } = arrival;
  return {
    path: request.path,
    method: request.method,
    byHookToken,
    payload,
    headers: request.shown.headers,
    query: request.shown.query,
    now: arrival.now,
  };
}

/** Reads the body within the path's limits and makes the payload of it. For a GET the query is the payload. */
async function payloadOf({
  snapshot,
  rules,
  arrival,
}: Passage): Promise<{ ok: true; payload: unknown } | { ok: false; failure: Failure; cut: boolean }> {
  const { request } = arrival;
  const { hooks } = snapshot.config;
  const encoding = request.headers["content-encoding"];
  if (encoding !== undefined && encoding !== "identity") return { ok: false, failure: compressed, cut: false };
  if (request.method === "GET") return { ok: true, payload: request.shown.query };
  const limits = { maxBytes: rules?.maxBodyBytes ?? hooks.maxBodyBytes, timeoutMs: hooks.bodyTimeoutSeconds * 1000 };
  const body = await readBody(request.source, request.headers["content-length"], limits);
  if (!body.ok) return { ...body, cut: true };
  arrival.bytes = body.bytes;
  const parsed = parsePayload(body.bytes, request.headers["content-type"]);
  const payload = parsed instanceof Promise ? await parsed : parsed;
  return payload.ok ? payload : { ...payload, cut: false };
}

/** The hooks of the gateway: one request's way from the method to the answer, in the contract's order of checks. */
export function createHooks(deps: HooksDeps): Hooks {
  const { store, clock, log, metrics } = deps;
  const compiled = new WeakMap<Snapshot, Compiled>();
  const limiter = createFailureLimiter(clock);
  const refusals = createRefusals({ clock, log, metrics, limiter });
  const answers: AnswerDeps = { store, base: () => deps.snapshot().config.hooks.path, waitForRun: deps.waitForRun };

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

  const recordDeps = (snapshot: Snapshot): RecordDeps => ({ store, dedupeTtlMs: snapshot.config.hooks.dedupe.ttl, revive: deps.revive });

  const refuse = (c: Context, request: HookRequest, failure: Failure, reason: string): Response =>
    failureResponse(c, refusals.add(request, failure, reason), newId("req"));

  /** Answers a request that was believed but is wrong, and keeps it; that it could not be kept does not change the answer. */
  const reject = async ({ c, arrival, extra }: Passage, failure: Failure): Promise<Response> => {
    await recordWithoutWork(store, arrival, "rejected", { reason: failure.message }, { status: 0, body: null }).catch((error: unknown) =>
      log.error({ err: safeError(error), requestId: arrival.id }, "a rejected hook could not be recorded"),
    );
    metrics.hookAnswered({ path: arrival.request.path, outcome: "rejected", seconds: (clock.now() - arrival.now) / 1000 });
    return failureResponse(c, failure, arrival.id, extra);
  };

  const answer = ({ c, arrival, extra }: Passage, answered: Answered): Promise<Response> | Response => {
    const { path, headers } = arrival.request;
    metrics.hookAnswered({ path, outcome: answered.outcome, seconds: (clock.now() - arrival.now) / 1000 });
    const held = path === "agent" && answered.answer.status === 202 ? waitSeconds(headers["prefer"]) : 0;
    return held > 0 ? answerWhenDone(c, answered, held, answers, extra) : answerHook(c, answered, answers.base(), extra);
  };

  const accept = async (passage: Passage, payload: unknown): Promise<Response> => {
    const { snapshot, arrival } = passage;
    const { request } = arrival;
    const record = recordDeps(snapshot);
    const header = request.headers["idempotency-key"];
    let key = header === undefined ? undefined : eventKey(arrival, header);
    if (key === null) return reject(passage, keyTooLong);
    if (key) {
      const [known] = await store.findDuplicates([key]);
      if (known) return answer(passage, await answerDuplicate(record, arrival, key, known));
    }
    const pending = resolveHook(mappingInput(passage, payload), snapshot);
    const resolution = pending instanceof Promise ? await pending : pending;
    if (!key && resolution.kind === "work" && resolution.idempotencyKey !== undefined) {
      key = eventKey(arrival, resolution.idempotencyKey);
      if (key === null) return reject(passage, keyTooLong);
    }
    return answer(passage, await recordResolution(record, arrival, resolution, key ?? undefined));
  };

  const handle = async (c: Context, path: string): Promise<Response> => {
    const snapshot = deps.snapshot();
    const { auth, trusted } = compile(snapshot);
    const now = clock.now();
    const rules = snapshot.mappings.rules(path);
    const { method } = c.req;
    const mayGet = rules?.methods.includes("GET") ?? false;
    if (method !== "POST" && !(method === "GET" && mayGet)) {
      return failureResponse(c, methodNotAllowed, newId("req", now), { allow: mayGet ? "GET, POST" : "POST" });
    }
    if (deps.draining()) return failureResponse(c, draining, newId("req", now));
    const request = hookRequest(c, path, trusted);
    const believed = auth.check(request, rules);
    if (!believed.ok) return refuse(c, request, believed.failure, believed.reason);
    limiter.succeeded(request.address);
    const arrival: Arrival = { id: newId("evt", now), now, request, credential: believed.credential, bytes: Buffer.alloc(0) };
    const passage: Passage = { c, snapshot, rules, arrival, byHookToken: believed.byHookToken, extra: {} };
    if (believed.byQuery) {
      refusals.warnQueryToken(request.address, arrival.id);
      passage.extra["deprecation"] = "true";
    }
    const payload = await payloadOf(passage);
    if (payload.ok) return accept(passage, payload.payload);
    if (payload.cut) passage.extra["connection"] = "close";
    return reject(passage, payload.failure);
  };

  return {
    async handle(c, path) {
      try {
        return await handle(c, path);
      } catch (error) {
        const requestId = newId("req");
        if (error instanceof RouseError) return failureResponse(c, error, requestId);
        log.error({ err: safeError(error), requestId }, "a hook failed unexpectedly");
        return failureResponse(c, unexpected, requestId);
      }
    },
    refusals: refusals.list,
    presents: (headers, credential) => compile(deps.snapshot()).auth.presents(headers, credential),
    replay: (eventId, options) => replayEvent(eventId, options, { store, clock, snapshot: deps.snapshot, record: recordDeps }),
  };
}
