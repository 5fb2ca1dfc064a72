import type { Admission, Placement } from "../actions/types.ts";
import { getStatus, type Failure } from "../core/errors.ts";
import type { ActionReceipt, DedupeEntry, DedupeRecord, EventRecord, Store, StoredAction, StoredReceipt } from "../store/types.ts";
import type { EventKey, Item, ReceivedHook, Receipt, Resolution } from "./types.ts";

export interface RecordDeps {
  store: Pick<Store, "accept" | "findDuplicates">;
  /** Takes room for what an event brings, or says that there is none. */
  admit: Admission["admit"];
  /** Restarts the failed runs of an earlier event, and retries its failed deliveries. */
  retryFailed(record: DedupeRecord): Promise<void>;
}

function toEvent(hook: ReceivedHook, outcome: Receipt["outcome"], actions: StoredAction[]): EventRecord {
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
  if (origin.kind === "replay") event.replayOf = origin.of;
  if (hook.debug) event.debug = hook.debug;
  return event;
}

function commit(
  { store }: Pick<RecordDeps, "store">,
  hook: ReceivedHook,
  event: EventRecord,
  keys: readonly DedupeEntry[],
): ReturnType<Store["accept"]> {
  return store.accept(event, keys, hook.origin.kind === "source" ? hook.origin.fence : undefined);
}

/** What becomes of an event that brings no work. */
type WithoutWork = Pick<Receipt, "outcome" | "reason" | "mapping" | "nearest" | "error" | "acknowledged" | "quiet" | "repeats"> &
  Pick<EventRecord, "missing" | "would">;

/** Keeps an event that brings no work: skipped, unmatched, rejected, failed, duplicate. */
async function recordWithoutWork(
  deps: Pick<RecordDeps, "store">,
  hook: ReceivedHook,
  what: WithoutWork,
  keys: readonly DedupeEntry[] = [],
): Promise<Receipt> {
  const { missing, would, ...told } = what;
  const event = toEvent(hook, what.outcome, []);
  const { reason, mapping, nearest, error } = what;
  if (error && !what.acknowledged) event.status = getStatus(error.code);
  if (what.repeats) event.duplicateOf = what.repeats.eventId;
  for (const [name, value] of Object.entries({ reason, mapping, missing, nearest, would }))
    if (value !== undefined) Object.assign(event, { [name]: value });
  await commit(deps, hook, event, keys);
  return { kind: "receipt", eventId: hook.id, actions: [], ...told };
}

/** Records an invalid hook. It binds no duplicate key: a repeat is evaluated again. */
export function rejectInvalid(deps: Pick<RecordDeps, "store">, hook: ReceivedHook, error: Failure): Promise<Receipt> {
  return recordWithoutWork(deps, hook, { outcome: "rejected", reason: error.message, error });
}

/** Records a repeat, which gets the answer of the first event. If the caller chose the key and the body differs, it is a conflict. */
export async function recordDuplicate(deps: RecordDeps, hook: ReceivedHook, key: EventKey, record: DedupeRecord): Promise<Receipt> {
  const { eventId, receipt, answer } = record;
  if (record.bodyHash !== undefined && key.bodyHash !== undefined && record.bodyHash !== key.bodyHash) {
    const message = "this idempotency key came with another body before; use a new key for new work";
    const error: Failure = { code: "idempotency_conflict", message };
    return recordWithoutWork(deps, hook, { outcome: "rejected", reason: message, error, repeats: { eventId } });
  }
  await deps.retryFailed(record);
  const repeats = { eventId, ...(receipt ? { receipt } : {}), ...(answer ? { answer } : {}) };
  return recordWithoutWork(deps, hook, { outcome: "duplicate", reason: "same key as an earlier event", repeats });
}

function toEntry({ now, snapshot }: ReceivedHook, { minKeepMs = 0, ...key }: EventKey, receipt: StoredReceipt): DedupeEntry {
  return { ...key, expiresAt: now + Math.max(snapshot.config.hooks.dedupe.ttl, minKeepMs), receipt };
}

/** Keeps an event without work together with its key, or an event that a mapping could make no work of: that binds no key. */
function recordResolved(deps: RecordDeps, hook: ReceivedHook, resolution: Exclude<Resolution, { kind: "work" }>): Promise<Receipt> {
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
      const { kind: outcome, echo, ...details } = resolution;
      // In shadow, and of its own echo, the sender is told; nothing to do at all is no news.
      const quiet = !details.would && !echo;
      const receipt: StoredReceipt = { outcome, actions: [], reason: details.reason, quiet };
      const keys = hook.eventKey ? [toEntry(hook, hook.eventKey, receipt)] : [];
      return recordWithoutWork(deps, hook, { outcome, quiet, ...details }, keys);
    }
  }
}

type Good = Extract<Item, { ok: true }>;

const nameOf = ({ key }: Good): string | undefined => key && `${key.scope}\n${key.key}`;

/** The receipts of actions whose keys are bound already, by name. */
async function knownKeys(deps: RecordDeps, items: readonly Item[]): Promise<Map<string, ActionReceipt>> {
  const keyed = items.flatMap((item) => (item.ok && item.key ? [item.key] : []));
  const known = new Map<string, ActionReceipt>();
  for (const record of await deps.store.findDuplicates(keyed)) {
    if (!record) continue;
    known.set(`${record.scope}\n${record.key}`, (record.item ?? { ok: true }) as ActionReceipt);
    // What failed for good is not done: it starts again, under the id that is answered.
    await deps.retryFailed(record);
  }
  return known;
}

/** The items that are new work: no key of theirs is bound, and none came before in the same event. */
function freshItems(items: readonly Item[], known: ReadonlyMap<string, ActionReceipt>): Good[] {
  const seen = new Set<string>();
  const fresh: Good[] = [];
  for (const item of items) {
    const name = item.ok ? nameOf(item) : undefined;
    if (!item.ok || (name !== undefined && (known.has(name) || seen.has(name)))) continue;
    if (name !== undefined) seen.add(name);
    fresh.push(item);
  }
  return fresh;
}

/** The action as it is kept, once it is known where it goes. */
function place(action: StoredAction, placement: Placement): StoredAction {
  if (action.kind !== "run" || placement.state === "queued") return action;
  if (placement.state === "parked") return { ...action, parked: placement.parked };
  return { ...action, runId: placement.runId, collect: placement.collect };
}

/** What a caller is told of an accepted action. */
export function toReceipt(action: StoredAction, state: Placement["state"]): ActionReceipt {
  const receipt: ActionReceipt = { ok: true };
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
  receipts: ActionReceipt[];
  actions: StoredAction[];
  entries: DedupeEntry[];
}

/** What is kept and told, item by item. `placements` are those of the fresh items, in their order. */
function planItems(
  { now, snapshot }: ReceivedHook,
  items: readonly Item[],
  found: ReadonlyMap<string, ActionReceipt>,
  placements: readonly Placement[],
): Planned {
  const known = new Map(found);
  const planned: Planned = { receipts: [], actions: [], entries: [] };
  for (const item of items) {
    if (!item.ok) {
      planned.receipts.push({ ok: false, error: item.failure });
      continue;
    }
    const name = nameOf(item);
    const before = name === undefined ? undefined : known.get(name);
    if (before) {
      planned.receipts.push({ ...before, duplicate: true } as ActionReceipt);
      continue;
    }
    const placement = placements[planned.actions.length] as Placement;
    const action = place(item.action, placement);
    const receipt = toReceipt(action, placement.state);
    planned.receipts.push(receipt);
    planned.actions.push(action);
    if (name === undefined || !item.key) continue;
    known.set(name, receipt);
    planned.entries.push({ ...item.key, expiresAt: now + snapshot.config.hooks.dedupe.ttl, item: receipt });
  }
  return planned;
}

type Work = Extract<Resolution, { kind: "work" }>;

function toWorkEvent(hook: ReceivedHook, { items, mapping, would }: Work, actions: StoredAction[]): EventRecord {
  const event = toEvent(hook, actions.length > 0 ? "accepted" : "duplicate", actions);
  if (mapping !== undefined) event.mapping = mapping;
  if (would) event.would = would;
  const missing = items.flatMap((item) => (item.ok ? item.missing : []));
  if (missing.length > 0) event.missing = [...new Set(missing)];
  if (event.outcome === "duplicate") event.reason = "every action of it was done before";
  return event;
}

/** Two that arrive at the same moment with the same key: the one that comes second looks again. */
const MAX_LOOKS = 4;

/** Admits the new actions of an event and keeps it with them, in one durable commit. */
async function admitAndRecord(deps: RecordDeps, hook: ReceivedHook, work: Work, looks: number): Promise<Receipt> {
  const { items, list, mapping, warnings } = work;
  const key = hook.eventKey;
  const known = items.some((item) => item.ok && item.key) ? await knownKeys(deps, items) : new Map<string, ActionReceipt>();
  const asked = deps.admit(freshItems(items, known), hook.now);
  const admitted = asked instanceof Promise ? await asked : asked;
  if (!admitted.ok) {
    const refused: Resolution = { kind: "refused", outcome: "rejected", failure: admitted.failure };
    return recordResolved(deps, hook, mapping === undefined ? refused : { ...refused, mapping });
  }
  const { receipts, actions, entries } = planItems(hook, items, known, admitted.placements);
  const event = toWorkEvent(hook, work, actions);
  const told = {
    outcome: actions.length > 0 ? ("accepted" as const) : ("duplicate" as const),
    actions: receipts,
    list,
    ...(warnings && { warnings }),
  };
  const keys = key ? [toEntry(hook, key, told), ...entries] : entries;
  const accepted = await commit(deps, hook, event, keys).catch((error: unknown) => {
    admitted.settle(false);
    throw error;
  });
  admitted.settle(accepted.kind === "accepted");
  if (accepted.kind === "accepted") {
    const receipt: Receipt = { kind: "receipt", eventId: hook.id, ...told };
    if (mapping !== undefined) receipt.mapping = mapping;
    if (event.reason !== undefined) receipt.reason = event.reason;
    return receipt;
  }
  if (looks >= MAX_LOOKS) throw new Error("duplicate keys or windows kept changing");
  // A window that has closed meanwhile: the action opens the next one.
  if (accepted.kind === "closed") return admitAndRecord(deps, hook, work, looks + 1);
  const { record } = accepted;
  if (key && record.scope === key.scope && record.key === key.key) return recordDuplicate(deps, hook, key, record);
  return admitAndRecord(deps, hook, work, looks + 1);
}

/** Keeps the outcome of a hook, with its work, in one durable commit. */
export function record(hook: ReceivedHook, deps: RecordDeps): Promise<Receipt> {
  const resolution = hook.resolution as Resolution;
  return resolution.kind === "work" ? admitAndRecord(deps, hook, resolution, 0) : recordResolved(deps, hook, resolution);
}
