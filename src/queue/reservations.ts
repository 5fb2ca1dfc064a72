import { safeError } from "../core/errors.ts";
import {
  noStart,
  type Counted,
  type LimitReason,
  type Ms,
  type Reservation,
  type Resource,
  type StartAmounts,
} from "../store/types.ts";
import { BudgetAccount, pickReason } from "./account.ts";
import type { AdmissionDeps, Budget } from "./types.ts";

/** The greatest age of counts of other gateways that only predict: for `limits.queue`, and for the answer's status. */
const FRESH_MS = 1000;

/** Another gateway that reserves at this moment is done within so long. */
const BUSY_MS = 5;
const MAX_BUSY = 200;

/** The resources that are missing, by scope. */
export type Missing = ReadonlyMap<string, ReadonlySet<Resource>>;

/** A run that is about to start. */
interface StartingRun {
  accounts: readonly BudgetAccount[];
  need: StartAmounts;
  take(): void;
}

/** The accounts of this gateway, and the room that it reserves: one request to the store at a time, for all runs that wait for it. */
export class Reservations {
  readonly #deps: AdmissionDeps;
  readonly #accounts = new Map<string, BudgetAccount>();
  #busy: Promise<unknown> = Promise.resolve();
  #next: Promise<void> | undefined;
  #starting: StartingRun[] = [];
  /** When what other gateways have done was read last. */
  #readAt: Ms = -Infinity;
  #reading: Promise<unknown> | undefined;

  constructor(deps: AdmissionDeps) {
    this.#deps = deps;
  }

  get(budget: Budget): BudgetAccount {
    const known = this.#accounts.get(budget.scope);
    if (known) return known;
    const made = new BudgetAccount(budget, this.#deps.snapshot().budgets.counters(budget.scope));
    this.#accounts.set(budget.scope, made);
    return made;
  }

  of(budgets: readonly Budget[]): BudgetAccount[] {
    return budgets.map((budget) => this.get(budget));
  }

  get all(): readonly BudgetAccount[] {
    return [...this.#accounts.values()];
  }

  /** Predicts what will hold a run back; it is decided when the run is about to start. */
  predict(budgets: readonly Budget[], now: Ms): LimitReason | undefined {
    return pickReason(this.of(budgets).flatMap((account) => account.predict(now)));
  }

  /** Notes that the counts of other gateways were read at this moment. */
  markFresh(): void {
    this.#readAt = this.#deps.clock.now();
  }

  /** Reads what other gateways have done. Waits only if nothing is known yet. */
  async refresh(): Promise<void> {
    const { clock, log, snapshot } = this.#deps;
    if (Math.abs(clock.now() - this.#readAt) < FRESH_MS) return;
    const isKnown = this.#readAt !== -Infinity;
    this.#reading ??= this.read(snapshot().budgets.all.map(({ scope }) => scope))
      .then(() => this.markFresh())
      .finally(() => (this.#reading = undefined));
    if (!isKnown) await this.#reading;
    else
      this.#reading.catch((error: unknown) =>
        log.warn(
          { err: safeError(error) },
          "what limits have left could not be read; what is known stays in use",
        ),
      );
  }

  /** The reason why a run has to wait that lacks so much. `behind`: the parked runs behind it, by scope, if it is parked already. */
  explain(
    budgets: readonly Budget[],
    missing: Missing,
    now: Ms,
    behind?: ReadonlyMap<string, number>,
  ): LimitReason | undefined {
    const reasons = this.of(budgets).flatMap((account) => {
      const { scope } = account;
      return account.refuse(
        missing.get(scope) ?? new Set(),
        now,
        behind && (behind.get(scope) ?? 0),
      );
    });
    return pickReason(reasons);
  }

  /** Returns what explains parked runs, the newest first: each is behind those that are asked for after it. */
  explainParked(
    missing: Missing,
    now: Ms,
  ): (budgets: readonly Budget[]) => LimitReason | undefined {
    const behind = new Map<string, number>();
    return (budgets) => {
      const reason = this.explain(budgets, missing, now, behind);
      for (const { scope } of budgets) behind.set(scope, (behind.get(scope) ?? 0) + 1);
      return reason;
    };
  }

  /** Limits may have changed. Returns the scopes that are new. */
  reset(): string[] {
    const { all, counters } = this.#deps.snapshot().budgets;
    const scopes = new Set(all.map(({ scope }) => scope));
    for (const scope of this.#accounts.keys()) if (!scopes.has(scope)) this.#accounts.delete(scope);
    return all.flatMap((budget) => {
      const known = this.#accounts.get(budget.scope);
      known?.set(budget, counters(budget.scope));
      known?.short.clear();
      this.get(budget);
      return known ? [] : [budget.scope];
    });
  }

  /** Reads what is counted. */
  async read(scopes: readonly string[]): Promise<ReadonlyMap<string, Counted>> {
    const { counters } = this.#deps.snapshot().budgets;
    const accounts = this.all.filter(({ scope }) => scopes.includes(scope));
    const take = accounts.map((account) => account.reading());
    const counted = await this.#deps.usage.count(
      scopes.map((scope) => ({ scope, counters: counters(scope) })),
    );
    for (const [n, { scope }] of accounts.entries()) {
      const found = counted.get(scope);
      if (found) take[n]?.(found);
    }
    return counted;
  }

  /**
   * Reserves room for a run, and then calls `take` before anything else can be done with that. Runs that ask while another request
   * is under way share the next one.
   */
  async reserve<T>(
    accounts: readonly BudgetAccount[],
    need: StartAmounts,
    take: () => T,
  ): Promise<T> {
    let taken: { value: T } | undefined;
    this.#starting.push({ accounts, need, take: () => (taken = { value: take() }) });
    this.#next ??= this.#alone(() => this.#reserveAll());
    await this.#next;
    return (taken as unknown as { value: T }).value;
  }

  async #reserveAll(): Promise<void> {
    this.#next = undefined;
    const starting = this.#starting.splice(0);
    const wanted = new Map<BudgetAccount, StartAmounts>();
    for (const { accounts, need } of starting)
      for (const account of accounts) {
        const { starts, places } = wanted.get(account) ?? noStart();
        wanted.set(account, { starts: starts + need.starts, places: places + need.places });
      }
    await this.#ask(wanted);
    for (const { take } of starting) take();
    for (const account of wanted.keys()) account.giveBack();
  }

  /** Reads what is left of budgets. */
  findRoom(budgets: readonly Budget[]): Promise<Reservation[]> {
    return this.#askForNone(this.of(budgets));
  }

  /** Corrects what the store knows of this gateway's reservations. */
  async tick(): Promise<void> {
    const accounts = this.all.filter(({ isStale }) => isStale);
    if (accounts.length > 0) await this.#askForNone(accounts);
  }

  #askForNone(accounts: readonly BudgetAccount[]): Promise<Reservation[]> {
    return this.#alone(() => this.#ask(new Map(accounts.map((account) => [account, noStart()]))));
  }

  #alone<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#busy.then(work);
    this.#busy = done.catch(() => undefined);
    return done;
  }

  async #ask(wanted: ReadonlyMap<BudgetAccount, StartAmounts>): Promise<Reservation[]> {
    const { clock, usage } = this.#deps;
    const reservations: Reservation[] = [];
    let left = [...wanted];
    try {
      for (let tries = 0; left.length > 0 && tries < MAX_BUSY; tries++) {
        if (tries > 0) await clock.sleep(BUSY_MS * (1 + Math.random()));
        const asked = left.map(([account, amounts]) => account.request(amounts));
        const found = await usage.reserve(asked);
        const byScope = new Map(found.map((reservation) => [reservation.scope, reservation]));
        for (const [account] of left) {
          const reservation = byScope.get(account.scope);
          if (reservation) account.setRoom(reservation);
        }
        reservations.push(...found);
        left = left.filter(([{ scope }]) => !byScope.has(scope));
      }
      return reservations;
    } finally {
      for (const [account] of left) account.isStale = true;
    }
  }
}

/** Returns the resources that a run lacks in all its budgets, by scope; undefined if it lacks none. */
export function findMissing(
  accounts: readonly BudgetAccount[],
  need: StartAmounts,
): Map<string, Set<Resource>> | undefined {
  const missing = new Map(
    accounts.map((account) => [account.scope, new Set(account.findMissing(need))]),
  );
  return [...missing.values()].some(({ size }) => size > 0) ? missing : undefined;
}
