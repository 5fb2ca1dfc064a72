import type { Admission } from "../actions/types.ts";
import { answerOf, type ActionAnswer } from "../actions/dispatch.ts";
import type { EventDebug } from "../core/debug.ts";
import type { Failure } from "../core/errors.ts";
import type { Debugged } from "../mapping/types.ts";
import type { DedupeEntry, DedupeRecord, EventOutcome, EventRecord, Store, StoredAction, StoredAnswer } from "../store/types.ts";
import { errorBody, STATUS } from "./errors.ts";
import type { HookRequest } from "./request.ts";
import type { Item, Resolution } from "./resolve.ts";

/** A hook that came in and was believed. */
export interface Arrival {
  id: string;
  now: number;
  request: HookRequest;
  credential: string;
  bytes: Buffer;
  replayOf?: string;
  /** What the mappings' code did; kept with the event, and answered to nobody. */
  debug?: EventDebug;
}

/** What is answered, and what became of the event. */
export interface Answered {
  answer: StoredAnswer;
  outcome: EventOutcome;
  event: EventRecord;
  replayed: boolean;
  failure?: Failure;
  /** Why the event failed, if its sender was answered 200 nevertheless. */
  acknowledged?: Failure;
}

/** The event's key: a repeat with the same one is answered as the first was. */
export interface EventKey {
  scope: string;
  key: string;
  /** Where the caller chose the key: another body under it is a conflict. */
  bodyHash?: string;
  /** Milliseconds that the key is kept at least, where that is longer than `hooks.dedupe.ttl`. */
  minKeepMs?: number;
}

function newEvent(arrival: Arrival, outcome: EventOutcome, actions: StoredAction[]): EventRecord {
  const { request } = arrival;
  const event: EventRecord = {
    id: arrival.id,
    receivedAt: arrival.now,
    path: request.path,
    credential: arrival.credential,
    address: request.address,
    outcome,
    actions,
    request: {
      method: request.method,
      headers: request.shown.headers,
      query: request.shown.query,
      body: arrival.bytes,
    },
  };
  const contentType = request.headers["content-type"];
  if (contentType !== undefined) event.request.contentType = contentType;
  if (arrival.replayOf !== undefined) event.replayOf = arrival.replayOf;
  if (arrival.debug) event.debug = arrival.debug;
  return event;
}

function itemAnswer(item: Item, index: number, eventId: string): unknown {
  if (item.ok) return answerOf(item.action);
  return { ok: false, index, error: errorBody(item.failure, eventId).error };
}

function workAnswer(resolution: Extract<Resolution, { kind: "work" }>, answers: unknown[], eventId: string): StoredAnswer {
  const done = answers.filter((answer): answer is ActionAnswer => (answer as ActionAnswer).ok);
  const isRun = done.some((answer) => answer.runId !== undefined);
  const body: Record<string, unknown> = { ok: true, eventId };
  if (resolution.list) body["results"] = answers;
  else {
    const { systemEventId: _systemEventId, ...answer } = done[0] as ActionAnswer;
    Object.assign(body, answer);
  }
  const warnings = resolution.list ? resolution.warnings : [...new Set([...resolution.warnings, ...(done[0]?.warnings ?? [])])];
  if (warnings.length > 0) body["warnings"] = warnings;
  return { status: isRun ? 202 : 200, body };
}

/** Keeps an event that brings no work: skipped, unmatched, rejected, failed, duplicate. */
export async function recordWithoutWork(
  store: Store,
  arrival: Arrival,
  outcome: EventOutcome,
  details: Pick<EventRecord, "reason" | "mapping" | "missing" | "nearest" | "duplicateOf" | "would">,
  answer: StoredAnswer,
  keys: readonly DedupeEntry[] = [],
): Promise<Answered> {
  const event = Object.assign(newEvent(arrival, outcome, []), details);
  if (answer.status >= 400) event.status = answer.status;
  await store.accept(event, keys, arrival.request.fence);
  return { answer, outcome, event, replayed: false };
}

export interface RecordDeps {
  store: Store;
  dedupeTtlMs: number;
  admit: Admission["admit"];
  /** Starts what failed for good of an earlier event again, and gives its delivery another try. */
  revive(record: DedupeRecord): Promise<void>;
}

/** The answer to a repeat of an event: the first one's, or 409 where the caller chose the key for another body. */
export async function answerDuplicate(deps: RecordDeps, arrival: Arrival, key: EventKey, record: DedupeRecord): Promise<Answered> {
  if (record.bodyHash !== undefined && key.bodyHash !== undefined && record.bodyHash !== key.bodyHash) {
    const failure: Failure = {
      code: "idempotency_conflict",
      message: "this idempotency key came with another body before; use a new key for new work",
    };
    const answer = { status: STATUS[failure.code], body: errorBody(failure, arrival.id) };
    const answered = await recordWithoutWork(
      deps.store,
      arrival,
      "rejected",
      { reason: failure.message, duplicateOf: record.eventId },
      answer,
    );
    return { ...answered, failure };
  }
  await deps.revive(record);
  const answer = record.answer ?? { status: 200, body: { ok: true, eventId: record.eventId } };
  const answered = await recordWithoutWork(
    deps.store,
    arrival,
    "duplicate",
    { duplicateOf: record.eventId, reason: "same key as an earlier event" },
    answer,
  );
  return { ...answered, replayed: true };
}

function entryOf(deps: RecordDeps, arrival: Arrival, key: EventKey, answer: StoredAnswer): DedupeEntry {
  const { minKeepMs = 0, ...entry } = key;
  return { ...entry, expiresAt: arrival.now + Math.max(deps.dedupeTtlMs, minKeepMs), answer };
}

/** Keeps an event that a mapping could not make work of. It binds no key: a repeat is tried afresh. */
async function recordRefused(deps: RecordDeps, arrival: Arrival, resolution: Extract<Resolution, { kind: "refused" }>): Promise<Answered> {
  const { failure, outcome, mapping, missing, acknowledged } = resolution;
  const details = { reason: failure.message, ...(mapping === undefined ? {} : { mapping }), ...(missing ? { missing } : {}) };
  if (acknowledged) {
    const answer = { status: 200, body: { ok: true, eventId: arrival.id, outcome } };
    return { ...(await recordWithoutWork(deps.store, arrival, outcome, details, answer)), acknowledged: failure };
  }
  const answer = { status: STATUS[failure.code], body: errorBody(failure, arrival.id) };
  return { ...(await recordWithoutWork(deps.store, arrival, outcome, details, answer)), failure };
}

/** Keeps the outcome of a hook, with its work, in one durable commit, and says what to answer. */
export async function recordResolution(
  deps: RecordDeps,
  received: Arrival,
  { debug, ...resolution }: Debugged<Resolution>,
  key: EventKey | undefined,
): Promise<Answered> {
  const arrival = debug ? { ...received, debug } : received;
  if (resolution.kind === "unmatched") {
    const { kind: outcome, ...details } = resolution;
    const nearest = details.nearest && { nearest: details.nearest };
    const answer = { status: 200, body: { ok: true, eventId: arrival.id, outcome, ...nearest } };
    return recordWithoutWork(deps.store, arrival, outcome, details, answer);
  }
  if (resolution.kind === "refused") return recordRefused(deps, arrival, resolution);
  if (resolution.kind === "skipped") {
    const { kind: _kind, echo, ...details } = resolution;
    // In shadow, and of its own echo, the sender is told; nothing to do at all is no content.
    const told = { ok: true, eventId: arrival.id, outcome: "skipped", reason: resolution.reason };
    const answer = resolution.would || echo ? { status: 200, body: told } : { status: 204, body: null };
    const entries = key ? [entryOf(deps, arrival, key, answer)] : [];
    return recordWithoutWork(deps.store, arrival, "skipped", details, answer, entries);
  }
  return recordWork(deps, arrival, resolution, key, 0);
}

interface Planned {
  answers: unknown[];
  actions: StoredAction[];
  entries: DedupeEntry[];
}

type Good = Extract<Item, { ok: true }>;

const nameOf = ({ key }: Good): string | undefined => key && `${key.scope}\n${key.key}`;

/** What is answered for keys that are bound already, by name. */
async function knownKeys(deps: RecordDeps, items: readonly Item[]): Promise<Map<string, unknown>> {
  const keyed = items.flatMap((item) => (item.ok && item.key ? [item.key] : []));
  const known = new Map<string, unknown>();
  if (keyed.length === 0) return known;
  for (const record of await deps.store.findDuplicates(keyed)) {
    if (!record) continue;
    known.set(`${record.scope}\n${record.key}`, record.item);
    // What failed for good is not done: it starts again, under the id that is answered.
    await deps.revive(record);
  }
  return known;
}

/** The items that are new work: no key of theirs is bound, and none came before in the same event. */
function freshItems(items: readonly Item[], known: ReadonlyMap<string, unknown>): Set<Item> {
  const seen = new Set<string>();
  const fresh = new Set<Item>();
  for (const item of items) {
    const name = item.ok ? nameOf(item) : undefined;
    if (!item.ok || (name !== undefined && (known.has(name) || seen.has(name)))) continue;
    if (name !== undefined) seen.add(name);
    fresh.add(item);
  }
  return fresh;
}

/** What is kept and answered, item by item; actions say by now whether they have to wait. */
function planItems(deps: RecordDeps, arrival: Arrival, items: readonly Item[], found: ReadonlyMap<string, unknown>): Planned {
  const known = new Map(found);
  const planned: Planned = { answers: [], actions: [], entries: [] };
  for (const [index, item] of items.entries()) {
    const name = item.ok ? nameOf(item) : undefined;
    if (name !== undefined && known.has(name)) {
      planned.answers.push({ ...(known.get(name) as object), duplicate: true });
      continue;
    }
    const answer = itemAnswer(item, index, arrival.id);
    planned.answers.push(answer);
    if (!item.ok) continue;
    planned.actions.push(item.action);
    if (name === undefined || !item.key) continue;
    known.set(name, answer);
    planned.entries.push({ ...item.key, expiresAt: arrival.now + deps.dedupeTtlMs, item: answer });
  }
  return planned;
}

/** Two that arrive at the same moment with the same key: the one that comes second looks again. */
const MAX_LOOKS = 4;

async function recordWork(
  deps: RecordDeps,
  arrival: Arrival,
  resolution: Extract<Resolution, { kind: "work" }>,
  key: EventKey | undefined,
  looks: number,
): Promise<Answered> {
  const { items } = resolution;
  const known = items.some((item) => item.ok && item.key) ? await knownKeys(deps, items) : new Map<string, unknown>();
  const fresh = freshItems(items, known);
  const asked = deps.admit([...fresh] as Good[], arrival.now);
  const admitted = asked instanceof Promise ? await asked : asked;
  if (!admitted.ok) {
    const refused: Resolution = { kind: "refused", outcome: "rejected", failure: admitted.failure };
    if (resolution.mapping !== undefined) refused.mapping = resolution.mapping;
    return recordResolution(deps, arrival, refused, key);
  }
  const planned = planItems(deps, arrival, items, known);
  const answer = workAnswer(resolution, planned.answers, arrival.id);
  const event = newEvent(arrival, planned.actions.length > 0 ? "accepted" : "duplicate", planned.actions);
  if (resolution.mapping !== undefined) event.mapping = resolution.mapping;
  if (resolution.would) event.would = resolution.would;
  const missing = resolution.items.flatMap((item) => (item.ok ? item.missing : []));
  if (missing.length > 0) event.missing = [...new Set(missing)];
  if (event.outcome === "duplicate") event.reason = "every action of it was done before";
  const entries = key ? [entryOf(deps, arrival, key, answer), ...planned.entries] : planned.entries;
  const accepted = await deps.store.accept(event, entries, arrival.request.fence).catch((error: unknown) => {
    admitted.settle(false);
    throw error;
  });
  admitted.settle(accepted.kind === "accepted");
  if (accepted.kind === "accepted") return { answer, outcome: event.outcome, event, replayed: false };
  if (looks >= MAX_LOOKS) throw new Error("duplicate keys or windows kept changing");
  // Its window has closed meanwhile: it opens the next one.
  if (accepted.kind === "closed") return recordWork(deps, arrival, resolution, key, looks + 1);
  const { record } = accepted;
  if (key && record.scope === key.scope && record.key === key.key) return answerDuplicate(deps, arrival, key, record);
  return recordWork(deps, arrival, resolution, key, looks + 1);
}
