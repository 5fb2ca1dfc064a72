/** What has to be true of each seed, by the ledgers of the outside. To add an invariant: a function in `INVARIANTS`. */
import type { Answer, Ledgers, ModelCall } from "./outside.ts";
import type { Order } from "./plan.ts";
import type { Outcome } from "./simulate.ts";

type Check = (outcome: Outcome) => string[];

const isAccepted = ({ result }: Answer): boolean => typeof result === "number" && result >= 200 && result < 300;
const firstAccepted = ({ answers }: Ledgers, { n }: Order): Answer | undefined =>
  answers.find((answer) => answer.order === n && isAccepted(answer));
const groupBy = <T>(list: readonly T[], key: (of: T) => string | number): Map<string | number, T[]> => Map.groupBy(list, key);
const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;

/** The most calls that were under way at the same time, and when that was. */
function mostAtOnce(calls: readonly ModelCall[]): { most: number; at: number } {
  const edges = calls.flatMap(({ at, end }) => [
    { at, change: 1 },
    { at: end, change: -1 },
  ]);
  let now = 0;
  let found = { most: 0, at: 0 };
  for (const { at, change } of edges.toSorted((a, b) => a.at - b.at || a.change - b.change)) {
    now += change;
    if (now > found.most) found = { most: now, at };
  }
  return found;
}

/** Its model gave no answer for longer than a turn may take. */
const isHeldUp = ({ faults }: Outcome["plan"], { path }: Order): boolean =>
  faults.some(
    (fault) =>
      fault.kind === "provider" && (fault.how === "hanging" || fault.how === "slow") && fault.of === (path === "work" ? "alpha" : "beta"),
  );

const outcomes: Check = ({ plan, outside: { ledgers }, runs }) =>
  plan.orders.flatMap((order) => {
    const accepted = firstAccepted(ledgers, order);
    if (!accepted) return [`order ${order.n} was never acknowledged`];
    const run = runs.get(accepted.runId ?? "");
    if (!run) return [`order ${order.n} was acknowledged, and its run ${accepted.runId} is not there`];
    const wanted = order.poison ? "failed" : "succeeded";
    if (run.status === wanted) return [];
    // A turn may take no longer than its timeout: that is an end, too.
    if (run.status === "timed_out" && isHeldUp(plan, order)) return [];
    return [
      `order ${order.n} was acknowledged at ${seconds(accepted.end)}, and its run ${run.id} is ${run.status} (${JSON.stringify(run.error ?? run.parked)})`,
    ];
  });

const oneRun: Check = ({ outside: { ledgers } }) =>
  [...groupBy(ledgers.answers.filter(isAccepted), ({ order }) => order)].flatMap(([order, answers]) => {
    const ids = new Set(answers.map(({ runId }) => runId));
    return ids.size > 1 ? [`order ${order} was acknowledged with several runs: ${[...ids].join(", ")}`] : [];
  });

const effectsOnce: Check = ({ plan, outside: { ledgers }, runs }) => [
  ...[...groupBy(ledgers.effects, ({ callId }) => callId)].flatMap(([callId, effects]) =>
    effects.length > 1
      ? [`call ${callId} of order ${effects[0]?.order} was made ${effects.length} times, by ${effects.map(({ by }) => by).join(", ")}`]
      : [],
  ),
  ...plan.orders.flatMap(({ n, calls }) => {
    const run = runs.get(ledgers.answers.find((answer) => answer.order === n && isAccepted(answer))?.runId ?? "");
    const made = ledgers.effects.filter(({ order }) => order === n).length;
    return run?.status === "succeeded" && made !== calls ? [`order ${n} asked for ${calls} calls, and ${made} were made`] : [];
  }),
];

const messagesOnce: Check = ({ plan, outside: { ledgers }, runs }) =>
  plan.orders.flatMap((order) => {
    const keys = new Set(ledgers.messages.filter((message) => message.order === order.n).map(({ key }) => key));
    const run = runs.get(firstAccepted(ledgers, order)?.runId ?? "");
    if (keys.size > 1) return [`order ${order.n} has several replies: ${[...keys].join(", ")}`];
    return run?.status === "succeeded" && keys.size === 0
      ? [`order ${order.n} has succeeded, and no reply has arrived (${JSON.stringify(run.delivery)})`]
      : [];
  });

/** The last call about an order. One that kills gateways fails, and is started again when its sender sends it again: that is later work. */
function lastCall({ calls, answers }: Ledgers, { n, poison }: Order): ModelCall | undefined {
  const again = poison ? answers.filter(({ order }) => order === n)[1] : undefined;
  return calls.findLast(({ order, at }) => order === n && at < (again?.at ?? Infinity));
}

/** Of two orders of a session, the one that was acknowledged before the other was sent is done first. */
const orderInSession: Check = ({ plan, outside: { ledgers } }) =>
  [...groupBy(plan.orders, ({ session }) => session).values()].flatMap((orders) => {
    const known = orders.map((order) => ({
      n: order.n,
      sent: ledgers.answers.find((answer) => answer.order === order.n)?.at ?? Infinity,
      accepted: firstAccepted(ledgers, order)?.end ?? Infinity,
      begun: ledgers.calls.find((call) => call.order === order.n)?.at ?? Infinity,
      last: lastCall(ledgers, order)?.at ?? -Infinity,
    }));
    return known.flatMap((first) =>
      known.flatMap(({ n, sent, begun }) =>
        first.n !== n && first.accepted < sent && begun < first.last
          ? [
              `order ${n} began at ${seconds(begun)}, before order ${first.n} of its session was done (asked again at ${seconds(first.last)})`,
            ]
          : [],
      ),
    );
  });

const noOverlap: Check = ({ plan, outside: { ledgers } }) =>
  [...groupBy(ledgers.calls, ({ order }) => plan.orders[order]?.session ?? "")].flatMap(([session, calls]) => {
    const { most, at } = mostAtOnce(calls);
    return most > 1 ? [`${most} model calls of the session ${session} were under way at ${seconds(at)}`] : [];
  });

const limits: Check = ({ plan, outside: { ledgers } }) => {
  const tight = ledgers.calls.filter(({ order }) => plan.orders[order]?.path === "tight");
  const { most, at } = mostAtOnce(tight);
  const found =
    most > plan.limits.concurrent ? [`${most} runs were under way at ${seconds(at)}, and ${plan.limits.concurrent} may be`] : [];
  // An hour is one of the wall clock: where that is set, the outside cannot tell.
  if (plan.faults.some(({ kind }) => kind === "clock")) return found;
  const starts = [...groupBy(tight, ({ order }) => order).values()].map(([first]) => first?.at ?? 0).toSorted((a, b) => a - b);
  const most1h = Math.max(0, ...starts.map((from) => starts.filter((start) => start >= from && start < from + 3_590_000).length));
  return most1h > plan.limits.runsPerHour
    ? [...found, `${most1h} runs were started within an hour, and ${plan.limits.runsPerHour} may be`]
    : found;
};

/** An answer that a gateway has got, and has lived to keep, is not paid for again. */
const paidOnce: Check = ({ outside: { ledgers } }) =>
  [
    ...groupBy(
      ledgers.calls.filter(({ how }) => how === "answered"),
      ({ order, step, by }) => `order ${order}, step ${step} by ${by}`,
    ),
  ].flatMap(([what, calls]) =>
    calls.length > 1 ? [`${what} was answered ${calls.length} times: ${calls.map(({ end }) => seconds(end)).join(", ")}`] : [],
  );

/** When the queue has to be empty; what limits hold back has the hours that these take. */
const drains: Check = ({ plan, outside: { ledgers }, runs, drainedAt, endedAt }) => {
  const limit = plan.healed + plan.drainMs;
  const late = plan.orders.flatMap((order) => {
    if (order.path === "tight" || order.poison || isHeldUp(plan, order)) return [];
    const last = ledgers.messages.find((message) => message.order === order.n)?.at ?? Infinity;
    return last > limit
      ? [`order ${order.n} has no reply ${seconds(plan.drainMs)} after the last fault${last < Infinity ? `, but at ${seconds(last)}` : ""}`]
      : [];
  });
  if (drainedAt !== undefined) return late;
  const left = [...runs.values()].filter(({ status }) => status !== "succeeded" && status !== "failed");
  return [...late, `the queue is not empty at ${seconds(endedAt)}: ${left.map(({ id, status }) => `${id} ${status}`).join(", ")}`];
};

/** Senders get an answer of some kind while the gateway runs, in time. */
const ANSWER_MS = 4_500;
const answersInTime: Check = ({ plan, outside: { ledgers } }) =>
  ledgers.answers.flatMap(({ at, end, order, result }) => {
    const isSuspended = plan.faults.some(({ kind, from, to }) => kind === "suspend" && from < end && at < to + 2_000);
    return end - at > ANSWER_MS && !isSuspended
      ? [`the sender of order ${order} waited ${seconds(end - at)} for its answer (${result})`]
      : [];
  });

/** A minute into an outage, a provider is probed: by one call at a time, no more than one in five seconds. */
const SURE_MS = 60_000;
const probes: Check = ({ plan, outside: { ledgers } }) =>
  plan.faults.flatMap((fault) => {
    if (fault.kind !== "provider" || fault.how !== "down" || fault.to - fault.from < 2 * SURE_MS) return [];
    const isOther = plan.faults.some(
      (other) =>
        other !== fault &&
        other.to > fault.from &&
        (other.kind.startsWith("kill") || other.kind === "suspend" || (other.kind === "provider" && other.of === fault.of)),
    );
    if (isOther) return [];
    const calls = ledgers.calls.filter(({ provider, at }) => provider === fault.of && at > fault.from + SURE_MS && at < fault.to);
    const most = (fault.to - fault.from - SURE_MS) / 5_000 + 2;
    return calls.length > most
      ? [`${calls.length} calls were made into an outage of ${seconds(fault.to - fault.from)} after its first minute`]
      : [];
  });

const INVARIANTS: Record<string, Check> = {
  "every acknowledged event has its outcome": outcomes,
  "an event is one run": oneRun,
  "each side effect happens once": effectsOnce,
  "each reply arrives once": messagesOnce,
  "a session is in order": orderInSession,
  "nothing overlaps in a session": noOverlap,
  "limits are kept": limits,
  "what a model answered is kept": paidOnce,
  "the queue drains": drains,
  "senders are answered in time": answersInTime,
  "an outage is probed": probes,
};

/** What of the outcome is not as it has to be, as `invariant: what`. */
export const findProblems = (outcome: Outcome): string[] =>
  Object.entries(INVARIANTS).flatMap(([name, check]) => check(outcome).map((problem) => `${name}: ${problem}`));
