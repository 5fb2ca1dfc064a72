import { safeError } from "../core/errors.ts";
import type { Clock } from "../core/clock.ts";
import { newId } from "../core/ids.ts";
import type { Logger } from "../core/log.ts";
import type { ListQuery, Ms, Parked, RunRecord, RunStatus, Store, Writes } from "../store/types.ts";
import { fullFailure, keyOf, limitText } from "./limit-text.ts";
import { DAY_MS, HOUR_MS, Limiter, type Budget } from "./limits.ts";
import type { ActionContext, Admission, Applicant, Placement } from "./types.ts";
import { Windows } from "./windows.ts";

export interface AdmissionDeps {
  store: Store;
  clock: Clock;
  log: Logger;
  context(): Pick<ActionContext, "budgets" | "agents">;
}

/** Where one action goes, and its part of what `settle` does. */
interface AdmittedOne {
  placement: Placement;
  settle?(accepted: boolean): void;
}

export const QUEUED: Placement = { state: "queued" };
const UNLIMITED: AdmittedOne = { placement: QUEUED };
const TOLD = "limits.told";
const PAGE = 1000;
const BATCH = 200;

export function createAdmission({ store, clock, log, context }: AdmissionDeps): Admission {
  const limiter = new Limiter();
  const windows = new Windows();
  const budgetsOf = (mapping: string | undefined): readonly Budget[] => context().budgets.of(mapping);
  /** The runs that each limit holds back, and when the main session was told of it last. */
  const held = new Map<string, Set<string>>();
  let told: Record<string, Ms> = {};
  /** Windows are known from then on. */
  let restored = false;

  const release = (runId: string): void => {
    for (const runs of held.values()) runs.delete(runId);
  };

  const tell = async (parked: Parked, now: Ms): Promise<void> => {
    told = { ...told, [keyOf(parked)]: now };
    const text = limitText(parked, budgetsAll());
    const id = newId("sev", now);
    const agentId = context().agents.standard.id;
    await store.commit((tx) => {
      tx.setValue(TOLD, told);
      tx.addSystemEvent({
        id,
        agentId,
        at: now,
        text: [{ text, outside: false }],
        source: "limits",
        mode: "next-heartbeat",
        unsafe: false,
      });
    });
  };

  /** Notes that a run is held back; the first one that a limit holds back is told, but no limit more than once an hour. */
  const hold = (runId: string, parked: Parked, now: Ms): void => {
    const runs = held.get(keyOf(parked)) ?? new Set();
    const first = runs.size === 0 && now - (told[keyOf(parked)] ?? 0) >= HOUR_MS;
    held.set(keyOf(parked), runs.add(runId));
    if (!first) return;
    log.warn({ scope: parked.scope, limit: parked.limit }, "a limit is reached: runs are parked");
    tell(parked, now).catch((error: unknown) => log.error({ err: safeError(error) }, "the main session could not be told of a limit"));
  };

  const budgetsAll = (): readonly Budget[] => context().budgets.all;

  const call = async (runIds: readonly string[]): Promise<void> => {
    for (;;) {
      try {
        await store.commit((tx) => runIds.forEach((id) => tx.rescheduleJob("turn", id, clock.now())));
        return;
      } catch (error) {
        log.error({ err: safeError(error) }, "parked runs could not be called; it is tried again");
        await clock.sleep(1000);
      }
    }
  };

  const callNext = (budgets: readonly Budget[]): void => {
    const runs = limiter.next(budgets);
    if (runs.length > 0) void call(runs);
  };

  const fullOf = (applicants: readonly Applicant[], now: Ms): Budget | undefined => {
    const wanted = new Map<string, { budget: Budget; count: number }>();
    for (const { action, collect } of applicants) {
      // What joins a window that is open brings nothing more that waits.
      if (action.kind !== "run" || (collect && windows.isOpen(action, collect.key, now))) continue;
      for (const budget of budgetsOf(action.mapping)) {
        const known = wanted.get(budget.scope) ?? { budget, count: 0 };
        wanted.set(budget.scope, { budget, count: known.count + 1 });
      }
    }
    return [...wanted.values()].find(({ budget, count }) => limiter.full([budget], count))?.budget;
  };

  const admitOne = ({ action, collect }: Applicant, now: Ms): AdmittedOne => {
    if (action.kind !== "run") return UNLIMITED;
    const budgets = budgetsOf(action.mapping);
    if (collect) {
      const { event, ...settings } = collect;
      const { opened, settle, ...joined } = windows.join(action, settings, event);
      if (opened) limiter.collecting(joined.runId, budgets);
      return {
        placement: { state: "collecting", ...joined },
        settle(accepted) {
          settle(accepted);
          if (!accepted && opened) limiter.giveBack(joined.runId, budgets);
        },
      };
    }
    if (budgets.length === 0) return UNLIMITED;
    const { at, parked } = limiter.place(action.runId, budgets, now);
    return {
      placement: parked ? { state: "parked", parked } : QUEUED,
      settle(accepted) {
        if (!accepted) limiter.giveBack(action.runId, budgets, at);
        else if (parked) hold(action.runId, parked, now);
      },
    };
  };

  const all = async (query: ListQuery & { status?: RunStatus }, most: number): Promise<RunRecord[]> => {
    const runs: RunRecord[] = [];
    while (runs.length < most) {
      const before = runs.at(-1)?.id;
      const page = await store.listRuns({
        ...query,
        limit: Math.min(PAGE, most - runs.length),
        ...(before === undefined ? {} : { before }),
      });
      runs.push(...page);
      if (page.length === 0) break;
    }
    return runs;
  };

  /** The runs by which everything is counted, oldest first. */
  const countedRuns = async (now: Ms): Promise<RunRecord[]> => {
    const counts = await store.counts();
    const waiting = await Promise.all(
      (["parked", "collecting", "queued", "running"] as const)
        // Without budgets only those matter that wait for one that was taken away, and windows.
        .filter((status) => budgetsAll().length > 0 || status === "parked" || status === "collecting")
        .map((status) => all({ status }, counts[`runs.${status}`] ?? 0)),
    );
    const back = budgetsAll().some(({ limits }) => limits.tokensPerDay !== undefined) ? DAY_MS : HOUR_MS;
    const recent = budgetsAll().length > 0 ? await all({ since: now - back }, Infinity) : [];
    const byId = new Map([...recent, ...waiting.flat()].map((run) => [run.id, run]));
    return [...byId.values()].filter((run) => run.kind === "hook").toSorted((a, b) => (a.id < b.id ? -1 : 1));
  };

  /** Gives a parked run its place afresh, as the limits are now. */
  const replace = (tx: Writes, run: RunRecord, now: Ms): void => {
    if (limiter.isRunning(run.id, budgetsOf(run.mapping))) return;
    const { parked } = limiter.place(run.id, budgetsOf(run.mapping), now);
    tx.updateRun(run.id, parked ? { parked } : { status: "queued", parked: null });
    tx.rescheduleJob("turn", run.id, parked?.until ?? now);
    if (parked) held.set(keyOf(parked), (held.get(keyOf(parked)) ?? new Set()).add(run.id));
  };

  return {
    admit(applicants, now) {
      if (applicants.length === 0) return { ok: true, placements: [], settle: () => undefined };
      const full = fullOf(applicants, now);
      if (full) return { ok: false, failure: fullFailure(full) };
      const parts = applicants.map((applicant) => admitOne(applicant, now));
      return {
        ok: true,
        placements: parts.map(({ placement }) => placement),
        settle: (accepted) => parts.forEach(({ settle }) => settle?.(accepted)),
      };
    },
    place(run, now) {
      const place = limiter.place(run.id, budgetsOf(run.mapping), now);
      if (place.parked) hold(run.id, place.parked, now);
      return place;
    },
    start(run, now) {
      const parked = limiter.start(run.id, budgetsOf(run.mapping), now);
      release(run.id);
      if (parked) {
        hold(run.id, parked, now);
        // Where it was called for one limit and another has no room, the next one is.
        callNext(budgetsOf(run.mapping).filter(({ scope }) => scope !== parked.scope));
      }
      return parked;
    },
    over(run, end) {
      const budgets = budgetsOf(run.mapping);
      release(run.id);
      limiter.ended(run.id, budgets, clock.now(), end);
      callNext(budgets);
    },
    closeWindow: (runId, now) => windows.close(runId, now),
    dropWindow: (runId) => windows.drop(runId),
    async recount() {
      const now = clock.now();
      told = ((await store.getValue(TOLD)) as Record<string, Ms> | undefined) ?? {};
      const runs = await countedRuns(now);
      limiter.recount(runs, budgetsOf, now);
      if (!restored) windows.restore(runs.filter((run) => run.status === "collecting"));
      restored = true;
      held.clear();
      const parked = runs.filter((run) => run.status === "parked");
      for (let from = 0; from < parked.length; from += BATCH)
        await store.commit((tx) => parked.slice(from, from + BATCH).forEach((run) => replace(tx, run, now)));
    },
    usage: () => budgetsAll().map((budget) => ({ ...budget, usage: limiter.usage(budget, clock.now()) })),
  };
}
