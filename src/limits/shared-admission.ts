import { newId } from "../core/ids.ts";
import { safeError } from "../core/errors.ts";
import type { Ms, ParkedByLimit, RunRecord, SharedUsage, StoredAction, BudgetUsage } from "../store/types.ts";
import { findFull, QUEUED_PLACEMENT } from "./admission.ts";
import { buildNotice, fullFailure, toLimitKey } from "./limit-text.ts";
import { countUsedTokens } from "./limiter.ts";
import { decide, HOUR_MS } from "./policy.ts";
import type { Admission, AdmissionDeps, Admitted, Applicant, Budget, BudgetStatus, BudgetView, Placement, RunSpend } from "./types.ts";
import { MAX_CHARS, windowName } from "./batch-windows.ts";

/** What is known of other gateways' use of a budget is that old at most, if it only predicts: `limits.queue`, and the answer's status. */
const FRESH_MS = 1000;

/** What budgets have spent, as it was read last, with what was accepted here since. */
function createForecast(deps: AdmissionDeps, shared: SharedUsage) {
  const { clock, log, context } = deps;
  let uses = new Map<string, BudgetStatus>();
  let accepted = new Map<string, number>();
  let readAt = -Infinity;
  let reading: Promise<void> | undefined;

  const read = async (): Promise<void> => {
    const at = clock.now();
    const { budgets } = context();
    const next = new Map<string, BudgetStatus>();
    const byMapping = await shared.waiting();
    for (const { scope } of budgets.all) next.set(scope, { ...(await shared.spent(scope)), waiting: 0 });
    for (const [mapping, count] of byMapping)
      for (const { scope } of budgets.of(mapping === "" ? undefined : mapping)) {
        const use = next.get(scope);
        if (use) use.waiting += count;
      }
    uses = next;
    accepted = new Map();
    readAt = at;
  };
  const refresh = (): Promise<void> => (reading ??= read().finally(() => (reading = undefined)));

  return {
    refresh,
    use: (scope: string): BudgetStatus =>
      uses.get(scope) ?? { startedLastHour: 0, running: 0, waiting: 0, tokensLastDay: 0, costLastDay: 0 },
    accepted: (scope: string): number => accepted.get(scope) ?? 0,
    accept(budgets: readonly Budget[], n: number): void {
      for (const { scope } of budgets) accepted.set(scope, (accepted.get(scope) ?? 0) + n);
    },
    /** Waits only if nothing is known yet. */
    async know(): Promise<void> {
      if (Math.abs(clock.now() - readAt) < FRESH_MS) return;
      const next = refresh();
      if (readAt === -Infinity) return next;
      next.catch((error: unknown) =>
        log.warn({ err: safeError(error) }, "what budgets have spent could not be read; what is known stays in use"),
      );
    },
  };
}

/** Budgets and windows that several gateways share: decided in the store. */
class ClusterAdmission implements Admission {
  readonly #deps: AdmissionDeps;
  readonly #shared: SharedUsage;
  readonly #forecast: ReturnType<typeof createForecast>;
  readonly #notifiedAt = new Map<string, Ms>();

  constructor(deps: AdmissionDeps, shared: SharedUsage) {
    this.#deps = deps;
    this.#shared = shared;
    this.#forecast = createForecast(deps, shared);
  }

  admit(applicants: readonly Applicant[], now: Ms): Admitted | Promise<Admitted> {
    const isLimited = applicants.some(
      ({ action, batch }) => action.kind === "run" && (batch || this.#getBudgets(action.mapping).length > 0),
    );
    if (isLimited) return this.#admitShared(applicants, now);
    return { ok: true, placements: applicants.map(() => QUEUED_PLACEMENT), settle: () => undefined };
  }

  place(): undefined {
    return undefined;
  }

  async start(run: RunRecord, now: Ms): Promise<ParkedByLimit | undefined> {
    const budgets = this.#getBudgets(run.mapping);
    if (budgets.length === 0) return undefined;
    const parked = await this.#shared.start(run.id, budgets, decide);
    if (parked)
      this.#notify(parked, now).catch((error: unknown) =>
        this.#deps.log.error({ err: safeError(error) }, "the main session could not be notified of a limit"),
      );
    return parked;
  }

  parked(runId: string): Promise<void> {
    return this.#shared.parked(runId);
  }

  release(run: Pick<RunRecord, "id" | "mapping">, { tokens, costUsd }: RunSpend): void {
    const budgets = this.#getBudgets(run.mapping);
    if (budgets.length === 0) return;
    // What cannot be written now is found by `tidy`.
    this.#shared
      .release(run.id, budgets, tokens, costUsd)
      .catch((error: unknown) => this.#deps.log.warn({ err: safeError(error), runId: run.id }, "a budget could not be given back yet"));
  }

  closeBatch(runId: string, now: Ms): Promise<Ms | undefined> {
    return this.#shared.close(runId, now);
  }

  async dropBatch(runId: string): Promise<void> {
    await this.#shared.close(runId, Number.MAX_SAFE_INTEGER / 2);
  }

  recount(): Promise<void> {
    return this.#shared.reopen(this.#deps.context().budgets.all);
  }

  async tidy(): Promise<void> {
    const { store, context } = this.#deps;
    const { all } = context().budgets;
    // No run may wait while there is room.
    if (all.length > 0) await this.#shared.release("", all, 0);
    for (const id of await this.#shared.strays()) {
      const run = await store.get("run", id);
      await this.#shared.release(id, run ? this.#getBudgets(run.mapping) : [], run ? countUsedTokens(run) : 0, run?.usage?.costUsd);
    }
  }

  async usage(): Promise<BudgetView[]> {
    await this.#forecast.refresh();
    return this.#deps.context().budgets.all.map((budget) => ({ ...budget, usage: this.#forecast.use(budget.scope) }));
  }

  #getBudgets(mapping: string | undefined): readonly Budget[] {
    return this.#deps.context().budgets.of(mapping);
  }

  /** Notifies the main session, once an hour for each limit: all gateways give the notice the same id. */
  async #notify(parked: ParkedByLimit, now: Ms): Promise<void> {
    if (now - (this.#notifiedAt.get(toLimitKey(parked)) ?? 0) < HOUR_MS) return;
    this.#notifiedAt.set(toLimitKey(parked), now);
    const { store, log, context } = this.#deps;
    log.warn({ scope: parked.scope, limit: parked.limit }, "a limit is reached: runs are parked");
    const id = `sev_limit:${toLimitKey(parked)}:${Math.floor(now / HOUR_MS)}`;
    const notice = buildNotice(parked, context().budgets.all, context().agents.default.id, now);
    await store.commit((tx) => tx.add("systemEvent", { ...notice, id }));
  }

  /** How many runs wait, as far as is known here. */
  #waiting(scope: string): number {
    return this.#forecast.use(scope).waiting + this.#forecast.accepted(scope);
  }

  /** Predicts what will hold a run back; it is decided when the run is about to start. */
  #predict(budgets: readonly Budget[], now: Ms): ParkedByLimit | undefined {
    const usage = budgets.map(({ scope }): [string, BudgetUsage] => {
      const { startedLastHour, running, tokensLastDay: tokens, costLastDay: costUsd } = this.#forecast.use(scope);
      const before = this.#waiting(scope);
      return [scope, { starts: startedLastHour + before, tokens, costUsd, busy: running + before, isQueued: false }];
    });
    const decision = decide(new Map(usage), budgets, now);
    return decision.start ? undefined : decision.reason;
  }

  /** Joins the batches of actions that are collected. Returns where these go, and the runs of the batches that were opened. */
  async #join(applicants: readonly Applicant[]) {
    const opened = new Map<string, string | undefined>();
    const placements = new Map<StoredAction, Placement>();
    for (const { action, batch } of applicants) {
      if (action.kind !== "run" || !batch) continue;
      const { event, key, windowSeconds, maxSeconds, maxEvents } = batch;
      const joined = await this.#shared.join({
        name: windowName(action, key),
        // Another one than that of a batch which has closed meanwhile.
        runId: newId("run", event.at),
        at: event.at,
        windowMs: windowSeconds * 1000,
        maxMs: maxSeconds * 1000,
        maxEvents,
        chars: JSON.stringify(event).length,
        maxChars: MAX_CHARS,
      });
      const { runId, closesAt } = joined;
      placements.set(action, { state: "collecting", runId, batch: { key, closesAt, event, shared: true } });
      if (joined.opened) opened.set(runId, action.mapping);
    }
    return { opened, placements };
  }

  async #admitShared(applicants: readonly Applicant[], now: Ms): Promise<Admitted> {
    await this.#forecast.know();
    const { opened, placements } = await this.#join(applicants);
    const plain = applicants.flatMap(({ action, batch }) => (action.kind === "run" && !batch ? [action] : []));
    const mappings = [...plain.map((action) => action.mapping), ...opened.values()];
    const full = findFull(
      mappings.flatMap((mapping) => this.#getBudgets(mapping)),
      (scope) => this.#waiting(scope),
    );
    if (full) {
      await Promise.all([...opened.keys()].map((runId) => this.dropBatch(runId)));
      return { ok: false, failure: fullFailure(full) };
    }
    for (const action of plain) {
      const budgets = this.#getBudgets(action.mapping);
      const parked = this.#predict(budgets, now);
      if (parked) placements.set(action, { state: "parked", parked });
      this.#forecast.accept(budgets, 1);
    }
    for (const mapping of opened.values()) this.#forecast.accept(this.#getBudgets(mapping), 1);
    return {
      ok: true,
      placements: applicants.map(({ action }) => placements.get(action) ?? QUEUED_PLACEMENT),
      settle: (accepted) => {
        if (!accepted) for (const mapping of mappings) this.#forecast.accept(this.#getBudgets(mapping), -1);
      },
    };
  }
}

/** Creates the admission of a gateway of a cluster. */
export function createSharedAdmission(deps: AdmissionDeps, shared: SharedUsage): Admission {
  return new ClusterAdmission(deps, shared);
}
