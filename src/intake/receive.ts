import type { Attributes, Span } from "../core/http/trace-context.ts";
import {
  WITHOUT_MAPPINGS,
  authenticate,
  type AuthenticateDeps,
  type Authenticator,
  checkRate,
  createAuthenticator,
  createFailureLimiter,
  type RateDeps,
  takeRate,
} from "./authenticate.ts";
import { RouseError, safeError, type Failure } from "../core/errors.ts";
import { newId } from "../core/ids.ts";
import type { EventRecord } from "../store/types.ts";
import {
  createDenials,
  toDenied,
  type Denials,
  createRateLimiter,
  createSharedCounts,
} from "./callers.ts";
import {
  createHold,
  createKeptNames,
  decodeHookBody,
  keptParts,
  readHookBody,
  type ReadBodyDeps,
} from "./body.ts";
import { createBodyBudget, type BodyBudget } from "./body-budget.ts";
import { createMessageIntake, type MessageIntake } from "./channel-message.ts";
import type { IntakeDeps } from "./context.ts";
import { deduplicate, record, rejectInvalid } from "./record.ts";
import { keepAction, markReplayed, toReplayInput, toReplayResult } from "./replay.ts";
import { resolve, toEffect } from "./resolve.ts";
import {
  answerUnsignedHandshake,
  createSignatureMemory,
  listSignatures,
  precheckSignature,
  verifySignature,
  type SignatureDeps,
} from "./signature.ts";
import type {
  DeniedRequest,
  Origin,
  RawInput,
  IntakeReceipt,
  Received,
  ReceivedHook,
  Rejected,
  ReplayOptions,
  ReplayResult,
  SignatureState,
  Snapshot,
  StageResult,
} from "./types.ts";

/** Processes all input, from the raw request to the recorded outcome. */
export interface Intake extends MessageIntake {
  /** Processes a hook. Its outcome is on disk when this resolves, unless the hook was denied or is a handshake. Never throws. */
  receive(input: RawInput, origin: Origin): Promise<Received>;
  /**
   * Replays a recorded event with the current mappings, as a new event. Fails with `not_found` if its body is gone, `usage` if
   * it has no action of that number.
   */
  replay(
    event: EventRecord,
    options: ReplayOptions,
  ): Promise<{ ok: true; result: ReplayResult } | { ok: false; failure: Failure }>;
  /** Returns whether the headers carry the credential that an event was received with. */
  hasCredential(headers: Record<string, string>, credential: string): boolean;
  /** Lists, for each signed path, the secret that matched last and the candidates for a pending secret. */
  signatures(): readonly SignatureState[];
  /** Shared with the other interfaces that unauthenticated callers reach. */
  readonly denials: Denials;
  readonly bodyBudget: BodyBudget;
  /** The spending of callers at all gateways. Undefined if there is only one. */
  readonly sharedCounts: ReturnType<typeof createSharedCounts>;
}

/** A snapshot's rules for callers, compiled once. */
interface CallerRules {
  auth: Authenticator;
  keptNames: ReturnType<typeof createKeptNames>;
}

/** Compiles the rules for callers of each snapshot at its first use. */
function createCallerRules({ reloader }: IntakeDeps): (snapshot: Snapshot) => CallerRules {
  const known = new WeakMap<Snapshot, CallerRules>();
  return (snapshot) => {
    const before = known.get(snapshot);
    if (before) return before;
    const { mappings, config } = snapshot;
    const { token = reloader.keptToken(), allowQueryToken } = config.hooks;
    const made: CallerRules = {
      auth: createAuthenticator([token].flat(), mappings.paths, allowQueryToken),
      keptNames: createKeptNames(snapshot),
    };
    known.set(snapshot, made);
    return made;
  };
}

/** The dependencies of the stages. */
interface StageDeps extends IntakeDeps, AuthenticateDeps, ReadBodyDeps, RateDeps, SignatureDeps {
  compiled(snapshot: Snapshot): CallerRules;
}

type Stage = (hook: ReceivedHook, deps: StageDeps) => StageResult | Promise<StageResult>;

/** The stages of a hook, in order. A stage that returns a result ends the processing. */
const STAGES: readonly Stage[] = [
  checkRoute,
  answerUnsignedHandshake,
  checkMethod,
  authenticate,
  checkRate,
  precheckSignature,
  readHookBody,
  verifySignature,
  takeRate,
  decodeHookBody,
  deduplicate,
  evaluate,
  // Admits the resolved work and stores it with the event in one commit.
  record,
];

/** The stages that only paths with a signature scheme need. */
const SIGNATURE_STAGES: ReadonlySet<Stage> = new Set([
  answerUnsignedHandshake,
  checkMethod,
  checkRate,
  precheckSignature,
  verifySignature,
]);
const TOKEN_STAGES = STAGES.filter((stage) => !SIGNATURE_STAGES.has(stage));
/** The stages of an event that was authenticated, counted and recorded before. */
const EVALUATION_STAGES: readonly Stage[] = [decodeHookBody, evaluate];
const REPLAY_STAGES: readonly Stage[] = [...EVALUATION_STAGES, record];

const NOT_FOUND: Failure = { code: "not_found", message: "there is nothing at this address" };
const DRAINING: Failure = {
  code: "draining",
  message: "the gateway is stopping; try again in a moment",
  retryAfterSeconds: 5,
};
const METHOD: Failure = { code: "method_not_allowed", message: "hooks are called with POST" };
const FAILED =
  "a mapping failed, and its sender was answered with an error: `rouse explain <requestId>` has the reason";
const ACKNOWLEDGED =
  "a mapping failed and its sender was acknowledged: replay it once the mapping is right";
const UNEXPECTED: Failure = {
  code: "internal",
  message: "something failed inside the gateway; its log has the request id",
};

const METHODS = ["GET", "HEAD", "OPTIONS", "POST"] as const;

/** Lists the methods that a path takes as events or answers as handshakes. */
function getMethods({ rules, verifier }: ReceivedHook): string[] {
  const asked = verifier?.handshakes.map(({ when }) => when.method) ?? [];
  const taken = new Set<string>(["POST", ...(rules?.methods ?? []), ...asked]);
  return METHODS.filter((method) => taken.has(method));
}

const denyMethod = (hook: ReceivedHook): DeniedRequest =>
  toDenied(METHOD, { methods: getMethods(hook) });

/** Denies a hook if hooks are disabled, the path does not accept the method, or the gateway is stopping. */
function checkRoute(hook: ReceivedHook, { progress }: StageDeps): StageResult {
  const { snapshot, input } = hook;
  if (!snapshot.config.hooks.enabled) return toDenied(NOT_FOUND);
  if (input.method !== "POST" && !getMethods(hook).includes(input.method)) return denyMethod(hook);
  return progress.draining ? toDenied(DRAINING) : undefined;
}

/** Denies a request that was no handshake, unless the path takes its method as an event. */
function checkMethod(hook: ReceivedHook): StageResult {
  const { rules, input } = hook;
  const isTaken = input.method === "POST" || rules?.methods.some((one) => one === input.method);
  return isTaken ? undefined : denyMethod(hook);
}

/** Resolves the work of a hook: within a span if mappings decide it. */
function evaluate(hook: ReceivedHook, { traces }: StageDeps): undefined | Promise<undefined> {
  if (WITHOUT_MAPPINGS.has(hook.path)) return resolve(hook);
  return traces.span(
    "evaluate mappings",
    { "rouse.hook.path": hook.rules?.path },
    async (span): Promise<undefined> => {
      await resolve(hook);
      const { resolution } = hook;
      if (!resolution) return;
      const failure = resolution.kind === "refused" ? resolution.failure.code : undefined;
      span.set({
        "rouse.mapping": resolution.kind === "unmatched" ? undefined : resolution.mapping,
        "rouse.mapping.result": resolution.kind,
        "rouse.error.code": failure,
      });
      if (failure && resolution.kind === "refused" && resolution.outcome === "failed")
        span.fail(failure);
    },
  );
}

const NOTHING = Buffer.alloc(0);

/** The address that an event is recorded with. */
function getAddress(origin: Origin): string {
  if (origin.kind === "http") return origin.address;
  return origin.kind === "replay" ? (origin.address ?? "replay") : "127.0.0.1";
}

function openHook(
  input: RawInput,
  origin: Origin,
  now: number,
  { snapshot, compiled }: StageDeps,
): ReceivedHook {
  const current = snapshot();
  const { path, headers, query } = input;
  const { mappings, verifiers } = current;
  const isReplay = origin.kind === "replay";
  return {
    id: newId("evt", now),
    now,
    path,
    input,
    origin,
    address: getAddress(origin),
    snapshot: current,
    rules: mappings.rules.get(path),
    verifier: origin.kind === "http" ? verifiers.get(path) : undefined,
    // The event was recorded with the headers and parameters that its path kept then.
    kept: isReplay ? { headers, query } : keptParts(compiled(current).keptNames(path), input),
    credential: isReplay ? origin.credential : "",
    byHookToken: isReplay && origin.credential === "hooks.token",
    bytes: isReplay && input.body instanceof Uint8Array ? Buffer.from(input.body) : NOTHING,
    payload: undefined,
  };
}

async function runStages(
  stages: readonly Stage[],
  hook: ReceivedHook,
  deps: StageDeps,
): Promise<StageResult> {
  for (const stage of stages) {
    const pending = stage(hook, deps);
    const result = pending instanceof Promise ? await pending : pending;
    if (result) return result;
  }
  return undefined;
}

/** Records an invalid hook. If it cannot be recorded, the sender gets the same answer. */
function reject(hook: ReceivedHook, { error }: Rejected, deps: StageDeps): Promise<IntakeReceipt> {
  return rejectInvalid(deps, hook, error).catch((problem: unknown): IntakeReceipt => {
    deps.log.error(
      { err: safeError(problem), requestId: hook.id },
      "a rejected hook could not be recorded",
    );
    return { kind: "receipt", eventId: hook.id, outcome: "rejected", actions: [], error };
  });
}

function count(
  { path, now }: ReceivedHook,
  { eventId, outcome, acknowledged, mapping, error }: IntakeReceipt,
  { clock, metrics, log }: StageDeps,
): void {
  metrics.hookAnswered({ path, outcome, seconds: (clock.now() - now) / 1000 });
  if (acknowledged) metrics.failureAcknowledged(path);
  if (outcome === "failed")
    log.warn(
      { requestId: eventId, path, mapping, code: error?.code },
      acknowledged ? ACKNOWLEDGED : FAILED,
    );
}

/** Counts the outcome of a hook and adds the hints for its caller. */
function conclude(hook: ReceivedHook, received: Received, deps: StageDeps): Received {
  const { origin, path } = hook;
  if (received.kind === "receipt" && origin.kind !== "replay") {
    count(hook, received, deps);
    deps.options.recorded?.(hook, received);
  }
  if (received.kind === "denied" && origin.kind === "source")
    deps.log.debug(
      { plugin: origin.plugin, path, code: received.error.code },
      "an event of a plugin's service was denied",
    );
  if (received.kind !== "handshake" && hook.hints)
    received.hints = { ...hook.hints, ...received.hints };
  return received;
}

/** Denies an input that could not be recorded. Only the counter and the log show it. */
function failed(
  { path }: RawInput,
  begun: number,
  error: unknown,
  { clock, metrics, log }: StageDeps,
): DeniedRequest {
  metrics.hookAnswered({ path, outcome: "unrecorded", seconds: (clock.now() - begun) / 1000 });
  if (error instanceof RouseError) return toDenied(error);
  const denied = toDenied(UNEXPECTED);
  log.error({ err: safeError(error), requestId: denied.requestId }, "a hook failed unexpectedly");
  return denied;
}

function createStageDeps(deps: IntakeDeps, sharedCounts: Intake["sharedCounts"]): StageDeps {
  const { clock, log, metrics } = deps;
  const limiter = createFailureLimiter(clock, sharedCounts?.("hooks"));
  return {
    ...deps,
    compiled: createCallerRules(deps),
    limiter,
    denials: createDenials({ clock, log, metrics, limiter }),
    bodyBudget: createBodyBudget(clock),
    hold: createHold(),
    rate: createRateLimiter(clock, sharedCounts?.("rate")),
    signatures: createSignatureMemory(clock, sharedCounts?.("handshakes")),
  };
}

/** Returns whether a path is one of the config's or the gateway's: other paths are whatever callers send. */
export const isKnownPath = (path: string, { mappings }: Pick<Snapshot, "mappings">): boolean =>
  WITHOUT_MAPPINGS.has(path) || mappings.rules.has(path);

/** Takes an event in within the span of its request, or within a span of its own. */
async function inSpan<T>(
  path: string,
  origin: Origin["kind"] | "channel",
  { traces, snapshot }: IntakeDeps,
  work: (span: Span) => Promise<T>,
  headers: Readonly<Record<string, string>> = {},
): Promise<T> {
  const isKnown = origin === "channel" || origin === "replay" || isKnownPath(path, snapshot());
  const attributes = {
    "rouse.hook.path": isKnown ? path : undefined,
    "rouse.event.origin": origin,
  };
  const isInternal = origin === "internal" || origin === "replay";
  return traces.span(`receive ${isKnown ? path : ":path"}`, attributes, work, {
    headers,
    joinsRequest: true,
    ...(isInternal ? {} : { kind: "consumer" }),
  });
}

/** Describes what became of a hook. Only what failed in the gateway or in a mapping is an error: a wrong request is not. */
function describe(received: Received, span: Span): void {
  if (received.kind === "handshake") return span.set({ "rouse.event.outcome": "handshake" });
  const { error } = received;
  const attributes: Attributes =
    received.kind === "denied"
      ? { "rouse.event.outcome": "denied" }
      : {
          "rouse.event.id": received.eventId,
          "rouse.event.outcome": received.outcome,
          "rouse.mapping": received.mapping,
        };
  span.set({ ...attributes, "rouse.error.code": error?.code });
  if (error && received.kind === "receipt" && received.outcome === "failed") span.fail(error.code);
}

async function receive(input: RawInput, origin: Origin, deps: StageDeps): Promise<Received> {
  const now = deps.clock.now();
  try {
    const hook = openHook(input, origin, now, deps);
    const stages = origin.kind === "replay" ? REPLAY_STAGES : hook.verifier ? STAGES : TOKEN_STAGES;
    const end = (await runStages(stages, hook, deps)) as Received | Rejected;
    return conclude(hook, end.kind === "rejected" ? await reject(hook, end, deps) : end, deps);
  } catch (error) {
    return failed(input, now, error, deps);
  }
}

async function replay(
  event: EventRecord,
  { action, body, dryRun }: ReplayOptions,
  deps: StageDeps,
): ReturnType<Intake["replay"]> {
  const { store, clock } = deps;
  const found = toReplayInput(event, body);
  if (!found.ok) return found;
  const hook = openHook(found.input, found.origin, clock.now(), deps);
  const resolved = await runStages(EVALUATION_STAGES, hook, deps);
  const failure = resolved ? undefined : keepAction(hook, action);
  if (failure) return { ok: false, failure };
  const effect = hook.resolution && toEffect(hook.resolution);
  if (dryRun) return { ok: true, result: toReplayResult(event.id, effect, resolved) };
  const end = resolved ?? (await runStages([record], hook, deps));
  const receipt = end?.kind === "rejected" ? await rejectInvalid(deps, hook, end.error) : end;
  const result = toReplayResult(event.id, effect, receipt);
  return { ok: true, result: await markReplayed(result, action, store, clock.now()) };
}

/** Creates the intake of a gateway. */
export function createIntake(given: IntakeDeps): Intake {
  const sharedCounts = createSharedCounts(given.cluster);
  const deps = createStageDeps(given, sharedCounts);
  const { snapshot } = deps;
  const { receiveMessage, receivePress } = createMessageIntake(deps);
  return {
    receivePress,
    denials: deps.denials,
    bodyBudget: deps.bodyBudget,
    sharedCounts,
    receiveMessage: (channel, message, fencingToken) =>
      inSpan(`channels/${channel}`, "channel", deps, async (span) => {
        const receipt = await receiveMessage(channel, message, fencingToken);
        describe(receipt, span);
        return receipt;
      }),
    receive(input, origin) {
      if (!deps.traces.isOn) return receive(input, origin, deps);
      const work = async (span: Span): Promise<Received> => {
        const received = await receive(input, origin, deps);
        describe(received, span);
        return received;
      };
      return inSpan(input.path, origin.kind, deps, work, input.headers);
    },
    replay: (eventId, options) =>
      inSpan("replay", "replay", deps, async (span) => {
        const replayed = await replay(eventId, options, deps);
        if (!replayed.ok) return replayed;
        const { newEventId, outcome, mapping } = replayed.result;
        span.set({
          "rouse.event.id": newEventId,
          "rouse.event.outcome": outcome,
          "rouse.mapping": mapping,
        });
        return replayed;
      }),
    hasCredential: (headers, credential) =>
      deps.compiled(snapshot()).auth.hasCredential(headers, credential),
    signatures: () => listSignatures(snapshot(), deps.signatures),
  };
}
