import { OUTCOMES } from "../../vocabulary/outcomes.ts";
import type { EventOutcome, Ms, RunRecord } from "../../store/types.ts";
import { renderWait } from "../records/texts.ts";
import type { AdminDeps } from "../types.ts";
import { iso, isoOrNull } from "../records/views.ts";

/** Events that are counted at most: the newest. */
const MAX_EVENTS = 50_000;
/** Parked runs that are looked at: the newest. */
const MAX_PARKED = 500;
const MAX_BARS = 60;
const MINUTE_MS = 60_000;
/** The lengths of a bar, in minutes: those that people count in. */
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 360, 720, 1440] as const;

/** The length of a bar for a span. `1h` is an hour also if it was read some milliseconds ago. */
function getStep(span: Ms): Ms {
  const minutes = Math.round(span / MINUTE_MS);
  return (STEPS.find((step) => minutes / step <= MAX_BARS) ?? 1440) * MINUTE_MS;
}

/**
 * Counts the work that waits for a worker. A run that is parked, collects events or waits for a person has a job in the queue, too,
 * and no worker could take it. `counts` are those of the store, `turn` are runs that wait for a worker, or for another run of
 * their session, and `oldestSeconds` is how long the oldest has waited.
 */
export async function countWaiting(
  { store, queue, clock }: AdminDeps,
  counts: Promise<Readonly<Record<string, number>>>,
) {
  const [since, delivery, { "runs.queued": count = 0 }] = await Promise.all([
    store.runs.getQueuedSince(),
    queue.waiting("delivery"),
    counts,
  ]);
  const toSeconds = (ms: number): number => Math.round(Math.max(0, ms) / 1000);
  return {
    turn: { count, oldestSeconds: since === undefined ? 0 : toSeconds(clock.now() - since) },
    delivery: { count: delivery.count, oldestSeconds: toSeconds(delivery.oldestMs) },
  };
}

/** Parked runs that wait for the same. */
export type ParkedFor = ReturnType<typeof groupParked>[number];

/** Groups parked runs by what holds them back: a limit of `of`, or the model `of`. `until`: when the first may start, if that is known. */
function groupParked(runs: readonly RunRecord[]) {
  const holds = runs.flatMap(({ hold }) =>
    hold?.reason === "limit" || hold?.reason === "away" ? [hold] : [],
  );
  return [...Map.groupBy(holds, renderWait).values()].flatMap((those) => {
    const [first] = those;
    if (!first) return [];
    const until = those.flatMap((one) => one.until ?? []).toSorted((a, b) => a - b)[0];
    const { reason } = first;
    const what =
      reason === "away"
        ? { reason, of: first.of, limit: null }
        : { reason, of: first.scope, limit: first.limit };
    return [{ ...what, text: renderWait(first), count: those.length, until: isoOrNull(until) }];
  });
}

/** Shows what is parked, and what the newest 500 wait for. */
export async function showParked({ store }: AdminDeps) {
  const { "runs.parked": count = 0 } = await store.counts();
  const runs = count === 0 ? [] : await store.runs.list({ status: "parked", limit: MAX_PARKED });
  return { count, by: groupParked(runs) };
}

async function countOutcomes({ store }: AdminDeps, since: Ms, now: Ms) {
  const step = getStep(now - since);
  const first = Math.floor(since / step) * step;
  const times = Array.from(
    { length: Math.floor((now - first) / step) + 1 },
    (_, index) => first + index * step,
  );
  const sums = await store.events.sumActivity({ since: first, step, limit: MAX_EVENTS });
  const outcomes = Object.fromEntries(
    OUTCOMES.map((outcome) => [outcome, times.map(() => 0)]),
  ) as Record<EventOutcome, number[]>;
  for (const { at, outcome, count } of sums) {
    const index = Math.round((at - first) / step);
    const values = outcomes[outcome];
    if (values && index >= 0 && index < values.length) values[index] = (values[index] ?? 0) + count;
  }
  const total = sums.reduce((sum, { count }) => sum + count, 0);
  return {
    stepSeconds: step / 1000,
    /** The beginning of each step. */
    times: times.map(iso),
    /** Hooks in each step. */
    outcomes,
    total,
    /** False if only the newest hooks were counted. */
    isComplete: total < MAX_EVENTS,
  };
}

/** Hooks over time, how long things took, and what waits. Times are ISO 8601. */
export type ActivityView = Awaited<ReturnType<typeof showActivity>>;

/** Counts hooks over time by outcome, and says how long answers and runs took and what waits for what. */
export async function showActivity(deps: AdminDeps, { since }: { since: Ms }) {
  const now = deps.clock.now();
  const counting = deps.store.counts();
  const [hooks, counts, parked, waiting] = await Promise.all([
    countOutcomes(deps, Math.min(since, now - MINUTE_MS), now),
    counting,
    showParked(deps),
    countWaiting(deps, counting),
  ]);
  return {
    since: iso(since),
    hooks,
    /** The newest of this gateway since its start; null if there was none. */
    latencies: deps.metrics.latencies(),
    waiting: {
      runs: waiting.turn,
      deliveries: waiting.delivery,
      approvals: counts["approvals.open"] ?? 0,
      collecting: counts["runs.collecting"] ?? 0,
      parked,
    },
  };
}
