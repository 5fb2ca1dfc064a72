import {
  DAY_WINDOW,
  HOUR_WINDOW,
  MICRO,
  noStart,
  RESOURCES,
  toBucket,
  type Amounts,
  type Counted,
  isInLine,
  type LimitReason,
  type Ms,
  type Reservation,
  type ReservationRequest,
  type Resource,
  type RunRecord,
  type StartAmounts,
} from "../store/types.ts";
import type { Budget } from "./types.ts";
import { findDayFree, forecastStart, sumDay, sumStarts } from "./windows.ts";

/** The amounts that a run takes when it starts. */
export interface Need extends StartAmounts {
  /** True if the run is among those that `Counted.inLine` counts. */
  isInLine: boolean;
}

/** A start counts once for all tries of a run; a run that a crash cut off has its place still. */
export const toNeed = (run: RunRecord): Need => ({
  starts: run.attempts === 0 ? 1 : 0,
  places: run.status === "running" ? 0 : 1,
  isInLine: isInLine(run),
});

const LIMIT_NAMES: Record<Resource, LimitReason["limit"]> = {
  starts: "runsPerHour",
  places: "concurrent",
  tokens: "tokensPerDay",
  micros: "budget.perDay",
};

/**
 * Returns the limit that a run waits for if several hold it back: the latest moment of `runsPerHour`, else `tokensPerDay`, else
 * `budget`, else `concurrent`. A moment that is known comes before a wait for another run's end.
 */
export function pickReason(reasons: readonly LimitReason[]): LimitReason | undefined {
  const of = (name: Resource): LimitReason[] =>
    reasons.filter(({ limit }) => limit === LIMIT_NAMES[name]);
  const [latest] = of("starts").toSorted((a, b) => (b.until ?? Infinity) - (a.until ?? Infinity));
  return latest ?? of("tokens")[0] ?? of("micros")[0] ?? of("places")[0];
}

/** The usage of an attempt. `again`: its run is back in the queue. */
interface Used {
  again: boolean;
  tokens: number;
  micros: number;
}

const toLimits = ({
  limits: { runsPerHour, concurrent, tokensPerDay, budget },
}: Budget): Partial<Amounts> => ({
  ...(runsPerHour !== undefined && { starts: runsPerHour }),
  ...(concurrent !== undefined && { places: concurrent }),
  ...(tokensPerDay !== undefined && { tokens: tokensPerDay }),
  ...(budget !== undefined && { micros: Math.round(budget.perDay * MICRO) }),
});

const NO_RUNS = { running: 0, waiting: 0, parked: 0, inLine: 0 };

/** The counts of one budget as this gateway knows them, and the room that it has reserved. */
export class BudgetAccount {
  #limits: Partial<Amounts> = {};
  #counters: readonly string[] = [];
  #budget: Budget;
  #counted: Counted = { ...NO_RUNS, hour: [], day: [] };
  /** The changes of this gateway, and the part of them that is in `#counted`. */
  readonly #done = { ...NO_RUNS };
  #seen = { ...NO_RUNS };
  /** The runs that had been parked here when the request under way was made. */
  #parkedBefore = 0;
  /** The amounts that runs may take now. */
  #room: Partial<Amounts> = {};
  /** Taken by runs whose start is not on disk yet. */
  #pending = noStart();
  /** The store may believe that more is reserved than is. */
  isStale = false;
  /** The resources that had no room last: runs that come now line up behind those that are parked. */
  readonly short = new Set<Resource>();

  constructor(budget: Budget, counters: readonly string[]) {
    this.#budget = budget;
    this.set(budget, counters);
  }

  get scope(): string {
    return this.#budget.scope;
  }

  /** Limits may have changed. */
  set(budget: Budget, counters: readonly string[]): void {
    this.#budget = budget;
    this.#limits = toLimits(budget);
    this.#counters = counters;
  }

  /** Builds the request for this room. */
  request(wanted: StartAmounts): ReservationRequest {
    this.isStale = false;
    this.#parkedBefore = this.#done.parked;
    const pending = { ...this.#pending };
    return { scope: this.scope, counters: this.#counters, limits: this.#limits, pending, wanted };
  }

  /** Sets what runs may take. */
  setRoom({ reserved, left, hour, day, parked }: Reservation): void {
    this.#room = { ...left, ...reserved };
    this.#counted = {
      ...this.#counted,
      parked,
      ...(this.#limits.starts !== undefined && { hour }),
      ...(this.#hasDay() && { day }),
    };
    this.#seen.parked = this.#parkedBefore;
  }

  /** Frees the room that was reserved and not taken. */
  giveBack(): void {
    const { starts = 0, places = 0 } = this.#room;
    if (starts + places > 0) this.isStale = true;
    this.#room = {};
  }

  #hasDay(): boolean {
    return this.#limits.tokens !== undefined || this.#limits.micros !== undefined;
  }

  /** Returns the resources that a run would lack. */
  findMissing(need: StartAmounts): Resource[] {
    return RESOURCES.filter((name) => {
      const least = name === "starts" || name === "places" ? need[name] : 1;
      return this.#limits[name] !== undefined && (this.#room[name] ?? 0) < least;
    });
  }

  /** Returns the resources that had no room last and that a run with this need takes: a run that was started before needs no start. */
  findShort(need: StartAmounts): ReadonlySet<Resource> {
    return new Set(
      [...this.short].filter((name) => (name !== "starts" && name !== "places") || need[name] > 0),
    );
  }

  take(need: Need): void {
    for (const name of ["starts", "places"] as const) {
      this.#pending[name] += need[name];
      this.#room[name] = (this.#room[name] ?? 0) - need[name];
    }
  }

  /** The start of a run is on disk, and so counted there. */
  started(need: Need, now: Ms): void {
    this.#unpend(need);
    this.#done.running += need.places;
    this.addWaiting(-need.places, need.isInLine);
    if (need.starts > 0)
      this.#counted = {
        ...this.#counted,
        hour: addTo(this.#counted.hour, toBucket(HOUR_WINDOW, now)),
      };
  }

  /** A run that had taken what it needed did not start. */
  untake(need: Need): void {
    this.#unpend(need);
    this.isStale = true;
  }

  #unpend(need: Need): void {
    this.#pending.starts -= need.starts;
    this.#pending.places -= need.places;
  }

  /** A run gave its place back that started, here or elsewhere. */
  left({ again, tokens, micros }: Used, now: Ms): void {
    this.#done.running--;
    if (again) this.#done.waiting++;
    if (tokens + micros === 0) return;
    const at = toBucket(DAY_WINDOW, now);
    const last = this.#counted.day.at(-1);
    const day =
      last?.at === at
        ? [
            ...this.#counted.day.slice(0, -1),
            { at, tokens: last.tokens + tokens, micros: last.micros + micros },
          ]
        : [...this.#counted.day, { at, tokens, micros }];
    this.#counted = { ...this.#counted, day };
  }

  /** Counts runs that begin to wait, or end to. */
  addWaiting(count: number, isInLine: boolean): void {
    this.#done.waiting += count;
    if (isInLine) this.#done.inLine += count;
  }

  /** A run that was in line waits for a model. */
  leaveLine(): void {
    this.#done.inLine--;
  }

  /** A run that was not parked before is. */
  park(): void {
    this.#done.parked++;
  }

  get waiting(): number {
    return this.#count("waiting");
  }

  #count(name: keyof typeof NO_RUNS): number {
    return this.#counted[name] + this.#done[name] - this.#seen[name];
  }

  /** Begins to read what the store has counted. Returns what takes the answer. */
  reading(): (counted: Counted) => void {
    const seen = { ...this.#done };
    return (counted) => {
      this.#counted = counted;
      this.#seen = seen;
    };
  }

  /** Predicts the limits that hold a run back when all have started that are in line now. */
  predict(now: Ms): LimitReason[] {
    const { hour, day } = this.#counted;
    const ahead = this.#count("inLine");
    const used: Amounts = {
      starts: sumStarts(hour, now) + ahead,
      places: this.#count("running") + ahead,
      tokens: sumDay(day, "tokens", now),
      micros: sumDay(day, "micros", now),
    };
    const reached = RESOURCES.filter((name) => used[name] >= (this.#limits[name] ?? Infinity));
    return this.#explain(reached, ahead, now);
  }

  /**
   * The limits that hold back a run which could not start: one without room counts as reached, also if other gateways hold the rest.
   * `behind`: the runs behind it, if it is parked already; one that is not is behind all that are.
   */
  refuse(missing: ReadonlySet<Resource>, now: Ms, behind = -1): LimitReason[] {
    // Reserved starts count as started.
    const taken = Math.max(0, (this.#limits.starts ?? 0) - sumStarts(this.#counted.hour, now));
    const before = Math.max(0, this.#count("parked") - 1 - behind);
    // Runs that are about to start count as parked still.
    const ahead = behind < 0 ? before + taken : Math.max(before, taken);
    return this.#explain([...missing], ahead, now);
  }

  /** `ahead`: the runs that start before the one that waits. */
  #explain(reached: readonly Resource[], ahead: number, now: Ms): LimitReason[] {
    return reached.flatMap((name) => {
      const limit = this.#limits[name];
      if (limit === undefined) return [];
      const until = this.#forecast(name, limit, ahead, now);
      const reason = { scope: this.scope, limit: LIMIT_NAMES[name] };
      return [until !== undefined && until > now ? { ...reason, until } : reason];
    });
  }

  #forecast(name: Resource, limit: number, ahead: number, now: Ms): Ms | undefined {
    const { hour, day } = this.#counted;
    if (name === "places") return undefined;
    return name === "starts"
      ? forecastStart(hour, limit, ahead, now)
      : findDayFree(day, name, limit, now);
  }
}

function addTo(hour: Counted["hour"], at: Ms): Counted["hour"] {
  const last = hour.at(-1);
  return last?.at === at
    ? [...hour.slice(0, -1), { at, starts: last.starts + 1 }]
    : [...hour, { at, starts: 1 }];
}
