import type { Failure } from "../../core/errors.ts";
import type { EventOutcome, EventRecord, Lists, Store } from "../../store/types.ts";
import { asFailure, given, readAll } from "./operation.ts";
import { runStatuses } from "./records.ts";
import type { ReplayResult } from "../../intake/types.ts";
import type { AdminDeps } from "../types.ts";

/** The lines of a bulk replay, in this order: one `total`, a `result` for each event, one `end`. */
export type ReplayLine =
  | { type: "total"; total: number; dryRun: boolean }
  | { type: "result"; ok: true; result: ReplayResult }
  | { type: "result"; ok: false; eventId: string; failure: Failure }
  | { type: "end"; replayed: number; failed: number };

export interface BulkReplay {
  /** Only of these, without filters. One that is not there, or was replayed before, has a result that is not ok. */
  ids?: readonly string[] | undefined;
  /** `all`: those that the filters leave, as if they were received again, with their runs. */
  select: "failed" | "unmatched" | "all";
  path?: string | undefined;
  mapping?: string | undefined;
  /** With `all`: only events of this outcome. */
  outcome?: EventOutcome | undefined;
  /** Milliseconds since the epoch. */
  since?: number | undefined;
  /** Only events before this time: milliseconds since the epoch. */
  until?: number | undefined;
  /** At most so many, the newest. */
  limit?: number | undefined;
  /** At most so many a second. Default: one after the other without a pause. */
  perSecond?: number | undefined;
  dryRun: boolean;
}

/** Events hold their bodies: pages are small. */
const PAGE = 100;

/** Yields all events that a query finds, read in pages. */
export const newestFirst = (
  store: Pick<Store, "list">,
  query: Omit<Lists["events"]["of"], "limit" | "before">,
  page = PAGE,
): AsyncGenerator<EventRecord> => readAll(store, "events", query, page);

/** Finds the events since a time that were replayed, each with its newest replay. */
async function findReplays(
  store: Pick<Store, "list">,
  since: number,
): Promise<Map<string, string>> {
  const replays = new Map<string, string>();
  for await (const { id, replayOf } of newestFirst(store, { since }))
    if (replayOf !== undefined && !replays.has(replayOf)) replays.set(replayOf, id);
  return replays;
}

/**
 * The ids that a bulk replay means, oldest first, so that turns of one session keep their order.
 * An event that was replayed before stands back for its replay: doing it twice never makes work twice.
 */
export async function selectEvents(
  store: Pick<Store, "list">,
  bulk: BulkReplay,
): Promise<Chosen[]> {
  const { select, path, mapping, outcome, since, until = Infinity, limit = Infinity } = bulk;
  const base = given({ path, mapping, since });
  const found: Chosen[] = [];
  const filters = {
    unmatched: [{ outcome: "unmatched" as const }],
    failed: [{ outcome: "failed" as const }, { failedRuns: true }],
    all: [given({ outcome })],
  };
  for (const filter of filters[select]) {
    const newest: Chosen[] = [];
    for await (const event of newestFirst(store, { ...base, ...filter }))
      if (event.receivedAt < until && (select === "all" || !event.handled))
        newest.push(chosen(event, select === "all"));
    found.push(...newest.toReversed());
  }
  if (found.length === 0) return [];
  // Stable: what came in the same millisecond keeps the order of its listing.
  found.sort((a, b) => a.at - b.at);
  const replayed = await findReplays(store, (found[0] as Chosen).at);
  const left = found.filter(({ id }) => !replayed.has(id));
  return left.slice(Math.max(0, left.length - limit));
}

interface Chosen {
  id: string;
  at: number;
  /** Its failed runs start again; the event is not taken in again. */
  restartsRuns: boolean;
  /** Why it cannot be replayed. */
  failure?: Failure;
}

const chosen = (event: EventRecord, isWhole: boolean): Chosen => ({
  id: event.id,
  at: event.receivedAt,
  restartsRuns: !isWhole && event.outcome === "accepted",
});

/** Whether an event that is named is one of those that a bulk replay selects. */
async function isSelected(
  event: EventRecord,
  select: BulkReplay["select"],
  store: Store,
): Promise<boolean> {
  if (select === "all") return true;
  if (event.handled) return false;
  if (select === "unmatched" || event.outcome !== "accepted") return event.outcome === select;
  return [...(await runStatuses(store, event)).values()].some(
    (status) => status === "failed" || status === "timed_out",
  );
}

/** The same of events that are named, also of those that only a bookmark keeps. What is not there comes last. */
async function selectNamed(
  { store, bookmarks }: AdminDeps,
  ids: readonly string[],
  select: BulkReplay["select"],
): Promise<Chosen[]> {
  const found: Chosen[] = [];
  const missing: Chosen[] = [];
  for (const id of new Set(ids)) {
    const event = await bookmarks.getEvent(id);
    if (!event) missing.push({ id, at: Infinity, restartsRuns: false, failure: NO_EVENT });
    else if (await isSelected(event, select, store)) found.push(chosen(event, select === "all"));
  }
  if (found.length === 0) return missing;
  // Ids have the order in which the events came in.
  found.sort((a, b) => a.at - b.at || (a.id < b.id ? -1 : 1));
  const replays = await findReplays(store, (found[0] as Chosen).at);
  const marked = found.map((one): Chosen => {
    const replay = replays.get(one.id);
    if (replay === undefined) return one;
    return {
      ...one,
      failure: {
        code: "not_retryable",
        message: `it was replayed before, as ${replay}; replay it alone to do so again`,
      },
    };
  });
  return [...marked, ...missing];
}

const NO_EVENT: Failure = { code: "not_found", message: "there is no event with this id" };

type Replayed = { ok: true; result: ReplayResult } | { ok: false; failure: Failure };

/** Starts the failed runs of an accepted event again; those that succeeded are not done twice. */
async function restartRuns(deps: AdminDeps, eventId: string, dryRun: boolean): Promise<Replayed> {
  const runs = await deps.store.list("runs", { eventId, limit: 1000 });
  const result: ReplayResult = { eventId, outcome: "accepted", actions: [] };
  for (const run of runs.toReversed()) {
    if (run.status !== "failed" && run.status !== "timed_out") continue;
    const retried = dryRun ? undefined : await deps.runs.retry(run.id);
    if (retried && !retried.ok) return retried;
    const mapping = run.mapping === undefined ? {} : { mapping: run.mapping };
    result.actions.push({
      kind: "run",
      id: run.id,
      ...mapping,
      summary: `the failed run of "${run.spec.name}" starts again`,
    });
  }
  return { ok: true, result };
}

async function replayOne(
  deps: AdminDeps,
  { id, restartsRuns, failure }: Chosen,
  dryRun: boolean,
): Promise<Replayed> {
  if (failure) return { ok: false, failure };
  if (restartsRuns) return restartRuns(deps, id, dryRun);
  const recorded = await deps.bookmarks.getEvent(id);
  return deps.replay(id, { dryRun, ...(recorded && { recorded }) });
}

/**
 * Replays all events that failed, matched no mapping, that filters leave, or that are named, one after the other: events without
 * work as if they were received again, failed runs under their own id. Yields the result of each event; ends early when the
 * caller stops reading.
 */
export async function* replayMany(deps: AdminDeps, bulk: BulkReplay): AsyncGenerator<ReplayLine> {
  const events = await (bulk.ids
    ? selectNamed(deps, bulk.ids, bulk.select)
    : selectEvents(deps.store, bulk));
  yield { type: "total", total: events.length, dryRun: bulk.dryRun };
  let failed = 0;
  for (const [index, event] of events.entries()) {
    if (index > 0 && bulk.perSecond !== undefined) await deps.clock.sleep(1000 / bulk.perSecond);
    const replayed = await replayOne(deps, event, bulk.dryRun).catch(asFailure);
    if (!replayed.ok) failed++;
    yield replayed.ok
      ? { type: "result", ok: true, result: replayed.result }
      : { type: "result", ok: false, eventId: event.id, failure: replayed.failure };
  }
  yield { type: "end", replayed: events.length - failed, failed };
}
