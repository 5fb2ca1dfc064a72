import { newId } from "../core/ids.ts";
import { safeError } from "../core/errors.ts";
import type { Allowance, Ledger, Ms, Parked, StoredAction } from "../store/types.ts";
import { QUEUED, type AdmissionDeps } from "./admission.ts";
import { fullFailure, keyOf, limitText } from "./limit-text.ts";
import { HOUR_MS, tokensOf, type Budget, type BudgetUse } from "./limits.ts";
import type { Admission, Admitted, Applicant, BudgetView, Placement } from "./types.ts";
import { MAX_CHARS, windowName } from "./windows.ts";

/** What is known of the others' use of a budget is that old at most, where it only tells what will be: `limits.queue`, and the answer's status. */
const FRESH_MS = 1000;

const allowancesOf = (budgets: readonly Budget[]): Allowance[] =>
  budgets.map(({ scope, limits: { runsPerHour, concurrent, tokensPerDay } }) => ({ scope, runsPerHour, concurrent, tokensPerDay }));

/** What budgets have spent, as it was read last, with what was accepted here since. */
function createForecast(deps: AdmissionDeps, ledger: Ledger) {
  const { clock, log, context } = deps;
  let uses = new Map<string, BudgetUse>();
  let accepted = new Map<string, number>();
  let readAt = -Infinity;
  let reading: Promise<void> | undefined;

  const read = async (): Promise<void> => {
    const at = clock.now();
    const { budgets } = context();
    const next = new Map<string, BudgetUse>();
    const byMapping = await ledger.waiting();
    for (const { scope } of budgets.all) next.set(scope, { ...(await ledger.spent(scope)), waiting: 0 });
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
    use: (scope: string): BudgetUse => uses.get(scope) ?? { startedLastHour: 0, running: 0, waiting: 0, tokensLastDay: 0 },
    accepted: (scope: string): number => accepted.get(scope) ?? 0,
    accept(budgets: readonly Budget[], n: number): void {
      for (const { scope } of budgets) accepted.set(scope, (accepted.get(scope) ?? 0) + n);
    },
    /** Waits only where nothing is known yet. */
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
export function createSharedAdmission(deps: AdmissionDeps, ledger: Ledger): Admission {
  const { store, log, context } = deps;
  const forecast = createForecast(deps, ledger);
  const told = new Map<string, Ms>();
  const budgetsOf = (mapping: string | undefined): readonly Budget[] => context().budgets.of(mapping);

  /** Tells the main session, once an hour for each limit: all gateways give it the same id. */
  const tell = async (parked: Parked, now: Ms): Promise<void> => {
    if (now - (told.get(keyOf(parked)) ?? 0) < HOUR_MS) return;
    told.set(keyOf(parked), now);
    log.warn({ scope: parked.scope, limit: parked.limit }, "a limit is reached: runs are parked");
    const text = limitText(parked, context().budgets.all);
    const event = { agentId: context().agents.standard.id, at: now, text: [{ text, outside: false }], source: "limits" };
    const id = `sev_limit:${keyOf(parked)}:${Math.floor(now / HOUR_MS)}`;
    await store.commit((tx) => tx.addSystemEvent({ ...event, id, mode: "next-heartbeat", unsafe: false }));
  };

  /** What will probably hold a run back; it is decided when the run is about to start. */
  const predict = (budgets: readonly Budget[]): Parked | undefined => {
    for (const { scope, limits } of budgets) {
      const { startedLastHour, running, waiting, tokensLastDay } = forecast.use(scope);
      const before = waiting + forecast.accepted(scope);
      if (limits.runsPerHour !== undefined && startedLastHour + before >= limits.runsPerHour) return { scope, limit: "runsPerHour" };
      if (limits.tokensPerDay !== undefined && tokensLastDay >= limits.tokensPerDay) return { scope, limit: "tokensPerDay" };
      if (limits.concurrent !== undefined && running + before >= limits.concurrent) return { scope, limit: "concurrent" };
    }
    return undefined;
  };

  const fullOf = (mappings: readonly (string | undefined)[]): Budget | undefined => {
    const wanted = new Map<Budget, number>();
    for (const mapping of mappings) for (const budget of budgetsOf(mapping)) wanted.set(budget, (wanted.get(budget) ?? 0) + 1);
    for (const [budget, count] of wanted) {
      const { queue } = budget.limits;
      const { scope } = budget;
      if (queue !== undefined && forecast.use(scope).waiting + forecast.accepted(scope) + count > queue) return budget;
    }
    return undefined;
  };

  /** Joins the windows of actions that are collected. Returns where these go, and the runs of the windows that were opened. */
  const join = async (applicants: readonly Applicant[]) => {
    const opened = new Map<string, string | undefined>();
    const placements = new Map<StoredAction, Placement>();
    for (const { action, collect } of applicants) {
      if (action.kind !== "run" || !collect) continue;
      const { event, key, windowSeconds, maxSeconds, maxEvents } = collect;
      const joined = await ledger.join({
        name: windowName(action, key),
        // Another one than that of a window which has closed meanwhile.
        runId: newId("run", event.at),
        at: event.at,
        windowMs: windowSeconds * 1000,
        maxMs: maxSeconds * 1000,
        maxEvents,
        chars: JSON.stringify(event).length,
        maxChars: MAX_CHARS,
      });
      const { runId, closesAt } = joined;
      placements.set(action, { state: "collecting", runId, collect: { key, closesAt, event, shared: true } });
      if (joined.opened) opened.set(runId, action.mapping);
    }
    return { opened, placements };
  };

  const drop = async (runId: string): Promise<void> => void (await ledger.close(runId, Number.MAX_SAFE_INTEGER / 2));

  const admitShared = async (applicants: readonly Applicant[]): Promise<Admitted> => {
    await forecast.know();
    const { opened, placements } = await join(applicants);
    const plain = applicants.flatMap(({ action, collect }) => (action.kind === "run" && !collect ? [action] : []));
    const mappings = [...plain.map((action) => action.mapping), ...opened.values()];
    const full = fullOf(mappings);
    if (full) {
      await Promise.all([...opened.keys()].map(drop));
      return { ok: false, failure: fullFailure(full) };
    }
    for (const action of plain) {
      const budgets = budgetsOf(action.mapping);
      const parked = predict(budgets);
      if (parked) placements.set(action, { state: "parked", parked });
      forecast.accept(budgets, 1);
    }
    for (const mapping of opened.values()) forecast.accept(budgetsOf(mapping), 1);
    return {
      ok: true,
      placements: applicants.map(({ action }) => placements.get(action) ?? QUEUED),
      settle(accepted) {
        if (!accepted) for (const mapping of mappings) forecast.accept(budgetsOf(mapping), -1);
      },
    };
  };

  const over = (run: { id: string; mapping?: string }, tokens: number): Promise<void> => {
    const budgets = budgetsOf(run.mapping);
    return budgets.length === 0 ? Promise.resolve() : ledger.over(run.id, allowancesOf(budgets), tokens);
  };

  return {
    admit(applicants) {
      const isLimited = applicants.some(
        ({ action, collect }) => action.kind === "run" && (collect || budgetsOf(action.mapping).length > 0),
      );
      if (isLimited) return admitShared(applicants);
      return { ok: true, placements: applicants.map(() => QUEUED), settle: () => undefined };
    },
    place: (_run, now) => ({ at: now }),
    async start(run, now) {
      const budgets = budgetsOf(run.mapping);
      if (budgets.length === 0) return undefined;
      const parked = await ledger.start(run.id, allowancesOf(budgets));
      if (parked)
        tell(parked, now).catch((error: unknown) => log.error({ err: safeError(error) }, "the main session could not be told of a limit"));
      return parked;
    },
    parked: ledger.parked,
    over(run, { tokens }) {
      // What cannot be written now is found by `tidy`.
      over(run, tokens).catch((error: unknown) =>
        log.warn({ err: safeError(error), runId: run.id }, "a budget could not be given back yet"),
      );
    },
    closeWindow: (runId, now) => ledger.close(runId, now),
    dropWindow: drop,
    recount: () => ledger.reopen(allowancesOf(context().budgets.all)),
    async tidy() {
      const all = allowancesOf(context().budgets.all);
      // Nobody may wait while there is room.
      if (all.length > 0) await ledger.over("", all, 0);
      for (const id of await ledger.strays()) {
        const run = await store.getRun(id);
        await ledger.over(id, allowancesOf(run ? budgetsOf(run.mapping) : []), run ? tokensOf(run) : 0);
      }
    },
    async usage(): Promise<BudgetView[]> {
      await forecast.refresh();
      return context().budgets.all.map((budget) => ({ ...budget, usage: forecast.use(budget.scope) }));
    },
  };
}
