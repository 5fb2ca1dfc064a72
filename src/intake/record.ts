import type { Admitted, Placement } from "../queue/types.ts";
import { getStatus, type Failure } from "../core/errors.ts";
import type {
  StoredActionReceipt,
  DedupeEntry,
  DedupeRecord,
  EventRecord,
  Store,
  StoredAction,
  StoredReceipt,
} from "../store/types.ts";
import type {
  EventKey,
  Item,
  ReceivedHook,
  IntakeReceipt,
  Resolution,
  StageResult,
  ValidItem,
} from "./types.ts";
import { WITHOUT_MAPPINGS } from "./authenticate.ts";
import type { IntakeDeps } from "./context.ts";
import { renderFailedItems } from "./resolve.ts";
import { sha256Hex } from "../core/secret.ts";
import { renderSpan } from "../core/text.ts";

function toEvent(
  hook: ReceivedHook,
  outcome: IntakeReceipt["outcome"],
  actions: StoredAction[],
): EventRecord {
  const { input, origin, kept } = hook;
  const event: EventRecord = {
    id: hook.id,
    receivedAt: hook.now,
    path: hook.path,
    credential: hook.credential,
    address: hook.address,
    outcome,
    actions,
    request: { method: input.method, headers: kept.headers, query: kept.query, body: hook.bytes },
  };
  const contentType = input.headers["content-type"];
  if (contentType !== undefined) event.request.contentType = contentType;
  if (origin.kind === "replay")
    Object.assign(event, { replayOf: origin.of, ...(origin.edited && { edited: true }) });
  if (hook.debug) event.debug = hook.debug;
  if (hook.warnings) event.warnings = hook.warnings;
  const config = WITHOUT_MAPPINGS.has(hook.path) ? undefined : hook.snapshot.decidingConfig;
  if (config) event.config = config.id;
  return event;
}

function commit(
  { store, configs }: IntakeDeps,
  { origin, snapshot }: ReceivedHook,
  event: EventRecord,
  keys: readonly DedupeEntry[],
): ReturnType<Store["accept"]> {
  const fencingToken = origin.kind === "source" ? origin.fencingToken : undefined;
  const accept = (): ReturnType<Store["accept"]> => store.accept(event, keys, fencingToken);
  const config = event.config === undefined ? undefined : snapshot.decidingConfig;
  return config && !configs.recorded.has(config.id)
    ? configs.record(config).then(accept)
    : accept();
}

/** The outcome of an event without work. */
type WithoutWork = Pick<
  IntakeReceipt,
  "outcome" | "reason" | "mapping" | "nearest" | "error" | "acknowledged" | "quiet" | "repeats"
> &
  Pick<EventRecord, "missing" | "would">;

/** Stores an event without work: skipped, unmatched, rejected, failed or duplicate. */
async function recordWithoutWork(
  deps: IntakeDeps,
  hook: ReceivedHook,
  what: WithoutWork,
  keys: readonly DedupeEntry[] = [],
): Promise<IntakeReceipt> {
  const { missing, would, nearest, ...acceptance } = what;
  const event = toEvent(hook, what.outcome, []);
  const { outcome, reason, mapping, error } = what;
  if (error && !what.acknowledged) event.status = getStatus(error.code);
  if (what.repeats) event.duplicateOf = what.repeats.eventId;
  for (const [name, value] of Object.entries({ reason, mapping, missing, nearest, would }))
    if (value !== undefined) Object.assign(event, { [name]: value });
  await commit(deps, hook, event, keys);
  // The sender of a skipped event learns only that it was taken.
  return {
    kind: "receipt",
    eventId: hook.id,
    actions: [],
    ...acceptance,
    ...(nearest && outcome === "unmatched" ? { nearest } : {}),
  };
}

/** Records an invalid hook. It binds no duplicate key: a repeat is evaluated again. */
export function rejectInvalid(
  deps: IntakeDeps,
  hook: ReceivedHook,
  error: Failure,
): Promise<IntakeReceipt> {
  return recordWithoutWork(deps, hook, { outcome: "rejected", reason: error.message, error });
}

/** The reason that a repeat counts as the earlier event. */
const EQUALS: Record<EventKey["by"], string> = {
  id: "the sender's id of the event is the same",
  body: "the body is the same",
  caller: "the idempotency key is the same",
};

/** Returns the time for which a key is kept. A body's is kept exactly as long as its path says. */
function getKeepMs({ snapshot }: ReceivedHook, key: EventKey): number {
  if (key.by === "body") return key.keepMs;
  const { ttl } = snapshot.config.hooks.dedupe;
  return key.by === "id" ? Math.max(ttl, key.minKeepMs ?? 0) : ttl;
}

/** Says which events a repeat repeats, what is equal and for how long that counts, and how to do it all the same. */
function renderRepeat(
  eventIds: readonly string[],
  equal: string,
  keepMs: number,
  { id }: ReceivedHook,
): string {
  return `a repeat of ${eventIds.join(", ")}: ${equal}, which counts for ${renderSpan(keepMs / 1000)}; \`rouse events replay ${id}\` does it again`;
}

/** Records a repeat, which gets the answer of the first event. If the caller chose the key and the body differs, it is a conflict. */
export async function recordDuplicate(
  deps: IntakeDeps,
  hook: ReceivedHook,
  key: EventKey,
  record: DedupeRecord,
): Promise<IntakeReceipt> {
  const { eventId, receipt } = record;
  if (key.by === "caller" && record.bodyHash !== undefined && record.bodyHash !== key.bodyHash) {
    const message =
      "this idempotency key came with another body before; use a new key for new work";
    const error: Failure = { code: "idempotency_conflict", message };
    return recordWithoutWork(deps, hook, {
      outcome: "rejected",
      reason: message,
      error,
      repeats: { eventId },
    });
  }
  await deps.retryFailed(record);
  const repeats = { eventId, ...(receipt ? { receipt } : {}) };
  return recordWithoutWork(deps, hook, {
    outcome: "duplicate",
    reason: renderRepeat([eventId], EQUALS[key.by], getKeepMs(hook, key), hook),
    repeats,
  });
}

function toEntry(hook: ReceivedHook, key: EventKey, receipt: StoredReceipt): DedupeEntry {
  return {
    scope: key.scope,
    key: key.key,
    ...(key.by === "caller" && { bodyHash: key.bodyHash }),
    expiresAt: hook.now + getKeepMs(hook, key),
    receipt,
  };
}

/** Stores an event without work. A skipped event binds its duplicate key; unmatched and rejected events bind none. */
function recordResolved(
  deps: IntakeDeps,
  hook: ReceivedHook,
  resolution: Exclude<Resolution, { kind: "work" }>,
): Promise<IntakeReceipt> {
  switch (resolution.kind) {
    case "unmatched": {
      const { kind: outcome, ...details } = resolution;
      return recordWithoutWork(deps, hook, { outcome, ...details });
    }
    case "refused": {
      const { kind: _kind, failure, ...details } = resolution;
      return recordWithoutWork(deps, hook, { reason: failure.message, error: failure, ...details });
    }
    case "skipped": {
      const { kind: outcome, echo, shadow, ...details } = resolution;
      // The answer gives the reason only for shadow mappings and for the agent's own echo.
      const quiet = !shadow && !echo;
      const receipt: StoredReceipt = { outcome, actions: [], reason: details.reason, quiet };
      const keys = hook.eventKey ? [toEntry(hook, hook.eventKey, receipt)] : [];
      return recordWithoutWork(deps, hook, { outcome, quiet, ...details }, keys);
    }
  }
}

const getDedupeName = ({ key }: ValidItem): string | undefined => key && `${key.scope}\n${key.key}`;

/** An action that was done before: its receipt, and the event that did it. */
interface DoneAction {
  receipt: StoredActionReceipt;
  eventId: string;
}

/** Returns the actions whose duplicate keys are bound already, by name. */
async function knownKeys(
  deps: IntakeDeps,
  items: readonly Item[],
): Promise<Map<string, DoneAction>> {
  const keyed = items.flatMap((item) => (item.ok && item.key ? [item.key] : []));
  const known = new Map<string, DoneAction>();
  for (const record of await deps.store.findDuplicates(keyed)) {
    if (!record) continue;
    known.set(`${record.scope}\n${record.key}`, {
      receipt: (record.item ?? { ok: true }) as StoredActionReceipt,
      eventId: record.eventId,
    });
    // A repeat retries work that failed for good. The answer has the id of the first run.
    await deps.retryFailed(record);
  }
  return known;
}

/** Returns the items whose key is not bound yet and does not occur earlier in the same event. */
function freshItems(items: readonly Item[], known: ReadonlyMap<string, DoneAction>): ValidItem[] {
  const seen = new Set<string>();
  const fresh: ValidItem[] = [];
  for (const item of items) {
    const name = item.ok ? getDedupeName(item) : undefined;
    if (!item.ok || (name !== undefined && (known.has(name) || seen.has(name)))) continue;
    if (name !== undefined) seen.add(name);
    fresh.push(item);
  }
  return fresh;
}

const QUEUED: Placement = { state: "queued" };
/** The answer for an event without runs, which takes no room. */
const NO_RUNS: Admitted = { ok: true, placements: [], settle: () => undefined };

/** Adds the placement to an action before it is stored. */
function applyPlacement(action: StoredAction, placement: Placement): StoredAction {
  if (action.kind !== "run" || placement.state === "queued") return action;
  if (placement.state === "parked") return { ...action, parked: placement.parked };
  return { ...action, runId: placement.runId, collect: placement.batch };
}

/** Builds the receipt of an accepted action for its caller. */
export function toReceipt(action: StoredAction, state: Placement["state"]): StoredActionReceipt {
  const receipt: StoredActionReceipt = { ok: true };
  if (action.kind === "wake") {
    receipt.systemEventId = action.systemEventId;
    receipt.mode = action.mode;
  } else {
    receipt.runId = action.runId;
    receipt.sessionKey = action.spec.session.key;
    receipt.status = state;
    if (action.warnings.length > 0) receipt.warnings = action.warnings;
  }
  if (action.mapping !== undefined) receipt.mapping = action.mapping;
  return receipt;
}

interface Planned {
  receipts: StoredActionReceipt[];
  actions: StoredAction[];
  entries: DedupeEntry[];
  /** The events that did actions of this one before. */
  earlier: Set<string>;
}

/** Builds the receipts, the stored actions and the duplicate keys of all items. `placements` has one entry for each fresh run, in order. */
function planItems(
  { id, now, snapshot }: ReceivedHook,
  items: readonly Item[],
  found: ReadonlyMap<string, DoneAction>,
  placements: readonly Placement[],
): Planned {
  const known = new Map(found);
  const left = placements.values();
  const planned: Planned = { receipts: [], actions: [], entries: [], earlier: new Set() };
  for (const item of items) {
    if (!item.ok) {
      planned.receipts.push({ ok: false, error: item.failure });
      continue;
    }
    const name = getDedupeName(item);
    const before = name === undefined ? undefined : known.get(name);
    if (before) {
      planned.receipts.push({ ...before.receipt, duplicate: true } as StoredActionReceipt);
      planned.earlier.add(before.eventId);
      continue;
    }
    const placement = (item.action.kind === "run" && left.next().value) || QUEUED;
    const action = applyPlacement(item.action, placement);
    const receipt = toReceipt(action, placement.state);
    planned.receipts.push(receipt);
    planned.actions.push(action);
    if (name === undefined || !item.key) continue;
    known.set(name, { receipt, eventId: id });
    planned.entries.push({
      ...item.key,
      expiresAt: now + snapshot.config.hooks.dedupe.ttl,
      item: receipt,
    });
  }
  return planned;
}

/** Earlier events that a reason names at most. */
const MAX_NAMED = 3;

type WorkResolution = Extract<Resolution, { kind: "work" }>;

function toWorkEvent(
  hook: ReceivedHook,
  { items, mapping, would }: WorkResolution,
  { actions, earlier }: Planned,
): EventRecord {
  const event = toEvent(hook, actions.length > 0 ? "accepted" : "duplicate", actions);
  if (mapping !== undefined) event.mapping = mapping;
  if (would) event.would = would;
  const missing = items.flatMap((item) => (item.ok ? item.missing : []));
  if (missing.length > 0) event.missing = [...new Set(missing)];
  const failed = renderFailedItems(items);
  if (failed !== undefined) {
    event.reason = failed;
    event.failedActions = items.filter((item) => !item.ok).length;
  } else if (event.outcome === "duplicate")
    event.reason = renderRepeat(
      [...earlier].slice(0, MAX_NAMED),
      "its actions have the same `dedupeKey`",
      hook.snapshot.config.hooks.dedupe.ttl,
      hook,
    );
  return event;
}

/** The maximum of further attempts if simultaneous events bind the same key or close the same batch. */
const MAX_LOOKS = 4;

/** Admits the new actions of an event and stores the event with them in one durable commit. */
async function admitAndRecord(
  deps: IntakeDeps,
  hook: ReceivedHook,
  work: WorkResolution,
  looks: number,
): Promise<IntakeReceipt> {
  const { items, list, mapping } = work;
  const warnings = [...(hook.warnings ?? []), ...(work.warnings ?? [])];
  const key = hook.eventKey;
  const known = items.some((item) => item.ok && item.key)
    ? await knownKeys(deps, items)
    : new Map<string, DoneAction>();
  const runs = freshItems(items, known).flatMap(({ action, batch }) =>
    action.kind === "run" ? [{ action, ...(batch && { batch }) }] : [],
  );
  const admitted = runs.length > 0 ? await deps.admission.admit(runs, hook.now) : NO_RUNS;
  if (!admitted.ok) {
    const refused: Resolution = { kind: "refused", outcome: "rejected", failure: admitted.failure };
    return recordResolved(deps, hook, mapping === undefined ? refused : { ...refused, mapping });
  }
  const planned = planItems(hook, items, known, admitted.placements);
  const { receipts, actions, entries } = planned;
  const event = toWorkEvent(hook, work, planned);
  const acceptance = {
    outcome: actions.length > 0 ? ("accepted" as const) : ("duplicate" as const),
    actions: receipts,
    list,
    ...(warnings.length > 0 && { warnings }),
  };
  const keys = key ? [toEntry(hook, key, acceptance), ...entries] : entries;
  const accepted = await commit(deps, hook, event, keys).catch((error: unknown) => {
    admitted.settle(false);
    throw error;
  });
  admitted.settle(accepted.kind === "accepted");
  if (accepted.kind === "accepted") {
    const receipt: IntakeReceipt = { kind: "receipt", eventId: hook.id, ...acceptance };
    if (mapping !== undefined) receipt.mapping = mapping;
    if (event.reason !== undefined) receipt.reason = event.reason;
    return receipt;
  }
  if (looks >= MAX_LOOKS) throw new Error("duplicate keys or windows kept changing");
  // The batch has closed meanwhile. The next attempt opens a new one.
  if (accepted.kind === "closed") return admitAndRecord(deps, hook, work, looks + 1);
  const { record } = accepted;
  if (key && record.scope === key.scope && record.key === key.key)
    return recordDuplicate(deps, hook, key, record);
  return admitAndRecord(deps, hook, work, looks + 1);
}

/** Stores the outcome of a hook, with its work, in one durable commit. */
export function record(hook: ReceivedHook, deps: IntakeDeps): Promise<IntakeReceipt> {
  const resolution = hook.resolution as Resolution;
  return resolution.kind === "work"
    ? admitAndRecord(deps, hook, resolution, 0)
    : recordResolved(deps, hook, resolution);
}

const MAX_KEY = 256;

const KEY_LENGTH: Failure = {
  code: "invalid_body",
  message: `Idempotency-Key: use 1 to ${MAX_KEY} characters`,
  issues: [{ path: "idempotencyKey", message: `use 1 to ${MAX_KEY} characters` }],
};

/** Returns the duplicate key that a body names. A value of another type is ignored. */
function bodyKey(payload: unknown): string | undefined {
  if (typeof payload !== "object" || payload === null || !Object.hasOwn(payload, "idempotencyKey"))
    return undefined;
  const { idempotencyKey } = payload as { idempotencyKey?: unknown };
  return typeof idempotencyKey === "string" ? idempotencyKey : undefined;
}

/**
 * Returns the key that identifies a repeat before the hook is resolved: the sender's key if it is signed, else the caller's.
 * Null if the caller's key is empty or too long.
 */
function getEventKey({
  path,
  credential,
  signedKey,
  input,
  payload,
  bytes,
}: ReceivedHook): EventKey | null | undefined {
  const scope = `${path}|${credential}`;
  if (signedKey) return { scope, ...signedKey };
  const key = input.headers["idempotency-key"] ?? bodyKey(payload);
  if (key === undefined) return undefined;
  if (key.length === 0 || key.length > MAX_KEY) return null;
  return { by: "caller", scope, key, bodyHash: sha256Hex(bytes) };
}

/** Answers a repeated hook with the answer of the first one. */
export function deduplicate(
  hook: ReceivedHook,
  deps: IntakeDeps,
): StageResult | Promise<StageResult> {
  const key = getEventKey(hook);
  if (key === null) return { kind: "rejected", error: KEY_LENGTH };
  if (!key) return undefined;
  hook.eventKey = key;
  return deps.store
    .findDuplicates([key])
    .then(([known]) => known && recordDuplicate(deps, hook, key, known));
}
