import type { ListQuery, Ms, RunRecord, RunStatus, Store } from "../store/types.ts";
import { DAY_MS, HOUR_MS } from "./policy.ts";
import type { Budget } from "./types.ts";

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
  const waiting = await Promise.all(
    (["parked", "collecting", "queued", "running"] as const)
      // Without budgets only those matter that wait for one that was taken away, and windows.
      .filter((status) => budgets.length > 0 || status === "parked" || status === "collecting")
      .map((status) => listAll(store, { status }, counts[`runs.${status}`] ?? 0)),
  );
  const back = budgets.some(({ limits }) => limits.tokensPerDay !== undefined || limits.budget !== undefined) ? DAY_MS : HOUR_MS;
  const recent = budgets.length > 0 ? await listAll(store, { since: now - back }, Infinity) : [];
  const byId = new Map([...recent, ...waiting.flat()].map((run) => [run.id, run]));
  return [...byId.values()].filter((run) => run.kind === "hook").toSorted((a, b) => (a.id < b.id ? -1 : 1));
}
