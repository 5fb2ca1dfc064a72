import type { Failure } from "../../core/errors.ts";
import type { ReplayResult } from "../../intake/types.ts";
import { findResendProblem } from "../../delivery/plan.ts";
import { findRetryProblem } from "../../turns/operations.ts";
import { unknownId } from "../../vocabulary/unknown-id.ts";
import {
  deliveryState,
  hasFailed,
  NO_ROUTE,
  type DeliveryRecord,
  type EventOutcome,
  type EventRecord,
  type RunRecord,
  type Reads,
  type Store,
} from "../../store/types.ts";
import type { AdminDeps } from "../types.ts";
import { asFailure, given, readAll } from "./operation.ts";
import { hasFailedRun, replayOne } from "./records.ts";

/** The fields of every replay and retry of many. Times are milliseconds since the epoch. */
interface Bulk {
  /** These and no others; then there are no filters. */
  ids?: readonly string[] | undefined;
  since?: number | undefined;
  until?: number | undefined;
  /** At most so many, the newest. */
  limit?: number | undefined;
  /** At most so many a second. Default: one after the other without a pause. */
  perSecond?: number | undefined;
  dryRun: boolean;
}

/** The last so many. Stable: what came in the same millisecond keeps the order of its listing. */
function oldestFirst<T extends { at: number }>(rows: readonly T[], limit = Infinity): T[] {
  const sorted = rows.toSorted((a, b) => a.at - b.at);
  return sorted.slice(Math.max(0, sorted.length - limit));
}

/**
 * The lines of a replay or a retry of many, in this order: one `total`, a `result` for each, one `end`. A dry run has the same
 * lines: it says what would be done.
 */
export type BulkLine =
  /** `skipped`: runs that the filters leave and that cannot be retried, since no hook has started them. */
  | { type: "total"; total: number; skipped: number; dryRun: boolean }
  /** `status`: of the run or the delivery, or the outcome of an event. `summary`: what is done, in words. `result`: of a replay. */
  | ({ type: "result"; id: string; ok: true } & Done)
  | { type: "result"; id: string; ok: false; failure: Failure }
  | { type: "end"; done: number; failed: number };

interface Done {
  status: string;
  summary: string;
  result?: ReplayResult;
}
type Outcome = ({ ok: true } & Done) | { ok: false; failure: Failure };

/** One of those that are meant. */
interface Chosen {
  id: string;
  at: number;
  /** The reason that nothing can be done about it. */
  failure?: Failure;
}

/**
 * Does the work for each, one after the other, and at most so many a second: the oldest first, so that the turns of a session and
 * the messages to a recipient keep their order.
 */
async function* doEach<T extends Chosen>(
  { clock }: AdminDeps,
  { perSecond, dryRun }: Bulk,
  { chosen, skipped }: { chosen: readonly T[]; skipped: number },
  work: (one: T) => Promise<Outcome>,
): AsyncGenerator<BulkLine> {
  yield { type: "total", total: chosen.length, skipped, dryRun };
  let failed = 0;
  for (const [index, one] of chosen.entries()) {
    if (index > 0 && perSecond !== undefined && !dryRun) await clock.sleep(1000 / perSecond);
    const { id, failure } = one;
    const outcome = failure ? { ok: false as const, failure } : await work(one).catch(asFailure);
    if (!outcome.ok) failed++;
    yield { type: "result", id, ...outcome };
  }
  yield { type: "end", done: chosen.length - failed, failed };
}

interface BulkReplay extends Bulk {
  /** `all`: those that the filters leave, as if they were received again, with their runs. */
  select: "failed" | "unmatched" | "all";
  path?: string | undefined;
  mapping?: string | undefined;
  /** With `all`: only events of this outcome. */
  outcome?: EventOutcome | undefined;
}

/** Events hold their bodies: pages are small. */
const EVENT_PAGE = 100;

/** Finds the events since a time that were replayed, each with its newest replay. */
async function findReplays(store: Reads, since: number): Promise<Map<string, string>> {
  const replays = new Map<string, string>();
  for await (const { id, replayOf } of readAll(store, "events", { since }, EVENT_PAGE))
    if (replayOf !== undefined && !replays.has(replayOf)) replays.set(replayOf, id);
  return replays;
}

interface ChosenEvent extends Chosen {
  /** Its failed runs start again; the event is not taken in again. */
  restartsRuns: boolean;
}

const toChosen = (
  { id, receivedAt: at, outcome }: EventRecord,
  select: BulkReplay["select"],
): ChosenEvent => ({ id, at, restartsRuns: select !== "all" && outcome === "accepted" });

const isPartlyFailed = (event: EventRecord): boolean =>
  event.outcome !== "failed" && hasFailed(event) && !event.handled;

/** An event of which some actions failed: the mappings would do the successful actions again. */
const toLeftOut = ({ id, receivedAt: at, reason }: EventRecord): ChosenEvent => ({
  id,
  at,
  restartsRuns: false,
  failure: {
    code: "not_retryable",
    message: `${reason}; all other actions are done: replay each failed one alone, by \`rouse events replay ${id} --action <n>\``,
  },
});

/**
 * Chooses events by filters. An event that was replayed before stands back for its replay: doing it twice never makes work
 * twice.
 */
async function selectEvents(
  store: Reads,
  { select, path, mapping, outcome, since, until = Infinity, limit }: BulkReplay,
): Promise<ChosenEvent[]> {
  const base = given({ path, mapping, since });
  const found: ChosenEvent[] = [];
  const filters = {
    unmatched: [{ outcome: "unmatched" as const }],
    failed: [{ outcome: "failed" as const }, { failedRuns: true }],
    all: [given({ outcome })],
  };
  for (const filter of filters[select]) {
    const newest: ChosenEvent[] = [];
    for await (const event of readAll(store, "events", { ...base, ...filter }, EVENT_PAGE))
      if (event.receivedAt < until && (select === "all" || !event.handled))
        newest.push(toChosen(event, select));
    found.push(...newest.toReversed());
  }
  if (select === "failed")
    for await (const event of readAll(store, "events", { ...base, partlyFailed: true }, EVENT_PAGE))
      if (event.receivedAt < until && isPartlyFailed(event)) found.push(toLeftOut(event));
  const sorted = oldestFirst(found);
  const [oldest] = sorted;
  if (!oldest) return [];
  const replayed = await findReplays(store, oldest.at);
  return oldestFirst(
    sorted.filter(({ id }) => !replayed.has(id)),
    limit,
  );
}

/** Returns whether an event that is named is one of those that a bulk replay selects. */
async function isSelected(
  event: EventRecord,
  select: BulkReplay["select"],
  store: Store,
): Promise<boolean> {
  if (select === "all") return true;
  if (event.handled) return false;
  if (select === "unmatched" || event.outcome !== "accepted") return event.outcome === select;
  return hasFailedRun(store, event);
}

/** The same of events that are named. What is not there comes last. */
async function selectNamed(
  store: Store,
  ids: readonly string[],
  select: BulkReplay["select"],
): Promise<ChosenEvent[]> {
  const found: ChosenEvent[] = [];
  const missing: ChosenEvent[] = [];
  for (const id of new Set(ids)) {
    const event = await store.events.get(id);
    if (!event)
      missing.push({ id, at: Infinity, restartsRuns: false, failure: unknownId("event", id) });
    else {
      if (await isSelected(event, select, store)) found.push(toChosen(event, select));
      if (select === "failed" && isPartlyFailed(event)) found.push(toLeftOut(event));
    }
  }
  // Ids have the order in which the events came in.
  found.sort((a, b) => a.at - b.at || (a.id < b.id ? -1 : 1));
  const [oldest] = found;
  if (!oldest) return missing;
  const replays = await findReplays(store, oldest.at);
  for (const one of found) {
    const replay = replays.get(one.id);
    if (replay === undefined) continue;
    const message = `it was replayed before, as ${replay}; replay it alone to do so again`;
    one.failure = { code: "not_retryable", message };
  }
  return [...found, ...missing];
}

/** Renders the result of a replay, or of its preview. */
function toDone(result: ReplayResult): { ok: true } & Done {
  const { outcome, mapping, reason, actions, newEventId } = result;
  const parts = [mapping, reason, ...actions.map(({ summary }) => summary)];
  if (newEventId !== undefined) parts.push(`the new event is ${newEventId}`);
  return { ok: true, status: outcome, summary: parts.filter(Boolean).join("; "), result };
}

/** Starts the failed runs of an accepted event again; those that succeeded are not done twice. */
async function restartRuns(deps: AdminDeps, eventId: string, dryRun: boolean): Promise<Outcome> {
  const runs = await deps.store.runs.list({ eventId, limit: 1000 });
  const result: ReplayResult = { eventId, outcome: "accepted", actions: [] };
  for (const run of runs.toReversed()) {
    if (run.status !== "failed" && run.status !== "timed_out") continue;
    const retried = dryRun ? undefined : await deps.runs.retry(run.id);
    if (retried && !retried.ok) return retried;
    const mapping = run.mapping === undefined ? {} : { mapping: run.mapping };
    const summary = `the failed run of "${run.spec.name}" starts again`;
    result.actions.push({ kind: "run", id: run.id, ...mapping, summary });
  }
  return toDone(result);
}

async function replayChosen(
  deps: AdminDeps,
  { id, restartsRuns }: ChosenEvent,
  dryRun: boolean,
): Promise<Outcome> {
  if (restartsRuns) return restartRuns(deps, id, dryRun);
  const replayed = await replayOne(deps, id, { dryRun });
  return replayed.ok ? toDone(replayed.result) : replayed;
}

/**
 * Replays all events that failed, matched no mapping, that filters leave, or that are named, one after the other: events without
 * work as if they were received again, failed runs under their own id. Ends early when the caller stops reading.
 */
export async function* replayMany(deps: AdminDeps, bulk: BulkReplay): AsyncGenerator<BulkLine> {
  const { ids, select, dryRun } = bulk;
  const chosen = await (ids
    ? selectNamed(deps.store, ids, select)
    : selectEvents(deps.store, bulk));
  yield* doEach(deps, bulk, { chosen, skipped: 0 }, (event) => replayChosen(deps, event, dryRun));
}

/** States that a retry of many may choose. */
export const RETRIED_RUNS = ["failed", "timed_out", "cancelled"] as const;
export const RETRIED_DELIVERIES = ["failed", "no_route", "unknown"] as const;

interface BulkRunRetry extends Bulk {
  /** Default: those that failed, and those that took too long. */
  status?: (typeof RETRIED_RUNS)[number] | undefined;
  sessionKey?: string | undefined;
  eventId?: string | undefined;
  mapping?: string | undefined;
  endedSince?: number | undefined;
  endedUntil?: number | undefined;
}

interface BulkDeliveryRetry extends Bulk {
  /** Default: those that failed, also for want of a route. Those of an unknown outcome may have arrived: they have to be asked for. */
  status?: (typeof RETRIED_DELIVERIES)[number] | undefined;
  channel?: string | undefined;
}

const PAGE = 200;

/** The way in which records of one kind are retried. */
interface Retried<Row> {
  noun: "run" | "delivery";
  /** The rows that filters leave, the newest first. */
  list: AsyncIterable<Row>;
  get(id: string): Promise<Row | undefined>;
  /** Returns why a row cannot be retried; undefined if it can. */
  findProblem(row: Row): Failure | undefined;
  toStatus(row: Row): string;
  /** Retries a row, and returns it as it is then. */
  retry(id: string): Promise<{ ok: true; row: Row } | { ok: false; failure: Failure }>;
  /** Says what the retry of a row does. */
  describe(row: Row): string | Promise<string>;
}

/** Retries rows, the oldest first, each under its own id. */
async function* retryEach<Row extends { id: string; createdAt: number; status: string }>(
  deps: AdminDeps,
  bulk: Bulk,
  { noun, list, get, findProblem, toStatus, retry, describe }: Retried<Row>,
): AsyncGenerator<BulkLine> {
  const { ids, until = Infinity, limit, dryRun } = bulk;
  const named = ids?.map((id): Chosen => ({ id, at: 0 }));
  const found: Chosen[] = [];
  let skipped = 0;
  for await (const row of named ? [] : list) {
    if (row.createdAt >= until) continue;
    if (findProblem(row)) skipped++;
    else found.push({ id: row.id, at: row.createdAt });
  }
  const chosen = named ?? oldestFirst(found.toReversed(), limit);
  yield* doEach(deps, bulk, { chosen, skipped }, async ({ id }) => {
    const row = await get(id);
    const failure = row ? findProblem(row) : unknownId(noun, id);
    if (!row || failure) return { ok: false, failure: failure ?? unknownId(noun, id) };
    if (dryRun) return { ok: true, status: toStatus(row), summary: await describe(row) };
    const retried = await retry(id);
    if (!retried.ok) return retried;
    // A delivery that had no route has one now; that its first message may have arrived, only its status before says.
    const summary = await describe({ ...retried.row, status: row.status });
    return { ok: true, status: toStatus(retried.row), summary };
  });
}

/**
 * Starts all runs again that the filters leave; with `dryRun` it only says what that would do. It ends early when the caller
 * stops reading.
 */
export function retryRuns(deps: AdminDeps, bulk: BulkRunRetry): AsyncGenerator<BulkLine> {
  const { store, runs } = deps;
  const { status, mapping, sessionKey, eventId, since, endedSince, endedUntil } = bulk;
  const filters = given({ sessionKey, eventId, since, endedSince, endedUntil });
  async function* list(): AsyncGenerator<RunRecord> {
    for (const one of status === undefined ? (["failed", "timed_out"] as const) : [status])
      for await (const run of readAll(store, "runs", { ...filters, status: one }, PAGE))
        if (mapping === undefined || run.mapping === mapping) yield run;
  }
  return retryEach<RunRecord>(deps, bulk, {
    noun: "run",
    list: list(),
    get: (id) => store.runs.get(id),
    findProblem: findRetryProblem,
    toStatus: (run) => run.status,
    async retry(id) {
      const retried = await runs.retry(id);
      return retried.ok ? { ok: true, row: retried.run } : retried;
    },
    async describe({ id, spec }) {
      const steps = (await store.steps.list(id)).length;
      const from = steps === 0 ? "from its beginning" : `after its step ${steps}`;
      return `"${spec.name}" starts again ${from}, in the session ${spec.session.key}`;
    },
  });
}

function describeDelivery(delivery: DeliveryRecord): string {
  const { route, chunks, nextChunk, status } = delivery;
  if (deliveryState(delivery) === NO_ROUTE)
    return `looks for a route again: ${delivery.error?.message ?? "there was none"}`;
  const left = chunks.length - nextChunk;
  const what = left === 1 ? "one message" : `${left} messages`;
  const again = status === "unknown" ? "; the first of them may have arrived already" : "";
  return `sends ${what} to ${route.channel}${route.to === undefined ? "" : ` ${route.to}`}${again}`;
}

/** The same for deliveries: each goes on with the first message that was not sent. */
export function retryDeliveries(
  deps: AdminDeps,
  bulk: BulkDeliveryRetry,
): AsyncGenerator<BulkLine> {
  const { store, deliveries } = deps;
  const { status = "failed", channel, since } = bulk;
  return retryEach<DeliveryRecord>(deps, bulk, {
    noun: "delivery",
    list: readAll(store, "deliveries", given({ status, channel, since }), PAGE),
    get: (id) => store.deliveries.get(id),
    findProblem: findResendProblem,
    toStatus: deliveryState,
    async retry(id) {
      const retried = await deliveries.retry(id);
      return retried.ok ? { ok: true, row: retried.delivery } : retried;
    },
    describe: describeDelivery,
  });
}
