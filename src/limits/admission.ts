import { safeError } from "../core/errors.ts";
import type { Ms, ParkedByLimit, ListQuery, RunRecord, RunStatus, Store, Writes } from "../store/types.ts";
import { buildNotice, toLimitKey, fullFailure } from "./limit-text.ts";
import { HOUR_MS, DAY_MS } from "./policy.ts";
import type { AdmissionDeps, Budget, Admission, Admitted, Applicant, BudgetView, Placement, RunSpend } from "./types.ts";
import { BatchWindows } from "./batch-windows.ts";
import { Limiter } from "./limiter.ts";

/** The key of the stored times at which limits were notified of. */
const NOTIFIED_AT = "limits.told";

/** The runs that each limit holds back, and when the main session was notified of it last. */
export class HeldRuns {
  readonly #deps: AdmissionDeps;
  readonly #runs = new Map<string, Set<string>>();
  #notifiedAt: Record<string, Ms> = {};

  constructor(deps: AdmissionDeps) {
    this.#deps = deps;
  }

  /** Reads when the main session was notified of limits. */
  async load(): Promise<void> {
    this.#notifiedAt = ((await this.#deps.store.get("value", NOTIFIED_AT)) as Record<string, Ms> | undefined) ?? {};
  }

  /** Adds a run that is held back. Returns all that its limit holds back. */
  add(runId: string, parked: ParkedByLimit): ReadonlySet<string> {
    const runs = this.#runs.get(toLimitKey(parked)) ?? new Set();
    this.#runs.set(toLimitKey(parked), runs.add(runId));
    return runs;
  }

  /** Adds a run that is held back. The main session hears of the first one that a limit holds back, at most once an hour. */
  hold(runId: string, parked: ParkedByLimit, now: Ms): void {
    const { log } = this.#deps;
    const isFirst = this.add(runId, parked).size === 1 && now - (this.#notifiedAt[toLimitKey(parked)] ?? 0) >= HOUR_MS;
    if (!isFirst) return;
    log.warn({ scope: parked.scope, limit: parked.limit }, "a limit is reached: runs are parked");
    this.#notify(parked, now).catch((error: unknown) =>
      log.error({ err: safeError(error) }, "the main session could not be notified of a limit"),
    );
  }

  delete(runId: string): void {
    for (const runs of this.#runs.values()) runs.delete(runId);
  }

  clear(): void {
    this.#runs.clear();
  }

  async #notify(parked: ParkedByLimit, now: Ms): Promise<void> {
    const { store, context } = this.#deps;
    this.#notifiedAt = { ...this.#notifiedAt, [toLimitKey(parked)]: now };
    const notice = buildNotice(parked, context().budgets.all, context().agents.default.id, now);
    await store.commit((tx) => {
      tx.set("value", NOTIFIED_AT, this.#notifiedAt);
      tx.add("systemEvent", notice);
    });
  }
}

const PAGE = 1000;

async function listAll(store: Store, query: ListQuery & { status?: RunStatus }, most: number): Promise<RunRecord[]> {
  const runs: RunRecord[] = [];
  while (runs.length < most) {
    const before = runs.at(-1)?.id;
    const page = await store.list("runs", {
      ...query,
      limit: Math.min(PAGE, most - runs.length),
      ...(before === undefined ? {} : { before }),
    });
    runs.push(...page);
    if (page.length === 0) break;
  }
  return runs;
}

/** Reads the runs by which everything is counted, oldest first. */
export async function readCountedRuns(store: Store, budgets: readonly Budget[], now: Ms): Promise<RunRecord[]> {
  const counts = await store.counts();
  const unfinished = await Promise.all(
    (["parked", "collecting", "queued", "running", "waiting"] as const)
      // Without budgets only those matter that wait for one that was taken away, and windows.
      .filter((status) => budgets.length > 0 || status === "parked" || status === "collecting")
      .map((status) => listAll(store, { status }, counts[`runs.${status}`] ?? 0)),
  );
  const back = budgets.some(({ limits }) => limits.tokensPerDay !== undefined || limits.budget !== undefined) ? DAY_MS : HOUR_MS;
  const recent = budgets.length > 0 ? await listAll(store, { since: now - back }, Infinity) : [];
  const byId = new Map([...recent, ...unfinished.flat()].map((run) => [run.id, run]));
  return [...byId.values()].filter((run) => run.kind === "hook").toSorted((a, b) => (a.id < b.id ? -1 : 1));
}

/**
 * Returns the first budget whose `limits.queue` has no room left; undefined if all may wait. `wanted` has one entry for
 * each budget of each run that would wait, `waiting` tells how many runs wait for a scope already.
 */
export function findFull(wanted: readonly Budget[], waiting: (scope: string) => number): Budget | undefined {
  const counts = new Map<string, number>();
  return wanted.find(({ scope, limits: { queue = Infinity } }) => {
    const count = (counts.get(scope) ?? waiting(scope)) + 1;
    counts.set(scope, count);
    return count > queue;
  });
}

/** Where one action goes, and its part of what `settle` does. */
interface AdmittedOne {
  placement: Placement;
  settle?(accepted: boolean): void;
}

export const QUEUED_PLACEMENT: Placement = { state: "queued" };
const UNLIMITED: AdmittedOne = { placement: QUEUED_PLACEMENT };
const BATCH = 200;

/** Budgets and batches of one gateway, in memory: all of it can be counted again from the store. */
class LocalAdmission implements Admission {
  readonly #deps: AdmissionDeps;
  readonly #limiter = new Limiter();
  readonly #windows = new BatchWindows();
  readonly #held: HeldRuns;
  /** Windows are known from then on. */
  #restored = false;

  constructor(deps: AdmissionDeps) {
    this.#deps = deps;
    this.#held = new HeldRuns(deps);
  }

  admit(applicants: readonly Applicant[], now: Ms): Admitted {
    if (applicants.length === 0) return { ok: true, placements: [], settle: () => undefined };
    const wanted = applicants.flatMap(({ action, batch }) =>
      // An event that joins an open batch adds no run that waits.
      action.kind !== "run" || (batch && this.#windows.isOpen(action, batch.key, now)) ? [] : this.#getBudgets(action.mapping),
    );
    const full = findFull(wanted, (scope) => this.#limiter.waiting(scope));
    if (full) return { ok: false, failure: fullFailure(full) };
    const parts = applicants.map((applicant) => this.#admitOne(applicant, now));
    return {
      ok: true,
      placements: parts.map(({ placement }) => placement),
      settle: (accepted) => parts.forEach(({ settle }) => settle?.(accepted)),
    };
  }

  place(run: Pick<RunRecord, "id" | "mapping">, now: Ms): ParkedByLimit | undefined {
    const { parked } = this.#limiter.reserve(run.id, this.#getBudgets(run.mapping), now);
    if (parked) this.#held.hold(run.id, parked, now);
    return parked;
  }

  start(run: RunRecord, now: Ms): ParkedByLimit | undefined {
    const budgets = this.#getBudgets(run.mapping);
    if (budgets.length === 0) return undefined;
    const parked = this.#limiter.start(run.id, budgets, now);
    this.#held.delete(run.id);
    if (parked) {
      this.#held.hold(run.id, parked, now);
      // If it was released for one limit and another has no room, the next one is.
      this.#releaseNext(budgets.filter(({ scope }) => scope !== parked.scope));
    }
    return parked;
  }

  release(run: Pick<RunRecord, "id" | "mapping">, end: RunSpend): void {
    const budgets = this.#getBudgets(run.mapping);
    if (budgets.length === 0) return;
    this.#held.delete(run.id);
    this.#limiter.ended(run.id, budgets, this.#deps.clock.now(), end);
    this.#releaseNext(budgets);
  }

  closeBatch(runId: string, now: Ms): Promise<Ms | undefined> {
    return this.#windows.close(runId, now);
  }

  dropBatch(runId: string): Promise<void> {
    return this.#windows.drop(runId);
  }

  async recount(): Promise<void> {
    const { store, clock, context } = this.#deps;
    const now = clock.now();
    await this.#held.load();
    const runs = await readCountedRuns(store, context().budgets.all, now);
    this.#limiter.recount(runs, (mapping) => this.#getBudgets(mapping), now);
    if (!this.#restored) this.#windows.restore(runs.filter((run) => run.status === "collecting"));
    this.#restored = true;
    this.#held.clear();
    const parked = runs.filter((run) => run.status === "parked" && run.parked?.reason !== "provider");
    for (let from = 0; from < parked.length; from += BATCH)
      await store.commit((tx) => parked.slice(from, from + BATCH).forEach((run) => this.#replace(tx, run, now)));
  }

  usage(): BudgetView[] {
    const { clock, context } = this.#deps;
    return context().budgets.all.map((budget) => ({ ...budget, usage: this.#limiter.usage(budget, clock.now()) }));
  }

  #getBudgets(mapping: string | undefined): readonly Budget[] {
    return this.#deps.context().budgets.of(mapping);
  }

  #admitOne({ action, batch }: Applicant, now: Ms): AdmittedOne {
    if (action.kind !== "run") return UNLIMITED;
    const budgets = this.#getBudgets(action.mapping);
    if (batch) {
      const { event, ...settings } = batch;
      const { opened, settle, ...joined } = this.#windows.join(action, settings, event);
      if (opened) this.#limiter.addWaiting(joined.runId, budgets);
      return {
        placement: { state: "collecting", ...joined },
        settle: (accepted) => {
          settle(accepted);
          if (!accepted && opened) this.#limiter.giveBack(joined.runId, budgets);
        },
      };
    }
    if (budgets.length === 0) return UNLIMITED;
    const { at, parked } = this.#limiter.reserve(action.runId, budgets, now);
    return {
      placement: parked ? { state: "parked", parked } : QUEUED_PLACEMENT,
      settle: (accepted) => {
        if (!accepted) this.#limiter.giveBack(action.runId, budgets, at);
        else if (parked) this.#held.hold(action.runId, parked, now);
      },
    };
  }

  #releaseNext(budgets: readonly Budget[]): void {
    const runs = this.#limiter.releaseNext(budgets);
    if (runs.length > 0) void this.#wake(runs);
  }

  async #wake(runIds: readonly string[]): Promise<void> {
    const { store, clock, log } = this.#deps;
    for (;;) {
      try {
        await store.commit((tx) => runIds.forEach((id) => tx.update("job", "turn", id, clock.now())));
        return;
      } catch (error) {
        log.error({ err: safeError(error) }, "parked runs could not be released; it is tried again");
        await clock.sleep(1000);
      }
    }
  }

  /** Calculates the place of a parked run again, with the current limits. */
  #replace(tx: Writes, run: RunRecord, now: Ms): void {
    const budgets = this.#getBudgets(run.mapping);
    if (this.#limiter.isRunning(run.id, budgets)) return;
    const { parked } = this.#limiter.reserve(run.id, budgets, now);
    tx.update("run", run.id, parked ? { parked } : { status: "queued", parked: null });
    tx.update("job", "turn", run.id, parked?.until ?? now);
    if (parked) this.#held.add(run.id, parked);
  }
}

/** Creates the admission of a gateway that is alone on its store. */
export function createAdmission(deps: AdmissionDeps): Admission {
  return new LocalAdmission(deps);
}
