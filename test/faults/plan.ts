/** Plans the simulation of a seed: the orders of senders, and the faults. The plan does not depend on the program. */
import { createRandom, type Random } from "./random.ts";

/** An event that a sender sends, and what it asks of the agent. */
export interface Order {
  n: number;
  /** When it is sent first. */
  at: number;
  session: string;
  /** `work` uses the model `alpha/m` without limits, `tight` `beta/m` with limits. */
  path: "work" | "tight";
  /** Tool calls before the reply. */
  calls: number;
  /** Each gateway that asks a model about it dies. */
  poison: boolean;
  /** The number of times that the sender sends again, as if the answer was lost. */
  repeats: number;
}

export type ProviderFault =
  | "down"
  | "partly down"
  | "limited"
  | "limited for a day"
  | "limited once"
  | "cut"
  | "hanging"
  | "slow";
export type ChannelFault = "away" | "answer lost" | "hanging" | "flaky";

export type Fault = { from: number; to: number } & (
  | { kind: "kill" }
  | { kind: "kill at commit"; moment: "before" | "after"; nth: number }
  | { kind: "suspend" }
  | { kind: "slow machine"; perReadMs: number }
  | { kind: "disk full"; undoes: boolean }
  | { kind: "clock"; stepMs: number }
  | { kind: "provider"; of: "alpha" | "beta"; how: ProviderFault }
  | { kind: "channel"; how: ChannelFault }
);

export interface Plan {
  seed: number;
  orders: Order[];
  faults: Fault[];
  limits: { concurrent: number; runsPerHour: number };
  /** When the last fault is over and the last order was sent. */
  healed: number;
  /** Within this time after that, all that no limit holds back has an outcome. */
  drainMs: number;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
/** An outage's longest wait: `Retry-After` is capped at 15 minutes, with jitter, and then everything runs that waited. */
const DRAIN_MS = 30 * MINUTE;

const pick = <T>(random: Random, list: readonly T[]): T => list[random.below(list.length)] as T;
const between = (random: Random, low: number, high: number): number =>
  Math.floor(low + random.next() * (high - low));

type Make = (random: Random, from: number) => Fault;

const provider =
  (how: ProviderFault, low: number, high: number): Make =>
  (random, from) => ({
    kind: "provider",
    of: pick(random, ["alpha", "beta"]),
    how,
    from,
    to: from + between(random, low, high),
  });

/** Faults by name; a seed draws some of them. To add one: a kind above, a line here, what it does in `outside.ts` or `simulate.ts`. */
const FAULTS: Record<string, Make> = {
  kill: (_random, from) => ({ kind: "kill", from, to: from }),
  "kill at commit": (random, from) => {
    const moment = pick(random, ["before", "after"] as const);
    return {
      kind: "kill at commit",
      moment,
      nth: random.below(12),
      from,
      to: from + MINUTE,
    };
  },
  suspend: (random, from) => ({
    kind: "suspend",
    from,
    to: from + between(random, SECOND, 4 * MINUTE),
  }),
  "slow machine": (random, from) => ({
    kind: "slow machine",
    perReadMs: pick(random, [0.2, 2, 20]),
    from,
    to: from + between(random, MINUTE, 10 * MINUTE),
  }),
  "disk full": (random, from) => ({
    kind: "disk full",
    undoes: random.below(2) === 0,
    from,
    to: from + between(random, SECOND, 3 * MINUTE),
  }),
  "clock back": (random, from) => ({
    kind: "clock",
    stepMs: -between(random, MINUTE, 30 * HOUR),
    from,
    to: from,
  }),
  // All of them together stay below the day for which the key of an event is kept.
  "clock ahead": (random, from) => ({
    kind: "clock",
    stepMs: between(random, MINUTE, 5 * HOUR),
    from,
    to: from,
  }),
  outage: provider("down", 2 * MINUTE, 20 * MINUTE),
  "partial outage": provider("partly down", 2 * MINUTE, 20 * MINUTE),
  "provider limits": provider("limited", 5 * SECOND, 5 * MINUTE),
  "provider limits for a day": provider("limited for a day", SECOND, 20 * MINUTE),
  "provider limits once": provider("limited once", MINUTE, 2 * MINUTE),
  "cut answers": provider("cut", 5 * SECOND, 3 * MINUTE),
  "hanging provider": provider("hanging", 5 * SECOND, MINUTE),
  "slow provider": provider("slow", MINUTE, 5 * MINUTE),
  "channel away": (random, from) => ({
    kind: "channel",
    how: "away",
    from,
    to: from + between(random, SECOND, 20 * MINUTE),
  }),
  "channel loses answers": (random, from) => ({
    kind: "channel",
    how: "answer lost",
    from,
    to: from + between(random, SECOND, 3 * MINUTE),
  }),
  "flaky channel": (random, from) => ({
    kind: "channel",
    how: "flaky",
    from,
    to: from + between(random, MINUTE, 20 * MINUTE),
  }),
  "channel hangs": (random, from) => ({
    kind: "channel",
    how: "hanging",
    from,
    to: from + between(random, SECOND, 3 * MINUTE),
  }),
};

const isKill = ({ kind }: Fault): boolean => kind === "kill" || kind === "kill at commit";

function makeOrders(random: Random, spanMs: number): Order[] {
  const sessions = between(random, 2, 7);
  // With few of them each is what tests a provider that is away, again and again.
  const most = random.next() < 0.15 ? 4 : 30;
  const orders = Array.from(
    { length: Math.ceil(between(random, most / 3, most)) },
    (): Omit<Order, "n"> => {
      const path = random.next() < 0.7 ? "work" : "tight";
      return {
        at: Math.floor(random.next() * spanMs),
        session: `${path}-${random.below(sessions)}`,
        path,
        calls: random.below(3),
        poison: false,
        repeats: random.next() < 0.15 ? 1 + random.below(2) : 0,
      };
    },
  );
  return orders.toSorted((a, b) => a.at - b.at).map((order, n) => ({ n, ...order }));
}

/** The plan of a seed. `only` names the faults to draw from, with commas between them. */
export function createPlan(seed: number, only?: string): Plan {
  const random = createRandom(seed * 7919 + 1);
  const spanMs = between(random, 30 * SECOND, 15 * MINUTE);
  const orders = makeOrders(random, spanMs);
  const names = only?.split(",") ?? Object.keys(FAULTS);
  const isPoisoned = only === "poison" || (only === undefined && random.next() < 0.06);
  const faults: Fault[] = [];
  for (let left = between(random, 1, 5); left > 0 && !(only === "poison"); left--) {
    const make = FAULTS[pick(random, names)];
    if (!make)
      throw new Error(`there is no fault ${only}: ${Object.keys(FAULTS).join(", ")}, poison`);
    const fault = make(random, Math.floor(random.next() * spanMs));
    // A run that is killed three times without progress is given up, rightly.
    if (!isKill(fault) || (!isPoisoned && faults.filter(isKill).length < 2)) faults.push(fault);
  }
  if (isPoisoned) (pick(random, orders) as { poison: boolean }).poison = true;
  const last = Math.max(spanMs, ...faults.map(({ to }) => to));
  const limits = {
    concurrent: between(random, 1, 4),
    runsPerHour: between(random, 4, 30),
  };
  return {
    seed,
    orders,
    faults,
    limits,
    healed: last + SECOND,
    drainMs: DRAIN_MS,
  };
}
