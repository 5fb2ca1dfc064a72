import type { Context } from "hono";
import type { Admission } from "../actions/types.ts";
import type { BodyAllowance } from "../core/body.ts";
import type { Clock } from "../core/clock.ts";
import { ERROR_STATUS, RouseError, safeError, type Failure } from "../core/errors.ts";
import { newId } from "../core/ids.ts";
import type { Logger } from "../core/log.ts";
import type { Metrics } from "../core/metrics.ts";
import type { PathRules } from "../mapping/types.ts";
import type { DedupeRecord, Store } from "../store/types.ts";
import { createAddressList, type AddressList } from "../core/address.ts";
import type { Duplicate, Verifier } from "../signatures/types.ts";
import { answerHook, answerWhenDone, waitSeconds, type AnswerDeps } from "../http/answer.ts";
import { createAuthenticator, type Authenticator, type FailureLimiter } from "./authenticate.ts";
import { parsePayload, readBody } from "./body.ts";
import type { BodyBudget } from "./body-budget.ts";
import { failureResponse } from "../http/errors.ts";
import { keyOf, keyTooLong } from "./deduplicate.ts";
import { createKeptNames } from "./kept-names.ts";
import { createRateLimiter } from "./rate.ts";
import type { createSharedCounts } from "./shared-counts.ts";
import { answerDuplicate, recordResolution, recordWithoutWork, type Answered, type Arrival, type RecordDeps } from "./record.ts";
import type { Refusals } from "./denials.ts";
import { replayEvent } from "./replay.ts";
import { hookRequest, type HookRequest } from "../http/request.ts";
import { resolveHook, type HookInput } from "./resolve.ts";
import { createSignatureStage, hasGetHandshake, isPending } from "./signature.ts";
import type { ReplayResult, SignatureState, Snapshot } from "./types.ts";

export interface HooksDeps {
  store: Store;
  clock: Clock;
  log: Logger;
  metrics: Metrics;
  snapshot(): Snapshot;
  /** The tokens of `hooks.token`, or the one kept in the state folder. */
  hookTokens(snapshot: Snapshot): readonly string[];
  draining(): boolean;
  /** Where there are other gateways: what callers have spent there counts here. */
  sharedCounts: ReturnType<typeof createSharedCounts>;
  limiter: FailureLimiter;
  refusals: Refusals;
  /** The memory for bodies of callers that are not authenticated yet. */
  bodyBudget: BodyBudget;
  /** Takes room for what an event brings, or says that there is none. */
  admit: Admission["admit"];
  revive(record: DedupeRecord): Promise<void>;
  /** Resolves when the run has ended or the time is over. */
  waitForRun(runId: string, ms: number): Promise<void>;
}

export interface Hooks {
  /** Answers `{base}/<path>`, for every method. */
  handle(c: Context, path: string): Promise<Response>;
  replay(eventId: string, options: { dryRun: boolean }): Promise<{ ok: true; result: ReplayResult } | { ok: false; failure: Failure }>;
  /** Of each signed path: which secret fitted last, and which secrets were brought while it has none. */
  signatures(): readonly SignatureState[];
  /** Whether a caller shows, in a header, the credential that an event came in by. */
  presents(headers: Record<string, string>, credential: string): boolean;
}

/** What a snapshot says of callers, compiled once. */
interface Compiled {
  auth: Authenticator;
  trusted: AddressList | undefined;
  kept: ReturnType<typeof createKeptNames>;
}

/** A request that was believed, on its way through the checks. */
interface Passage {
  c: Context;
  snapshot: Snapshot;
  rules: PathRules | undefined;
  arrival: Arrival;
  byHookToken: boolean;
  /** What tells a repeat, where the sender has signed it. */
  signedKey?: Duplicate;
  /** Headers of the answer, whatever it will be. */
  extra: Record<string, string>;
}

const methodNotAllowed: Failure = { code: "method_not_allowed", message: "hooks are called with POST" };
const draining: Failure = { code: "draining", message: "the gateway is stopping; try again in a moment", retryAfterSeconds: 5 };
const compressed: Failure = { code: "unsupported_media_type", message: "send the body without Content-Encoding" };
const unexpected: Failure = { code: "internal", message: "something failed inside the gateway; its log has the request id" };

function hookInput({ arrival, byHookToken }: Passage, payload: unknown): HookInput {
  const { request, credential, now } = arrival;
  const { path, method, shown } = request;
  return { path, method, credential, byHookToken, payload, headers: shown.headers, query: shown.query, now };
}

/** Whose bucket of `hooks.rateLimit` a request takes from. */
const callerName = ({ credential, request }: Arrival): string => `${credential} ${request.address}`;

type BodyStep = { ok: true } | { ok: false; failure: Failure; cut: boolean };

/** Reads the body within the path's limits, as it is. For a GET there is none. */
async function readRaw({ snapshot, rules, arrival }: Passage, allowance?: BodyAllowance): Promise<BodyStep> {
  const { request } = arrival;
  const { hooks } = snapshot.config;
  const encoding = request.headers["content-encoding"];
  if (encoding !== undefined && encoding.toLowerCase() !== "identity") return { ok: false, failure: compressed, cut: false };
  if (request.method === "GET") return { ok: true };
  const limits = {
    maxBytes: rules?.maxBodyBytes ?? hooks.maxBodyBytes,
    timeoutMs: hooks.bodyTimeoutSeconds * 1000,
    ...(allowance ? { allowance } : {}),
  };
  const body = await readBody(request.source, request.headers["content-length"], limits);
  if (!body.ok) return { ...body, cut: true };
  arrival.bytes = body.bytes;
  return { ok: true };
}

/** The hooks of the gateway: one request's way from the method to the answer, in the contract's order of checks. */
export function createHooks(deps: HooksDeps): Hooks {
  const { store, clock, log, metrics, limiter, refusals } = deps;
  const compiled = new WeakMap<Snapshot, Compiled>();
  const rate = createRateLimiter(clock, deps.sharedCounts?.("rate"));
  const signatures = createSignatureStage({ clock, metrics, shared: deps.sharedCounts?.("handshakes") });
  const answers: AnswerDeps = {
    store,
    base: () => deps.snapshot().config.hooks.path,
    showsReply: () => deps.snapshot().config.hooks.receipts === "full",
    waitForRun: deps.waitForRun,
  };

  const compile = (snapshot: Snapshot): Compiled => {
    const known = compiled.get(snapshot);
    if (known) return known;
    const { hooks, gateway } = snapshot.config;
    const made: Compiled = {
      auth: createAuthenticator(deps.hookTokens(snapshot), snapshot.mappings.paths, hooks.allowQueryToken),
      trusted: gateway.trustedProxies.length > 0 ? createAddressList(gateway.trustedProxies).list : undefined,
      kept: createKeptNames(snapshot),
    };
    compiled.set(snapshot, made);
    return made;
  };

  const recordDeps = (snapshot: Snapshot): RecordDeps => ({
    store,
    dedupeTtlMs: snapshot.config.hooks.dedupe.ttl,
    admit: deps.admit,
    revive: deps.revive,
  });

  const refuse = (c: Context, request: HookRequest, failure: Failure, reason: string): Response =>
    failureResponse(c, refusals.add(request, failure, reason), newId("req"));

  const denyTooFast = ({ c, arrival, extra }: Passage, failure: Failure): Response => {
    refusals.note(arrival.request, failure.code, true);
    return failureResponse(c, failure, newId("req"), extra);
  };

  /** Answers a request that was believed but is wrong, and keeps it; that it could not be kept does not change the answer. */
  const reject = async ({ c, arrival, extra }: Passage, failure: Failure): Promise<Response> => {
    await recordWithoutWork(
      store,
      arrival,
      "rejected",
      { reason: failure.message },
      { status: ERROR_STATUS[failure.code], body: null },
    ).catch((error: unknown) => log.error({ err: safeError(error), requestId: arrival.id }, "a rejected hook could not be recorded"));
    metrics.hookAnswered({ path: arrival.request.path, outcome: "rejected", seconds: (clock.now() - arrival.now) / 1000 });
    return failureResponse(c, failure, arrival.id, extra);
  };

  const answer = ({ c, arrival, extra }: Passage, answered: Answered): Promise<Response> | Response => {
    const { path, headers } = arrival.request;
    if (answered.acknowledged) {
      metrics.failureAcknowledged(path);
      const { code } = answered.acknowledged;
      log.warn(
        { requestId: arrival.id, path, code },
        "a mapping failed and its sender was acknowledged: replay it once the mapping is right",
      );
    }
    metrics.hookAnswered({ path, outcome: answered.outcome, seconds: (clock.now() - arrival.now) / 1000 });
    const held = path === "agent" && answered.answer.status === 202 ? waitSeconds(headers["prefer"]) : 0;
    return held > 0 ? answerWhenDone(c, answered, held, answers, extra) : answerHook(c, answered, answers.base(), extra);
  };

  const accept = async (passage: Passage, payload: unknown): Promise<Response> => {
    const { snapshot, arrival } = passage;
    const record = recordDeps(snapshot);
    const key = keyOf(arrival, passage.signedKey, payload);
    if (key === null) return reject(passage, keyTooLong);
    if (key) {
      const [known] = await store.findDuplicates([key]);
      if (known) return answer(passage, await answerDuplicate(record, arrival, key, known));
    }
    const pending = resolveHook(hookInput(passage, payload), snapshot);
    const resolution = pending instanceof Promise ? await pending : pending;
    return answer(passage, await recordResolution(record, arrival, resolution, key));
  };

  /** What every believed request comes to once its body is read. */
  const proceed = async (passage: Passage): Promise<Response> => {
    const { arrival, snapshot } = passage;
    const { rateLimit } = snapshot.config.hooks;
    const tooFast = rateLimit && rate.take(callerName(arrival), rateLimit);
    if (tooFast) return denyTooFast(passage, tooFast);
    if (arrival.request.method === "GET") return accept(passage, arrival.request.shown.query);
    const parsed = parsePayload(arrival.bytes, arrival.request.headers["content-type"]);
    const payload = parsed instanceof Promise ? await parsed : parsed;
    return payload.ok ? accept(passage, payload.payload) : reject(passage, payload.failure);
  };

  /** A signed request: its body is read, within a room that all such share, before anybody is believed. */
  const handleSigned = async (passage: Passage, verifier: Verifier): Promise<Response> => {
    const { c, snapshot, arrival } = passage;
    const { request } = arrival;
    const { rateLimit } = snapshot.config.hooks;
    // Only looked at: a request that is not authenticated yet takes nothing from the bucket of one that is. An empty bucket
    // was emptied by authenticated requests from this address: to doctor this is one more of them.
    const tooFast = rateLimit && rate.check(callerName(arrival), rateLimit);
    if (tooFast) return denyTooFast(passage, tooFast);
    const early = signatures.precheck(request, verifier);
    if (early) return refuse(c, request, early.failure, early.reason);
    const allowance = deps.bodyBudget.open(request.share);
    try {
      const body = await readRaw(passage, allowance);
      if (!body.ok) {
        // Nothing of a caller that is not believed is kept.
        refusals.note(request, body.failure.code);
        return failureResponse(c, body.failure, newId("req"), body.cut ? { connection: "close" } : {});
      }
      const checked = await signatures.check(c, request, arrival.bytes, verifier, snapshot.config.gateway.publicUrl);
      if (checked.kind === "refused") return refuse(c, request, checked.failure, checked.reason);
      if (checked.kind === "failed") {
        refusals.note(request, checked.reason, checked.authenticated);
        return failureResponse(c, checked.failure, newId("req"));
      }
      limiter.succeeded(request.address);
      if (checked.kind === "answered") return checked.response;
      if (checked.key) passage.signedKey = checked.key;
    } finally {
      allowance.release();
    }
    return proceed(passage);
  };

  const handle = async (c: Context, path: string): Promise<Response> => {
    const snapshot = deps.snapshot();
    const { auth, trusted, kept } = compile(snapshot);
    const now = clock.now();
    const rules = snapshot.mappings.rules(path);
    const verifier = rules?.auth && "scheme" in rules.auth ? snapshot.verifiers.get(path) : undefined;
    const { method } = c.req;
    const mayGet = rules?.methods.includes("GET") ?? false;
    const wrongMethod = (): Response =>
      failureResponse(c, methodNotAllowed, newId("req", now), { allow: mayGet || hasGetHandshake(verifier) ? "GET, POST" : "POST" });
    const isGet = method === "GET" && (mayGet || hasGetHandshake(verifier));
    if (method !== "POST" && !isGet) return wrongMethod();
    if (deps.draining()) return failureResponse(c, draining, newId("req", now));
    const request = hookRequest(c, path, kept(path), trusted);
    if (verifier) {
      const handshake = await signatures.unsigned(c, request, verifier);
      if (handshake?.kind === "answered") return handshake.response;
      if (handshake) return refuse(c, request, handshake.failure, handshake.reason);
      if (method === "GET" && !mayGet) return wrongMethod();
    }
    const believed = auth.check(request, rules);
    if (!believed.ok) return refuse(c, request, believed.failure, believed.reason);
    const arrival: Arrival = { id: newId("evt", now), now, request, credential: believed.credential, bytes: Buffer.alloc(0) };
    const passage: Passage = { c, snapshot, rules, arrival, byHookToken: believed.byHookToken, extra: {} };
    if (verifier) return handleSigned(passage, verifier);
    limiter.succeeded(request.address);
    if (believed.byQuery) {
      refusals.warnQueryToken(request.address, arrival.id);
      passage.extra["deprecation"] = "true";
    }
    const body = await readRaw(passage);
    if (body.ok) return proceed(passage);
    if (body.cut) passage.extra["connection"] = "close";
    return reject(passage, body.failure);
  };

  return {
    async handle(c, path) {
      const begun = clock.now();
      try {
        return await handle(c, path);
      } catch (error) {
        const requestId = newId("req");
        // It could not be recorded: the counter is all there is of it.
        metrics.hookAnswered({ path, outcome: "unrecorded", seconds: (clock.now() - begun) / 1000 });
        if (error instanceof RouseError) return failureResponse(c, error, requestId);
        log.error({ err: safeError(error), requestId }, "a hook failed unexpectedly");
        return failureResponse(c, unexpected, requestId);
      }
    },
    presents: (headers, credential) => compile(deps.snapshot()).auth.presents(headers, credential),
    signatures: () =>
      [...deps.snapshot().verifiers].map(([path, verifier]) => {
        const { last, candidates } = signatures.state(path);
        return { path, last, candidates: isPending(verifier) ? candidates : [] };
      }),
    replay: (eventId, options) => replayEvent(eventId, options, { store, clock, snapshot: deps.snapshot, record: recordDeps }),
  };
}
