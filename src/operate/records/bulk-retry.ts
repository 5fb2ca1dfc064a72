import type { Failure } from "../../core/errors.ts";
import { findRetryProblem } from "../../runs/retry-on-redelivery.ts";
import { deliveryState, NO_ROUTE, type DeliveryRecord, type RunRecord } from "../../store/types.ts";
import { asFailure, given, readAll } from "./operation.ts";
import type { AdminDeps } from "../types.ts";

/** The lines of a bulk retry, in this order: one `total`, a `result` for each, one `end`. */
export type RetryLine =
  /** `skipped`: runs that the filters leave and that cannot be retried, since no hook has started them. */
  | { type: "total"; total: number; skipped: number; dryRun: boolean }
  /** `summary`: what the retry does, in words. */
  | { type: "result"; ok: true; id: string; status: string; summary: string }
  | { type: "result"; ok: false; id: string; failure: Failure }
  | { type: "end"; retried: number; failed: number };

/** States that a retry of many may choose. */
export const RETRIED_RUNS = ["failed", "timed_out", "cancelled"] as const;
export const RETRIED_DELIVERIES = ["failed", "no_route", "unknown"] as const;

/** What every retry of many has. Times are milliseconds since the epoch. */
interface BulkRetry {
  /** These and no others, in this order; then there are no filters. */
  ids?: readonly string[] | undefined;
  since?: number | undefined;
  until?: number | undefined;
  /** At most so many, the newest. */
  limit?: number | undefined;
  /** At most so many a second. Default: one after the other without a pause. */
  perSecond?: number | undefined;
  dryRun: boolean;
}

export interface BulkRunRetry extends BulkRetry {
  /** Default: those that failed, and those that took too long. */
  status?: (typeof RETRIED_RUNS)[number] | undefined;
  sessionKey?: string | undefined;
  eventId?: string | undefined;
  mapping?: string | undefined;
  endedSince?: number | undefined;
  endedUntil?: number | undefined;
}

export interface BulkDeliveryRetry extends BulkRetry {
  /** Default: those that failed, also for want of a route. Those of an unknown outcome may have arrived: they have to be asked for. */
  status?: (typeof RETRIED_DELIVERIES)[number] | undefined;
  channel?: string | undefined;
}

const PAGE = 200;

interface Chosen {
  ids: readonly string[];
  skipped: number;
}

interface Retried {
  status: string;
  summary: string;
}

type Outcome = ({ ok: true } & Retried) | { ok: false; failure: Failure };

type Row = Pick<RunRecord | DeliveryRecord, "id" | "createdAt">;

/** Oldest first, so that the runs of a session, and the messages to a recipient, keep their order. */
function oldestFirst(newest: Row[], { limit = Infinity }: BulkRetry): string[] {
  // Stable: what was made in the same millisecond keeps the order of its listing.
  const left = newest.toReversed().sort((a, b) => a.createdAt - b.createdAt);
  return left.slice(Math.max(0, left.length - limit)).map(({ id }) => id);
}

async function chooseRuns({ store }: AdminDeps, bulk: BulkRunRetry): Promise<Chosen> {
  if (bulk.ids) return { ids: bulk.ids, skipped: 0 };
  const {
    status,
    sessionKey,
    eventId,
    mapping,
    since,
    until = Infinity,
    endedSince,
    endedUntil,
  } = bulk;
  const found: Row[] = [];
  let skipped = 0;
  for (const state of status === undefined ? (["failed", "timed_out"] as const) : [status])
    for await (const run of readAll(
      store,
      "runs",
      given({ status: state, sessionKey, eventId, since, endedSince, endedUntil }),
      PAGE,
    )) {
      if ((mapping !== undefined && run.mapping !== mapping) || run.createdAt >= until) continue;
      if (findRetryProblem(run)) skipped++;
      else found.push({ id: run.id, createdAt: run.createdAt });
    }
  return { ids: oldestFirst(found, bulk), skipped };
}

async function chooseDeliveries({ store }: AdminDeps, bulk: BulkDeliveryRetry): Promise<Chosen> {
  if (bulk.ids) return { ids: bulk.ids, skipped: 0 };
  const { status = "failed", channel, since, until = Infinity } = bulk;
  const found: Row[] = [];
  for await (const { id, createdAt } of readAll(
    store,
    "deliveries",
    given({ status, channel, since }),
    PAGE,
  ))
    if (createdAt < until) found.push({ id, createdAt });
  return { ids: oldestFirst(found, bulk), skipped: 0 };
}

/** What a retry of this run does. */
async function describeRun({ store }: AdminDeps, { id, spec }: RunRecord): Promise<string> {
  const steps = (await store.list("steps", id)).length;
  const from = steps === 0 ? "from its beginning" : `after its step ${steps}`;
  return `"${spec.name}" starts again ${from}, in the session ${spec.session.key}`;
}

/** What a retry of this delivery does. */
function describeDelivery(delivery: DeliveryRecord): string {
  const { route, chunks, nextChunk, status } = delivery;
  if (deliveryState(delivery) === NO_ROUTE)
    return `looks for a route again: ${delivery.error?.message ?? "there was none"}`;
  const left = chunks.length - nextChunk;
  const what = left === 1 ? "one message" : `${left} messages`;
  const again = status === "unknown" ? "; the first of them may have arrived already" : "";
  return `sends ${what} to ${route.channel}${route.to === undefined ? "" : ` ${route.to}`}${again}`;
}

const NO_RUN: Failure = { code: "not_found", message: "there is no run with this id" };
const NO_DELIVERY: Failure = { code: "not_found", message: "there is no delivery with this id" };

async function retryRun(deps: AdminDeps, id: string, dryRun: boolean): Promise<Outcome> {
  const run = await deps.store.get("run", id);
  const failure = run ? findRetryProblem(run) : NO_RUN;
  if (!run || failure) return { ok: false, failure: failure ?? NO_RUN };
  const summary = await describeRun(deps, run);
  if (dryRun) return { ok: true, status: run.status, summary };
  const retried = await deps.runs.retry(id);
  return retried.ok ? { ok: true, status: retried.run.status, summary } : retried;
}

async function retryOneDelivery(deps: AdminDeps, id: string, dryRun: boolean): Promise<Outcome> {
  const delivery = await deps.store.get("delivery", id);
  if (!delivery) return { ok: false, failure: NO_DELIVERY };
  const summary = describeDelivery(delivery);
  if (!dryRun) {
    const retried = await deps.retryDelivery(id);
    if (!retried.ok) return retried;
    // What had no route has one now.
    return {
      ok: true,
      status: retried.delivery.status,
      summary: delivery.status === "unknown" ? summary : describeDelivery(retried.delivery),
    };
  }
  const state = deliveryState(delivery);
  if (state !== "pending" && state !== "delivered") return { ok: true, status: state, summary };
  const message = `only a delivery that failed can be sent again; this one is ${state}`;
  return { ok: false, failure: { code: "not_retryable", message } };
}

async function* retryEach(
  deps: AdminDeps,
  { ids, skipped }: Chosen,
  { dryRun, perSecond }: BulkRetry,
  retry: (deps: AdminDeps, id: string, dryRun: boolean) => Promise<Outcome>,
): AsyncGenerator<RetryLine> {
  yield { type: "total", total: ids.length, skipped, dryRun };
  let failed = 0;
  for (const [index, id] of ids.entries()) {
    if (index > 0 && perSecond !== undefined && !dryRun) await deps.clock.sleep(1000 / perSecond);
    const outcome = await retry(deps, id, dryRun).catch(asFailure);
    if (!outcome.ok) failed++;
    yield { type: "result", id, ...outcome };
  }
  yield { type: "end", retried: ids.length - failed, failed };
}

/**
 * Starts all runs again that the filters leave, the oldest first, each under its own id; with `dryRun` it only says what that
 * would do. It ends early when the caller stops reading.
 */
export async function* retryRuns(deps: AdminDeps, bulk: BulkRunRetry): AsyncGenerator<RetryLine> {
  yield* retryEach(deps, await chooseRuns(deps, bulk), bulk, retryRun);
}

/** The same for deliveries: each goes on with the first message that was not sent. */
export async function* retryDeliveries(
  deps: AdminDeps,
  bulk: BulkDeliveryRetry,
): AsyncGenerator<RetryLine> {
  yield* retryEach(deps, await chooseDeliveries(deps, bulk), bulk, retryOneDelivery);
}
