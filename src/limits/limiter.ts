import type { LimitsConfig } from "../config/schema/limits.ts";
import type { Ms, ParkedByLimit, RunRecord, BudgetUsage } from "../store/types.ts";
import { DAY_MS, decide, HOUR_MS } from "./policy.ts";
import type { Budget, Budgets, BudgetStatus, RunSpend } from "./types.ts";

/** Makes the budgets of a snapshot from `hooks.limits` and those of its mappings. */
export function createBudgets(
  hooks: LimitsConfig | undefined,
  mappings: { settings(mapping: string): { budget?: Budget } | undefined; readonly budgets: readonly Budget[] },
): Budgets {
  const shared: Budget[] = hooks ? [{ scope: "hooks", limits: hooks }] : [];
  return {
    of(mapping) {
      const own = mapping === undefined ? undefined : mappings.settings(mapping)?.budget;
      return own ? [...shared, own] : shared;
    },
    all: [...shared, ...mappings.budgets],
  };
}

/** The most starts within an hour that are counted for the operator. */
const MAX_STARTED = 100_000;

/** What one run has used. */
interface Use {
  at: Ms;
  tokens: number;
  costUsd: number;
}

/** What a budget has spent, and which runs wait for it. */
class Account {
  /** When the last runs started or, for those that are parked, will: in order, at most `runsPerHour`. */
  readonly starts: Ms[] = [];
  /** The runs that started within the last hour, and when they did last: for the operator. */
  readonly startedLastHour = new Map<string, Ms>();
  /** Accepted, and neither parked nor ended. */
  readonly active = new Set<string>();
  readonly running = new Set<string>();
  /** Accepted and not started. */
  readonly waiting = new Set<string>();
  /** What each run has used in all, in the order in which it was counted last. */
  readonly used = new Map<string, Use>();
  /** ParkedByLimit until another run ends, in order; and those of them that may start now. */
  readonly waitQueue: string[] = [];
  readonly released = new Set<string>();

  addStart(runId: string, at: Ms): void {
    this.startedLastHour.delete(runId);
    this.startedLastHour.set(runId, at);
    const [first] = this.startedLastHour.keys();
    if (first !== undefined && this.startedLastHour.size > MAX_STARTED) this.startedLastHour.delete(first);
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

  /** The starts by which `runsPerHour` is decided. */
  hourUse({ runsPerHour }: LimitsConfig, now: Ms): Pick<BudgetUsage, "starts" | "nextStartAt"> {
    while (this.starts[0] !== undefined && this.starts[0] <= now - HOUR_MS) this.starts.shift();
    const oldest = runsPerHour === undefined ? undefined : this.starts.at(-runsPerHour);
    return { starts: this.starts.length, nextStartAt: oldest === undefined ? undefined : oldest + HOUR_MS };
  }

  /** Counts what a run has used in all: it replaces what was counted of it before. */
  spend(runId: string, use: Use): void {
    if (use.tokens > 0 || use.costUsd > 0) {
      this.used.delete(runId);
      this.used.set(runId, use);
    }
    for (const [id, { at }] of this.used) {
      if (at > use.at - DAY_MS) break;
      this.used.delete(id);
    }
  }

  sumLastDay(name: "tokens" | "costUsd", now: Ms): number {
    let total = 0;
    for (const use of this.used.values()) if (use.at > now - DAY_MS) total += use[name];
    return total;
  }

  /** When the sum falls below `limit` again. */
  #freeAt(name: "tokens" | "costUsd", sum: number, limit: number, now: Ms): Ms | undefined {
    let left = sum;
    for (const use of this.used.values()) if (use.at > now - DAY_MS && (left -= use[name]) < limit) return use.at + DAY_MS;
    return undefined;
  }

  /** What `tokensPerDay` and `budget` are decided by. */
  dayUse({ tokensPerDay, budget }: LimitsConfig, now: Ms): Pick<BudgetUsage, "tokens" | "tokensFreeAt" | "costUsd" | "costFreeAt"> {
    const tokens = tokensPerDay === undefined ? 0 : this.sumLastDay("tokens", now);
    const costUsd = budget === undefined ? 0 : this.sumLastDay("costUsd", now);
    return {
      tokens,
      costUsd,
      ...(tokensPerDay !== undefined && { tokensFreeAt: this.#freeAt("tokens", tokens, tokensPerDay, now) }),
      ...(budget !== undefined && { costFreeAt: this.#freeAt("costUsd", costUsd, budget.perDay, now) }),
    };
  }

  remove(runId: string): void {
    for (const runs of [this.active, this.running, this.waiting, this.released]) runs.delete(runId);
    const place = this.waitQueue.indexOf(runId);
    if (place >= 0) this.waitQueue.splice(place, 1);
  }
}

/**
 * Counts what runs spend, in memory: all of it can be counted again from the runs in the store. `runsPerHour` is applied
 * when a run is accepted, which sets its start time; the other limits are applied when the run is about to start.
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

  #decide(budgets: readonly Budget[], now: Ms, toUsage: (account: Account, budget: Budget) => BudgetUsage): ParkedByLimit | undefined {
    const decision = decide(new Map(budgets.map((budget) => [budget.scope, toUsage(this.#account(budget.scope), budget)])), budgets, now);
    return decision.start ? undefined : decision.reason;
  }

  /** How many runs wait for a scope. */
  waiting(scope: string): number {
    return this.#account(scope).waiting.size;
  }

  /** Takes a place for a run that is accepted now. Returns what it will have to wait for, and the moment that it was given. */
  reserve(runId: string, budgets: readonly Budget[], now: Ms): { at: Ms; parked: ParkedByLimit | undefined } {
    const parked = this.#decide(budgets, now, (account, { limits }) => ({
      ...account.hourUse(limits, now),
      ...account.dayUse(limits, now),
      // What is accepted and not parked will run before this one.
      busy: account.active.size,
      isQueued: account.waitQueue.length > 0,
    }));
    const at = (parked?.limit === "runsPerHour" ? parked.until : undefined) ?? now;
    for (const { scope, limits } of budgets) {
      const account = this.#account(scope);
      account.takeSlot(limits.runsPerHour, at);
      account.waiting.add(runId);
      if (!parked) account.active.add(runId);
    }
    return { at, parked };
  }

  /** A place that was taken for a run that was not accepted after all. */
  giveBack(runId: string, budgets: readonly Budget[], at?: Ms): void {
    for (const { scope } of budgets) {
      const account = this.#account(scope);
      account.remove(runId);
      if (at !== undefined) account.giveSlotBack(at);
    }
  }

  isRunning(runId: string, budgets: readonly Budget[]): boolean {
    return budgets.some(({ scope }) => this.#account(scope).running.has(runId));
  }

  /** Counts a batch's run as one that waits; its place is taken when the batch closes. */
  addWaiting(runId: string, budgets: readonly Budget[]): void {
    for (const { scope } of budgets) this.#account(scope).waiting.add(runId);
  }

  /**
   * Lets a run start, or says what it has to wait for. A run that waits for another to end is released by `releaseNext`:
   * in order, and none that came later gets ahead.
   */
  start(runId: string, budgets: readonly Budget[], now: Ms): ParkedByLimit | undefined {
    const released = new Set(budgets.flatMap(({ scope }) => (this.#account(scope).released.delete(runId) ? [scope] : [])));
    const parked = this.#decide(budgets, now, (account, { scope, limits }) => ({
      // The moment that `place` gave the run has come.
      starts: 0,
      ...account.dayUse(limits, now),
      busy: account.running.size + account.released.size,
      isQueued: account.waitQueue.length > 0 && !released.has(scope),
    }));
    for (const { scope } of budgets) {
      const account = this.#account(scope);
      if (parked) {
        account.active.delete(runId);
        if (parked.limit !== "concurrent" || parked.scope !== scope) continue;
        // A released run keeps its place before those that came later.
        if (released.has(scope)) account.waitQueue.unshift(runId);
        else if (!account.waitQueue.includes(runId)) account.waitQueue.push(runId);
        continue;
      }
      account.waiting.delete(runId);
      account.active.add(runId);
      account.running.add(runId);
      account.addStart(runId, now);
    }
    return parked;
  }

  /** A run has ended, is back in the queue (`again`), or waits for a person. */
  ended(runId: string, budgets: readonly Budget[], now: Ms, { tokens, costUsd = 0, again }: RunSpend): void {
    for (const { scope } of budgets) {
      const account = this.#account(scope);
      account.remove(runId);
      if (again) account.waiting.add(runId);
      account.spend(runId, { at: now, tokens, costUsd });
    }
  }

  /** Runs that may start now that another has ended; each has to be put back into the queue. */
  releaseNext(budgets: readonly Budget[]): string[] {
    return budgets.flatMap(({ scope, limits: { concurrent = Infinity } }) => {
      const { waitQueue, running, released } = this.#account(scope);
      const runs = waitQueue.splice(0, Math.max(0, concurrent - running.size - released.size));
      for (const runId of runs) released.add(runId);
      return runs;
    });
  }

  /** What is known of a budget, for the operator. */
  usage({ scope }: Budget, now: Ms): BudgetStatus {
    const account = this.#account(scope);
    return {
      startedLastHour: [...account.startedLastHour.values()].filter((at) => at > now - HOUR_MS).length,
      running: account.running.size,
      waiting: account.waiting.size,
      tokensLastDay: account.sumLastDay("tokens", now),
      costLastDay: account.sumLastDay("costUsd", now),
    };
  }

  /**
   * Counts again from the store: `runs` are all that started within a day or have not ended, oldest first.
   * Runs that this process executes now stay counted as running.
   */
  recount(runs: readonly RunRecord[], budgetsOf: Budgets["of"], now: Ms): void {
    const running = new Set([...this.#accounts.values()].flatMap((account) => [...account.running]));
    this.#accounts.clear();
    const byUse = runs.toSorted((a, b) => toUsedAt(a) - toUsedAt(b));
    for (const run of byUse)
      for (const { scope } of budgetsOf(run.mapping))
        this.#account(scope).spend(run.id, { at: toUsedAt(run), tokens: countUsedTokens(run), costUsd: run.usage?.costUsd ?? 0 });
    for (const run of runs) {
      const began = run.startedAt !== undefined || run.endedAt !== undefined || run.status === "queued";
      for (const { scope, limits } of budgetsOf(run.mapping)) {
        const account = this.#account(scope);
        const startedAt = run.startedAt ?? run.createdAt;
        if (began && startedAt > now - HOUR_MS) account.takeSlot(limits.runsPerHour, startedAt);
        if (run.startedAt !== undefined && run.startedAt > now - HOUR_MS) account.addStart(run.id, run.startedAt);
        // A run that waits for a person holds no place, and waits for none.
        if (run.endedAt !== undefined || run.status === "waiting") continue;
        if (running.has(run.id)) account.running.add(run.id);
        else account.waiting.add(run.id);
        if (run.status === "queued" || run.status === "running") account.active.add(run.id);
      }
    }
  }
}

/** When what a run has used is counted. */
const toUsedAt = ({ endedAt, waiting, startedAt, createdAt }: RunRecord): Ms => endedAt ?? waiting?.since ?? startedAt ?? createdAt;

/** The tokens that a run or a turn has used. */
export function countUsedTokens({ usage }: Pick<RunRecord, "usage">): number {
  return usage?.totalTokens ?? (usage?.inputTokens ?? 0) + (usage?.outputTokens ?? 0);
}
