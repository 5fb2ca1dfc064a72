/** The invariants of each seed, checked by the ledgers of the outside. To add an invariant: a function in `INVARIANTS`. */
import type { Answer, Ledgers, ModelCall, Send } from "./outside.ts";
import type { Order } from "./plan.ts";
import type { Outcome } from "./simulate.ts";

type Check = (outcome: Outcome) => string[];

const isAccepted = ({ result }: Answer): boolean =>
  typeof result === "number" && result >= 200 && result < 300;
const firstAccepted = ({ answers }: Ledgers, { n }: Order): Answer | undefined =>
  answers.find((answer) => answer.order === n && isAccepted(answer));
const groupBy = <T>(
  list: readonly T[],
  key: (of: T) => string | number,
): Map<string | number, T[]> => Map.groupBy(list, key);
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
      fault.kind === "provider" &&
      (fault.how === "hanging" || fault.how === "slow") &&
      fault.of === (path === "work" ? "alpha" : "beta"),
  );

const outcomes: Check = ({ plan, outside: { ledgers }, runs }) =>
  plan.orders.flatMap((order) => {
    const accepted = firstAccepted(ledgers, order);
    if (!accepted) return [`order ${order.n} was never acknowledged`];
    const run = runs.get(accepted.runId ?? "");
    if (!run)
      return [`order ${order.n} was acknowledged, and its run ${accepted.runId} is not there`];
    const wanted = order.poison ? "failed" : "succeeded";
    if (run.status === wanted) return [];
    // A turn may take no longer than its timeout: that is an end, too.
    if (run.status === "timed_out" && isHeldUp(plan, order)) return [];
    return [
      `order ${order.n} was acknowledged at ${seconds(accepted.end)}, and its run ${run.id} is ${run.status} (${JSON.stringify(run.error ?? run.waitsFor)})`,
    ];
  });

const oneRun: Check = ({ outside: { ledgers } }) =>
  [...groupBy(ledgers.answers.filter(isAccepted), ({ order }) => order)].flatMap(
    ([order, answers]) => {
      const ids = new Set(answers.map(({ runId }) => runId));
      return ids.size > 1
        ? [`order ${order} was acknowledged with several runs: ${[...ids].join(", ")}`]
        : [];
    },
  );

const effectsOnce: Check = ({ plan, outside: { ledgers }, runs }) => [
  ...[...groupBy(ledgers.effects, ({ callId }) => callId)].flatMap(([callId, effects]) =>
    effects.length > 1
      ? [
          `call ${callId} of order ${effects[0]?.order} was made ${effects.length} times, by ${effects.map(({ by }) => by).join(", ")}`,
        ]
      : [],
  ),
  ...plan.orders.flatMap(({ n, calls }) => {
    const run = runs.get(
      ledgers.answers.find((answer) => answer.order === n && isAccepted(answer))?.runId ?? "",
    );
    const made = ledgers.effects.filter(({ order }) => order === n).length;
    return run?.status === "succeeded" && made !== calls
      ? [`order ${n} asked for ${calls} calls, and ${made} were made`]
      : [];
  }),
];

const messagesOnce: Check = ({ plan, outside: { ledgers }, runs }) =>
  plan.orders.flatMap((order) => {
    const keys = new Set(
      ledgers.messages.filter((message) => message.order === order.n).map(({ key }) => key),
    );
    const run = runs.get(firstAccepted(ledgers, order)?.runId ?? "");
    if (keys.size > 1) return [`order ${order.n} has several replies: ${[...keys].join(", ")}`];
    return run?.status === "succeeded" && keys.size === 0
      ? [
          `order ${order.n} has succeeded, and no reply has arrived (${JSON.stringify(run.delivery)})`,
        ]
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
  [...groupBy(ledgers.calls, ({ order }) => plan.orders[order]?.session ?? "")].flatMap(
    ([session, calls]) => {
      const { most, at } = mostAtOnce(calls);
      return most > 1
        ? [`${most} model calls of the session ${session} were under way at ${seconds(at)}`]
        : [];
    },
  );

const limits: Check = ({ plan, outside: { ledgers } }) => {
  const tight = ledgers.calls.filter(({ order }) => plan.orders[order]?.path === "tight");
  const { most, at } = mostAtOnce(tight);
  const found =
    most > plan.limits.concurrent
      ? [`${most} runs were under way at ${seconds(at)}, and ${plan.limits.concurrent} may be`]
      : [];
  // An hour is one of the wall clock: where that is set, the outside cannot tell.
  if (plan.faults.some(({ kind }) => kind === "clock")) return found;
  const starts = [...groupBy(tight, ({ order }) => order).values()]
    .map(([first]) => first?.at ?? 0)
    .toSorted((a, b) => a - b);
  const most1h = Math.max(
    0,
    ...starts.map(
      (from) => starts.filter((start) => start >= from && start < from + 3_590_000).length,
    ),
  );
  return most1h > plan.limits.runsPerHour
    ? [
        ...found,
        `${most1h} runs were started within an hour, and ${plan.limits.runsPerHour} may be`,
      ]
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
    calls.length > 1
      ? [
          `${what} was answered ${calls.length} times: ${calls.map(({ end }) => seconds(end)).join(", ")}`,
        ]
      : [],
  );

/** When the queue has to be empty; what limits hold back has the hours that these take. */
const drains: Check = ({ plan, outside: { ledgers }, runs, drainedAt, endedAt }) => {
  const limit = plan.healed + plan.drainMs;
  const late = plan.orders.flatMap((order) => {
    if (order.path === "tight" || order.poison || isHeldUp(plan, order)) return [];
    const last = ledgers.messages.find((message) => message.order === order.n)?.at ?? Infinity;
    return last > limit
      ? [
          `order ${order.n} has no reply ${seconds(plan.drainMs)} after the last fault${last < Infinity ? `, but at ${seconds(last)}` : ""}`,
        ]
      : [];
  });
  if (drainedAt !== undefined) return late;
  const left = [...runs.values()].filter(
    ({ status }) => status !== "succeeded" && status !== "failed",
  );
  return [
    ...late,
    `the queue is not empty at ${seconds(endedAt)}: ${left.map(({ id, status }) => `${id} ${status}`).join(", ")}`,
  ];
};

/** Senders get an answer of some kind while the gateway runs, in time. */
const ANSWER_MS = 4_500;
const answersInTime: Check = ({ plan, outside: { ledgers } }) =>
  ledgers.answers.flatMap(({ at, end, order, result }) => {
    const isSuspended = plan.faults.some(
      ({ kind, from, to }) => kind === "suspend" && from < end && at < to + 2_000,
    );
    return end - at > ANSWER_MS && !isSuspended
      ? [`the sender of order ${order} waited ${seconds(end - at)} for its answer (${result})`]
      : [];
  });

/** A minute after its first refusal, a provider that is away is tested: by one call at a time, about once a minute. */
const SURE_MS = 60_000;
const PROBE_MS = 30_000;
const probes: Check = ({ plan, outside: { ledgers } }) =>
  plan.faults.flatMap((fault) => {
    if (fault.kind !== "provider" || fault.how !== "down") return [];
    const isOther = plan.faults.some(
      (other) =>
        other !== fault &&
        other.to > fault.from &&
        (other.kind.startsWith("kill") ||
          other.kind === "suspend" ||
          (other.kind === "provider" && other.of === fault.of)),
    );
    const calls = ledgers.calls.filter(
      ({ provider, at }) => provider === fault.of && at >= fault.from && at < fault.to,
    );
    const since = (calls[0]?.at ?? Infinity) + SURE_MS;
    const tests = calls.filter(({ at }) => at > since);
    if (isOther || fault.to <= since) return [];
    const { most: atOnce, at } = mostAtOnce(tests);
    const most = (fault.to - since) / PROBE_MS + 3;
    return [
      ...(atOnce > 1 ? [`${atOnce} calls tested a provider that was away at ${seconds(at)}`] : []),
      ...(tests.length > most
        ? [`${tests.length} calls were made in the last ${seconds(fault.to - since)} of an outage`]
        : []),
    ];
  });

/** True if a fault disturbed the gateway then, so that work takes longer. A clock that is set is no excuse. */
const isDisturbed = ({ plan, outside: { ledgers } }: Outcome, from: number, to: number): boolean =>
  from < BOOT_MS ||
  ledgers.deaths.some(({ at }) => at < to && at > from - BOOT_MS) ||
  plan.faults.some(
    (fault) =>
      (fault.kind === "suspend" || fault.kind === "disk full") &&
      fault.from < to &&
      fault.to > from - BOOT_MS,
  );
const BOOT_MS = 60_000;

/** An order is begun at once if nothing of its session is under way and there is a free place, whatever the clock says. */
const START_MS = 400;
const PLACES = 8;
const startsSoon: Check = (outcome) => {
  const { plan, outside } = outcome;
  const { calls, answers, messages } = outside.ledgers;
  const spans = plan.orders.map((order) => ({
    order,
    sent: answers.find((answer) => answer.order === order.n)?.at ?? Infinity,
    accepted: firstAccepted(outside.ledgers, order)?.end ?? Infinity,
    begun: calls.find((call) => call.order === order.n)?.at ?? Infinity,
    done: messages.find((message) => message.order === order.n)?.at ?? Infinity,
  }));
  return spans.flatMap(({ order, accepted, begun }) => {
    const until = accepted + START_MS;
    if (order.path !== "work" || order.poison || accepted === Infinity || begun <= until) return [];
    const open = spans.filter(
      (other) => other.order !== order && other.sent <= until && other.done > accepted,
    );
    const isHeld =
      open.length >= PLACES - 1 || open.some((other) => other.order.session === order.session);
    const isSlow = plan.faults.some(
      ({ kind, from, to, ...fault }) =>
        from <= until &&
        ((kind === "slow machine" && to > accepted) ||
          (kind === "provider" && "of" in fault && fault.of === "alpha")),
    );
    return isHeld || isSlow || isDisturbed(outcome, accepted, until)
      ? []
      : [
          `order ${order.n} was acknowledged at ${seconds(accepted)}, nothing was before it, and it began at ${seconds(begun)}`,
        ];
  });
};

/** A message that a channel has refused is sent again after its wait, as long as the channel is not taken for away. */
const FIRST_WAIT_MS = 1_000;
const LATE_MS = 5_000;
/** Refusals after which a channel may be taken for away. */
const AWAY = 5;
const sendsAgain: Check = (outcome) => {
  const { sends } = outcome.outside.ledgers;
  const inRow = countInRow(sends);
  const away = sends[inRow.findIndex((count) => count >= AWAY)]?.at ?? Infinity;
  return [...groupBy(sends, ({ order }) => order)].flatMap(([order, tries]) =>
    tries.flatMap(({ end, how }, n) => {
      const next = tries[n + 1]?.at ?? outcome.endedAt;
      const limit = end + FIRST_WAIT_MS * 2 ** n * 1.5 + LATE_MS;
      return how !== "refused" || limit > away || next <= limit || isDisturbed(outcome, end, next)
        ? []
        : [
            `the reply to order ${order} was refused at ${seconds(end)}, the ${n + 1}. time, and sent again at ${seconds(next)}`,
          ];
    }),
  );
};

/** For each send, the number of failed sends in a row up to it, in the order of their starts. */
function countInRow(sends: readonly Send[]): number[] {
  let count = 0;
  return sends.map(({ how }) => (count = how === "sent" ? 0 : count + 1));
}

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
  "work that may start is started": startsSoon,
  "a refused reply is sent again in time": sendsAgain,
};

/** The problems of an outcome, as `invariant: problem`. */
export const findProblems = (outcome: Outcome): string[] =>
  Object.entries(INVARIANTS).flatMap(([name, check]) =>
    check(outcome).map((problem) => `${name}: ${problem}`),
  );
