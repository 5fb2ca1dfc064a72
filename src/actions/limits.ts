import type { Limits } from "../config/schema/limits.ts";
import type { MappingSet } from "../mapping/types.ts";
import type { Ms, Parked, RunRecord } from "../store/types.ts";

/** Limits, and whose they are: `hooks` for all together, `mapping:<id>`, `preset:<name>`. */
export interface Budget {
  scope: string;
  limits: Limits;
}

/** The budgets of a snapshot. */
export interface Budgets {
  /** Those that a run of this mapping spends from. */
  of(mapping: string | undefined): readonly Budget[];
  readonly all: readonly Budget[];
}

export function createBudgets(hooks: Limits | undefined, mappings: Pick<MappingSet, "settings" | "budgets">): Budgets {
  const shared: Budget[] = hooks ? [{ scope: "hooks", limits: hooks }] : [];
  return {
    of(mapping) {
      const own = mapping === undefined ? undefined : mappings.settings(mapping)?.budget;
      return own ? [...shared, own] : shared;
    },
    all: [...shared, ...mappings.budgets],
  };
}

/** More starts than this within an hour are not told apart. */
const MAX_BEGUN = 100_000;
export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

/** What a budget has spent, and who waits for it. */
class Account {
  /** When the last runs started or, for those that are parked, will: in order, as many as `runsPerHour`. */
  readonly starts: Ms[] = [];
  /** Those that did start, for the operator. */
  readonly begun: Ms[] = [];
  /** Accepted, and neither parked nor ended. */
  readonly active = new Set<string>();
  readonly running = new Set<string>();
  /** Accepted and not started. */
  readonly waiting = new Set<string>();
  readonly used: { at: Ms; tokens: number }[] = [];
  /** Parked until another ends, in order; and those of them that may start now. */
  readonly line: string[] = [];
  readonly called = new Set<string>();

  /** The first moment, from `from` on, at which one more may start. */
  slot(perHour: number | undefined, from: Ms): Ms {
    const earliest = perHour === undefined ? undefined : this.starts.at(-perHour);
    return earliest === undefined ? from : Math.max(from, earliest + HOUR_MS);
  }

  takeSlot(perHour: number | undefined, at: Ms): void {
    if (perHour === undefined) return;
    let place = this.starts.length;
    while (place > 0 && (this.starts[place - 1] as Ms) > at) place--;
    this.starts.splice(place, 0, at);
    if (this.starts.length > perHour) this.starts.shift();
  }

  giveSlotBack(at: Ms): void {
    const place = this.starts.lastIndexOf(at);
    if (place >= 0) this.starts.splice(place, 1);
  }

  /** When enough of the used tokens is a day old; undefined where some are left now. */
  tokensAt(perDay: number | undefined, now: Ms): Ms | undefined {
    if (perDay === undefined) return undefined;
    while (this.used[0] && this.used[0].at <= now - DAY_MS) this.used.shift();
    let sum = this.used.reduce((total, { tokens }) => total + tokens, 0);
    if (sum < perDay) return undefined;
    for (const { at, tokens } of this.used) {
      sum -= tokens;
      if (sum < perDay) return at + DAY_MS;
    }
    return undefined;
  }

  forget(runId: string): void {
    this.active.delete(runId);
    this.running.delete(runId);
    this.waiting.delete(runId);
    this.called.delete(runId);
    const place = this.line.indexOf(runId);
    if (place >= 0) this.line.splice(place, 1);
  }
}

/** Where a run would stand if it were accepted now. */
export interface Place {
  /** When it may start, as far as `runsPerHour` tells. */
  at: Ms;
  parked?: Parked;
}

/** What a budget has spent, and how many wait for it. */
export interface BudgetUse {
  startedLastHour: number;
  running: number;
  waiting: number;
  tokensLastDay: number;
}

/**
 * Counts what runs spend, in memory: all of it can be told from the runs that the store has. `runsPerHour` is settled
 * when a run is accepted, which gives it a moment to start; the others when it is about to.
 */
export class Limiter {
  readonly #accounts = new Map<string, Account>();

  #account(scope: string): Account {
    const known = this.#accounts.get(scope);
    if (known) return known;
    const made = new Account();
    this.#accounts.set(scope, made);
    return made;
  }

  /** The budget that cannot let `more` wait, where there is one. */
  full(budgets: readonly Budget[], more: number): Budget | undefined {
    return budgets.find(({ scope, limits }) => limits.queue !== undefined && this.#account(scope).waiting.size + more > limits.queue);
  }

  /** Takes a place for a run that is accepted now. */
  place(runId: string, budgets: readonly Budget[], now: Ms): Place {
    let at = now;
    let parked: Parked | undefined;
    for (const { scope, limits } of budgets) {
      const slot = this.#account(scope).slot(limits.runsPerHour, now);
      if (slot > at) {
        at = slot;
        parked = { scope, limit: "runsPerHour", until: slot };
      }
    }
    parked ??= this.#tokens(budgets, now) ?? this.#predictWait(budgets);
    for (const { scope, limits } of budgets) {
      const account = this.#account(scope);
      account.takeSlot(limits.runsPerHour, at);
      account.waiting.add(runId);
      if (!parked) account.active.add(runId);
    }
    return parked ? { at, parked } : { at };
  }

  /** A place that was taken for a run that was not accepted after all. */
  giveBack(runId: string, budgets: readonly Budget[], at?: Ms): void {
    for (const { scope } of budgets) {
      const account = this.#account(scope);
      account.forget(runId);
      if (at !== undefined) account.giveSlotBack(at);
    }
  }

  isRunning(runId: string, budgets: readonly Budget[]): boolean {
    return budgets.some(({ scope }) => this.#account(scope).running.has(runId));
  }

  #tokens(budgets: readonly Budget[], now: Ms): Parked | undefined {
    for (const { scope, limits } of budgets) {
      const until = this.#account(scope).tokensAt(limits.tokensPerDay, now);
      if (until !== undefined) return { scope, limit: "tokensPerDay", until };
    }
    return undefined;
  }

  /** What is accepted and not parked will run before this one. */
  #predictWait(budgets: readonly Budget[]): Parked | undefined {
    const busy = budgets.find(({ scope, limits: { concurrent } }) => {
      const { active, line } = this.#account(scope);
      return concurrent !== undefined && (active.size >= concurrent || line.length > 0);
    });
    return busy && { scope: busy.scope, limit: "concurrent" };
  }

  /** Counts a window's run as one that waits; its place is taken when the window closes. */
  collecting(runId: string, budgets: readonly Budget[]): void {
    for (const { scope } of budgets) this.#account(scope).waiting.add(runId);
  }

  /**
   * Lets a run start, or says what it has to wait for. One that waits for another to end is called by `next`: in order,
   * and none that came later gets ahead.
   */
  start(runId: string, budgets: readonly Budget[], now: Ms): Parked | undefined {
    const called = budgets.filter(({ scope }) => this.#account(scope).called.delete(runId));
    const parked = this.#tokens(budgets, now) ?? this.#mustWait(budgets, called);
    for (const { scope } of budgets) {
      const account = this.#account(scope);
      if (parked) {
        account.active.delete(runId);
        if (parked.limit === "concurrent" && parked.scope === scope) {
          // One that was called keeps its place before those that came later.
          if (called.some((budget) => budget.scope === scope)) account.line.unshift(runId);
          else if (!account.line.includes(runId)) account.line.push(runId);
        }
        continue;
      }
      account.waiting.delete(runId);
      account.active.add(runId);
      account.running.add(runId);
      account.begun.push(now);
      if (account.begun.length > MAX_BEGUN) account.begun.shift();
    }
    return parked;
  }

  #mustWait(budgets: readonly Budget[], called: readonly Budget[]): Parked | undefined {
    const busy = budgets.find(({ scope, limits: { concurrent } }) => {
      if (concurrent === undefined) return false;
      const account = this.#account(scope);
      if (account.running.size + account.called.size >= concurrent) return true;
      return account.line.length > 0 && !called.some((budget) => budget.scope === scope);
    });
    return busy && { scope: busy.scope, limit: "concurrent" };
  }

  /** A run is over, or put back. `tokens` is what it has used. */
  ended(runId: string, budgets: readonly Budget[], now: Ms, { tokens, again }: { tokens: number; again: boolean }): void {
    for (const { scope } of budgets) {
      const account = this.#account(scope);
      account.forget(runId);
      if (again) account.waiting.add(runId);
      if (tokens > 0) account.used.push({ at: now, tokens });
    }
  }

  /** Runs that may start now that another has ended; each has to be put back into the queue. */
  next(budgets: readonly Budget[]): string[] {
    const runs: string[] = [];
    for (const {
      scope,
      limits: { concurrent = Infinity },
    } of budgets) {
      const account = this.#account(scope);
      while (account.line.length > 0 && account.running.size + account.called.size < concurrent) {
        const runId = account.line.shift() as string;
        account.called.add(runId);
        runs.push(runId);
      }
    }
    return runs;
  }

  /** What is known of a budget, for the operator. */
  usage({ scope, limits }: Budget, now: Ms): BudgetUse {
    const account = this.#account(scope);
    account.tokensAt(limits.tokensPerDay, now);
    return {
      startedLastHour: account.begun.filter((at) => at > now - HOUR_MS).length,
      running: account.running.size,
      waiting: account.waiting.size,
      tokensLastDay: account.used.reduce((total, { tokens }) => total + tokens, 0),
    };
  }

  /**
   * Counts afresh from what the store has: `runs` are all that started within a day or have not ended, oldest first.
   * Runs that this process carries out now stay counted as running.
   */
  recount(runs: readonly RunRecord[], budgetsOf: Budgets["of"], now: Ms): void {
    const running = new Set([...this.#accounts.values()].flatMap((account) => [...account.running]));
    this.#accounts.clear();
    for (const run of runs) {
      const began = run.startedAt !== undefined || run.endedAt !== undefined || run.status === "queued";
      for (const { scope, limits } of budgetsOf(run.mapping)) {
        const account = this.#account(scope);
        const startedAt = run.startedAt ?? run.createdAt;
        if (began && startedAt > now - HOUR_MS) account.takeSlot(limits.runsPerHour, startedAt);
        if (run.startedAt !== undefined && run.startedAt > now - HOUR_MS) account.begun.push(run.startedAt);
        if (run.endedAt !== undefined) {
          if (run.endedAt > now - DAY_MS) account.used.push({ at: run.endedAt, tokens: tokensOf(run) });
          continue;
        }
        if (running.has(run.id)) account.running.add(run.id);
        else account.waiting.add(run.id);
        if (run.status === "queued" || run.status === "running") account.active.add(run.id);
      }
    }
    for (const { used } of this.#accounts.values()) used.sort((a, b) => a.at - b.at);
  }
}

export function tokensOf({ usage }: Pick<RunRecord, "usage">): number {
  return usage?.totalTokens ?? (usage?.inputTokens ?? 0) + (usage?.outputTokens ?? 0);
}
