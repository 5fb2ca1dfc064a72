import { readMonotonic } from "../core/clock.ts";
import type { Counted, Loan, Ms, LimitReason, Resource } from "../store/types.ts";
import { BudgetAccount, type Need, pickReason } from "./account.ts";
import type { AdmissionDeps, Budget } from "./types.ts";
import { safeError } from "../core/errors.ts";

/** What is known of other gateways' use is that old at most, if it only predicts: `limits.queue`, and the answer's status. */
const FRESH_MS = 1000;

/** Another gateway that borrows at this moment is done within so long. */
const BUSY_MS = 5;
const MAX_BUSY = 200;

type LoansDeps = Pick<AdmissionDeps, "usage" | "clock" | "log" | "context">;

/** What is missing, by scope. */
export type Missing = ReadonlyMap<string, ReadonlySet<Resource>>;

/** The accounts of this gateway, and what they borrow: one request to the store at a time, for all runs that wait for it. */
export class Loans {
  readonly #deps: LoansDeps;
  readonly #accounts = new Map<string, BudgetAccount>();
  #busy: Promise<unknown> = Promise.resolve();
  #next: Promise<void> | undefined;
  #waiting: { accounts: readonly BudgetAccount[]; take(): void }[] = [];
  /** When what other gateways have done was read last. */
  #readAt: Ms = -Infinity;
  #reading: Promise<unknown> | undefined;

  constructor(deps: LoansDeps) {
    this.#deps = deps;
  }

  get(budget: Budget): BudgetAccount {
    const known = this.#accounts.get(budget.scope);
    if (known) return known;
    const made = new BudgetAccount(
      budget,
      this.#deps.context().budgets.counters(budget.scope),
      this.#deps.usage.shared,
    );
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

  /** What other gateways have done was read at this moment. */
  markFresh(): void {
    this.#readAt = this.#deps.clock.now();
  }

  /** Reads what other gateways have done. Waits only if nothing is known yet. */
  async refresh(): Promise<void> {
    const { clock, log, context } = this.#deps;
    if (Math.abs(clock.now() - this.#readAt) < FRESH_MS) return;
    const isKnown = this.#readAt !== -Infinity;
    this.#reading ??= this.read(context().budgets.all.map(({ scope }) => scope))
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
    const { all, counters } = this.#deps.context().budgets;
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
    const { counters } = this.#deps.context().budgets;
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
   * Borrows for a run, and then calls `take` before anything else can be done with that. Runs that ask while another request is
   * under way share the next one.
   */
  async borrow<T>(accounts: readonly BudgetAccount[], take: () => T): Promise<T> {
    let taken: { value: T } | undefined;
    this.#waiting.push({ accounts, take: () => (taken = { value: take() }) });
    for (const account of accounts) account.needed++;
    this.#next ??= this.#alone(() => this.#borrowAll());
    await this.#next;
    return (taken as unknown as { value: T }).value;
  }

  async #borrowAll(): Promise<void> {
    this.#next = undefined;
    const waiting = this.#waiting.splice(0);
    try {
      await this.#lend(this.all.filter(({ needed }) => needed > 0));
    } finally {
      for (const { accounts } of waiting) for (const account of accounts) account.needed--;
    }
    for (const { take } of waiting) take();
  }

  /** What is left of budgets, with all that was borrowed and not spent here given back. */
  findRoom(budgets: readonly Budget[]): Promise<Loan[]> {
    return this.#alone(async () => {
      const accounts = this.of(budgets);
      for (const account of accounts) account.giveBack();
      return this.#lend(accounts);
    });
  }

  /** Gives back what is not used, and keeps what is. */
  async tick(): Promise<void> {
    const accounts = this.all.filter((account) => account.tick());
    if (accounts.length > 0) await this.#alone(() => this.#lend(accounts));
  }

  #alone<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#busy.then(work);
    this.#busy = done.catch(() => undefined);
    return done;
  }

  async #lend(accounts: readonly BudgetAccount[]): Promise<Loan[]> {
    const loans: Loan[] = [];
    let left = accounts;
    for (let tries = 0; left.length > 0 && tries < MAX_BUSY; tries++) {
      if (tries > 0) await this.#deps.clock.sleep(BUSY_MS * (1 + Math.random()));
      // Before it is sent: an answer may take long.
      const askedAt = readMonotonic(this.#deps.clock);
      const lent = await this.#deps.usage.lend(left.map((account) => account.request(askedAt)));
      const byScope = new Map(lent.map((loan) => [loan.scope, loan]));
      for (const account of left) {
        const loan = byScope.get(account.scope);
        if (loan) account.borrow(loan, askedAt);
      }
      loans.push(...lent);
      left = left.filter(({ scope }) => !byScope.has(scope));
    }
    return loans;
  }
}

/** What a run lacks in all its budgets, by scope; undefined if nothing. `now` is monotonic time. */
export function findMissing(
  accounts: readonly BudgetAccount[],
  need: Need,
  now: number,
): Map<string, Set<Resource>> | undefined {
  const missing = new Map(
    accounts.map((account) => [account.scope, new Set(account.findMissing(need, now))]),
  );
  return [...missing.values()].some(({ size }) => size > 0) ? missing : undefined;
}
