import { safeError } from "../core/errors.ts";
import {
  type Counted,
  countUsedTokens,
  isInLine,
  isLimited,
  MICRO,
  type Ms,
  type LimitReason,
  type RunRecord,
  WAITING,
  ALL_RUNS,
  toCounter,
} from "../store/types.ts";
import { type BudgetAccount, type Need, toNeed } from "./account.ts";
import { createBatches, type Batches, type Joined } from "./batches.ts";
import { fullFailure, createLimitLog, createReasons } from "./limit-text.ts";
import { findMissing, Reservations, type Missing } from "./reservations.ts";
import { createReleaser, type Released } from "./releaser.ts";
import { sumUp } from "./windows.ts";
import type {
  AdmissionDeps,
  Admitted,
  Applicant,
  Budget,
  BudgetView,
  Placement,
  ReleasedRun,
  RunSpend,
  Budgets,
} from "./types.ts";
import type { LimitsConfig } from "../config/schema/limits.ts";

/** Makes the budgets of a snapshot from `hooks.limits` and those of its mappings. */
export function createBudgets(
  hooks: LimitsConfig | undefined,
  mappings: {
    settings(mapping: string): { budget?: Budget } | undefined;
    readonly budgets: readonly Budget[];
    readonly mappings: readonly { id: string }[];
  },
): Budgets {
  const shared: Budget[] = hooks ? [{ scope: ALL_RUNS, limits: hooks }] : [];
  return {
    of(mapping) {
      const own = mapping === undefined ? undefined : mappings.settings(mapping)?.budget;
      return own ? [...shared, own] : shared;
    },
    all: [...shared, ...mappings.budgets],
    counters: (scope) =>
      scope === ALL_RUNS
        ? [ALL_RUNS]
        : mappings.mappings.flatMap(({ id }) =>
            mappings.settings(id)?.budget?.scope === scope ? [toCounter(id)] : [],
          ),
  };
}

/**
 * Returns the first budget whose `limits.queue` has no room left; undefined if all may wait. `wanted` has one entry for
 * each budget of each run that would wait, `waiting` tells how many runs wait for a scope already.
 */
export function findFull(
  wanted: readonly Budget[],
  waiting: (scope: string) => number,
): Budget | undefined {
  const counts = new Map<string, number>();
  return wanted.find(({ scope, limits: { queue = Infinity } }) => {
    const count = (counts.get(scope) ?? waiting(scope)) + 1;
    counts.set(scope, count);
    return count > queue;
  });
}

const TICK_MS = 1000;
/** Ticks between looks for parked runs that no commit of this gateway reported, and between those for counters of times that are over. */
const LOOK_TICKS = 10;
const TIDY_TICKS = 600;

const QUEUED_PLACEMENT: Placement = { state: "queued" };

/** A run that may start, or has. */
interface Active {
  accounts: readonly BudgetAccount[];
  need: Need;
  isStarted: boolean;
}

/** Decides which runs may be accepted, may start, or have to wait. */
export class Admission {
  readonly #deps: AdmissionDeps;
  readonly #reservations: Reservations;
  readonly #batches: Batches;
  readonly #release: () => Promise<Released>;
  readonly #reasons: ReturnType<typeof createReasons>;
  readonly #logLimit: ReturnType<typeof createLimitLog>;
  readonly #active = new Map<string, Active>();
  #isRestored = false;
  /** There may be runs that are parked. */
  #mayWait = true;
  #releasing: Promise<void> | undefined;
  #isWanted = false;

  constructor(deps: AdmissionDeps) {
    this.#deps = deps;
    this.#reservations = new Reservations(deps);
    this.#batches = createBatches(deps.batches);
    this.#reasons = createReasons(deps.store);
    this.#logLimit = createLimitLog(deps);
    this.#release = createReleaser({
      ...deps,
      findRoom: (budgets) => this.#reservations.findRoom(budgets),
    });
  }

  /** Takes room for the runs of one event, all or none, and returns the place of each. Changes none of them. */
  async admit(applicants: readonly Applicant[], now: Ms): Promise<Admitted> {
    const { usage } = this.#deps;
    const isLimited = ({ action, batch }: Applicant): boolean =>
      batch !== undefined || this.#getBudgets(action.mapping).length > 0;
    if (usage.shared && applicants.some(isLimited)) await this.#reservations.refresh();
    const joined = new Map<Applicant, Joined>();
    /** The mappings of the runs that take a place. */
    const taking: (string | undefined)[] = [];
    for (const applicant of applicants) {
      const { action, batch } = applicant;
      if (batch) {
        const joining = this.#batches.join({ action, batch });
        // Without other gateways nothing comes between a look at what waits and the place that is taken.
        const join = joining instanceof Promise ? await joining : joining;
        joined.set(applicant, join);
        if (!join.opened) continue;
      }
      taking.push(action.mapping);
    }
    const full = this.#findFull(taking);
    if (!full) return this.#place(applicants, joined, now);
    for (const { settle } of joined.values()) settle(false);
    const opened = [...joined.values()].filter(({ opened }) => opened);
    await Promise.all(opened.map(({ placement }) => this.dropBatch(placement.runId)));
    return { ok: false, failure: fullFailure(full) };
  }

  #findFull(mappings: readonly (string | undefined)[]): Budget | undefined {
    const wanted = mappings.flatMap((mapping) => this.#getBudgets(mapping));
    return findFull(
      wanted,
      (scope) => this.#reservations.all.find((account) => account.scope === scope)?.waiting ?? 0,
    );
  }

  #place(
    applicants: readonly Applicant[],
    joined: ReadonlyMap<Applicant, Joined>,
    now: Ms,
  ): Admitted {
    const settles: ((accepted: boolean) => void)[] = [];
    const placements = applicants.map((applicant): Placement => {
      const { action } = applicant;
      const join = joined.get(applicant);
      if (join) settles.push(join.settle);
      const budgets = join && !join.opened ? [] : this.#getBudgets(action.mapping);
      if (budgets.length === 0) return join?.placement ?? QUEUED_PLACEMENT;
      const parked = join ? undefined : this.#reservations.predict(budgets, now);
      const accounts = this.#reservations.of(budgets);
      const isInLine = !join;
      for (const account of accounts) account.addWaiting(1, isInLine);
      settles.push((accepted) => {
        if (!accepted) for (const account of accounts) account.addWaiting(-1, isInLine);
        else if (parked) this.#hold(parked, now);
      });
      return join?.placement ?? (parked ? { state: "parked", parked } : QUEUED_PLACEMENT);
    });
    return {
      ok: true,
      placements,
      settle: (accepted) => settles.forEach((settle) => settle(accepted)),
    };
  }

  /** Takes a place for a run that is accepted again, or whose batch has closed. Returns what it waits for, if it has to. */
  place(
    { mapping, status }: Pick<RunRecord, "mapping" | "status">,
    now: Ms,
  ): LimitReason | undefined {
    const budgets = this.#getBudgets(mapping);
    // A batch's run has waited since the batch was opened.
    const isCounted = status === "collecting";
    if (isCounted)
      for (const account of this.#reservations.of(budgets)) account.addWaiting(-1, false);
    const parked = this.#reservations.predict(budgets, now);
    for (const account of this.#reservations.of(budgets)) account.addWaiting(1, true);
    if (parked) this.#hold(parked, now);
    return parked;
  }

  /** Undefined if the run may start; it then must be given back by `release`. */
  start(run: RunRecord, now: Ms): LimitReason | undefined | Promise<LimitReason | undefined> {
    const budgets = this.#getBudgets(run.mapping);
    // Its place in the line is free.
    if (isLimited(run)) this.#kick();
    if (budgets.length === 0) return undefined;
    const accounts = this.#reservations.of(budgets);
    const need = toNeed(run);
    if (need.starts + need.places > 0 && !isLimited(run)) {
      const short = new Map(accounts.map((account) => [account.scope, account.findShort(need)]));
      const parked =
        [...short.values()].some(({ size }) => size > 0) && this.#park(run, budgets, short, now);
      if (parked) return parked;
    }
    if (need.starts + need.places === 0) return this.#take(run, accounts, need);
    return this.#reservations.reserve(accounts, need, () => {
      const missing = findMissing(accounts, need);
      if (!missing) return this.#take(run, accounts, need);
      for (const account of accounts)
        for (const name of missing.get(account.scope) ?? []) account.short.add(name);
      return this.#park(run, budgets, missing, this.#deps.clock.now());
    });
  }

  #take(run: RunRecord, accounts: readonly BudgetAccount[], need: Need): undefined {
    for (const account of accounts) account.take(need);
    this.#active.set(run.id, { accounts, need, isStarted: false });
  }

  #park(
    run: RunRecord,
    budgets: readonly Budget[],
    missing: Missing,
    now: Ms,
  ): LimitReason | undefined {
    const reason = this.#reservations.explain(budgets, missing, now);
    if (!reason) return undefined;
    this.#hold(reason, now);
    if (!isLimited(run)) for (const account of this.#reservations.of(budgets)) account.park();
    return reason;
  }

  /** The start of a run is on disk. */
  started(runId: string): void {
    const active = this.#active.get(runId);
    if (!active || active.isStarted) return;
    active.isStarted = true;
    for (const account of active.accounts) account.started(active.need, this.#deps.clock.now());
  }

  release(run: ReleasedRun, spend: RunSpend): void {
    const budgets = this.#getBudgets(run.mapping);
    const active = this.#active.get(run.id);
    this.#active.delete(run.id);
    if (active) this.#giveBack(run, active, spend);
    else if (budgets.length > 0)
      this.#giveBack(
        run,
        { accounts: this.#reservations.of(budgets), isStarted: run.status === "running" },
        spend,
      );
    if (this.#mayWait) this.#kick();
  }

  #giveBack(
    run: ReleasedRun,
    { accounts, need, isStarted }: Omit<Active, "need"> & Partial<Active>,
    { usage = {}, again }: RunSpend,
  ): void {
    const now = this.#deps.clock.now();
    const used = {
      again,
      tokens: Math.max(0, countUsedTokens({ usage }) - countUsedTokens(run)),
      micros: Math.max(0, Math.round(((usage.costUsd ?? 0) - (run.usage?.costUsd ?? 0)) * MICRO)),
    };
    for (const account of accounts) {
      if (isStarted) account.left(used, now);
      else if (need) account.untake(need);
      else if (!again && WAITING.includes(run.status)) account.addWaiting(-1, isInLine(run));
      else if (isInLine(run)) account.leaveLine();
    }
  }

  /** Closes the batch that a run collects; returns when it closes instead, if an event has put that off. */
  closeBatch(runId: string, now: Ms): Promise<Ms | undefined> {
    return this.#batches.close(runId, now);
  }

  /** No event joins the run any more; all that did are on disk. */
  dropBatch(runId: string): Promise<void> {
    return this.#batches.drop(runId);
  }

  /** Reads what the store has counted, and releases parked runs that have room: at start, and when limits change. */
  async recount(): Promise<void> {
    const { store } = this.#deps;
    if (!this.#isRestored) await this.#batches.restore(store);
    this.#isRestored = true;
    const fresh = this.#reservations.reset();
    if (fresh.length > 0) await this.#reservations.read(fresh);
    this.#reservations.markFresh();
    this.#kick();
    await this.#releasing;
  }

  /** Releases parked runs as room appears, until `signal` aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log, usage } = this.#deps;
    for (let ticks = 1; !signal.aborted; ticks++) {
      await clock.sleep(TICK_MS, signal);
      if (signal.aborted) return;
      try {
        await this.#reservations.tick();
        if (!usage.shared && ticks % TIDY_TICKS === 0) await this.tidy();
      } catch (error) {
        log.warn(
          { err: safeError(error) },
          "what this gateway has reserved of limits could not be corrected; it is tried again",
        );
      }
      if (this.#mayWait || ticks % LOOK_TICKS === 0) this.#kick();
    }
  }

  /** Deletes counters of times that count no more. One gateway does this for all. */
  async tidy(): Promise<void> {
    await this.#deps.usage.tidy();
  }

  async usage(): Promise<BudgetView[]> {
    const { all } = this.#deps.snapshot().budgets;
    const now = this.#deps.clock.now();
    const counted =
      all.length === 0
        ? new Map<string, Counted>()
        : await this.#reservations.read(all.map(({ scope }) => scope));
    return all.map((budget) => ({ ...budget, usage: sumUp(counted.get(budget.scope), now) }));
  }

  #getBudgets(mapping: string | undefined): readonly Budget[] {
    return this.#deps.snapshot().budgets.of(mapping);
  }

  #hold(parked: LimitReason, now: Ms): void {
    this.#mayWait = true;
    this.#logLimit(parked, now);
  }

  /** Looks for parked runs that have room, soon. */
  #kick(): void {
    this.#isWanted = true;
    this.#releasing ??= this.#releaseAll()
      .catch((error: unknown) =>
        this.#deps.log.warn(
          { err: safeError(error) },
          "parked runs could not be released; it is tried again",
        ),
      )
      .finally(() => (this.#releasing = undefined));
  }

  async #explainAll(lanes: readonly string[], short: Missing): Promise<void> {
    const now = this.#deps.clock.now();
    const reasons = lanes.flatMap((lane) => {
      const reason = this.#reservations.explain(this.#getBudgets(toMapping(lane)), short, now);
      return reason ? [[lane, reason] as const] : [];
    });
    const explain = this.#reservations.explainParked(short, now);
    await this.#reasons(new Map(reasons), now, (mapping) => explain(this.#getBudgets(mapping)));
  }

  async #releaseAll(): Promise<void> {
    while (this.#isWanted) {
      this.#isWanted = false;
      const { waits, more, short, mappings } = await this.#release();
      this.#mayWait = waits;
      for (const account of this.#reservations.all) {
        account.short.clear();
        for (const name of short.get(account.scope) ?? []) account.short.add(name);
      }
      if (more) this.#isWanted = true;
      else await this.#explainAll(mappings, short);
    }
  }
}

/** The mapping of a lane. */
const toMapping = (lane: string): string | undefined => (lane === "" ? undefined : lane);
