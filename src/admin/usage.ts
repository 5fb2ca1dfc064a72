import type { Ms, RunRecord } from "../store/types.ts";
import type { AdminDeps } from "./types.ts";
import { iso } from "./views.ts";

/** By what usage can be added up. */
export const USAGE_KEYS = ["mapping", "agent", "model", "day"] as const;
export type UsageKey = (typeof USAGE_KEYS)[number];

export interface UsageRow {
  /** The mapping, agent, model or day (`2026-03-21`, UTC). What has none is named in parentheses: `(api)`, `(no model)`. */
  key: string;
  runs: number;
  inputTokens: number;
  cachedInputTokens: number;
  outputTokens: number;
  /** The known costs in US dollars; null if none is known. */
  costUsd: number | null;
  /** Runs that used tokens whose price is unknown: `costUsd` lacks them. */
  unpricedRuns: number;
}

const PAGE = 500;

const GET_KEY: Record<UsageKey, (run: RunRecord) => string> = {
  mapping: (run) => run.mapping ?? `(${run.kind})`,
  agent: (run) => run.spec.session.agentId,
  model: (run) => run.model ?? "(no model)",
  day: (run) => iso(run.endedAt ?? run.createdAt).slice(0, 10),
};

const createRow = (key: string): UsageRow => ({
  key,
  runs: 0,
  inputTokens: 0,
  cachedInputTokens: 0,
  outputTokens: 0,
  costUsd: null,
  unpricedRuns: 0,
});

function addRun(row: UsageRow, { usage = {} }: RunRecord): void {
  const { inputTokens = 0, cachedInputTokens = 0, outputTokens = 0, costUsd } = usage;
  row.runs++;
  row.inputTokens += inputTokens;
  row.cachedInputTokens += cachedInputTokens;
  row.outputTokens += outputTokens;
  // Sums of dollars get digits that no price has.
  if (costUsd !== undefined) row.costUsd = Math.round(((row.costUsd ?? 0) + costUsd) * 1e8) / 1e8;
  else if (Object.keys(usage).length > 0) row.unpricedRuns++;
}

/** Adds up what the runs that were created since then and have ended have used: as far back as the store keeps runs. */
export async function readUsage({ store }: AdminDeps, { by, since }: { by: UsageKey; since: Ms }) {
  const rows = new Map<string, UsageRow>();
  const total = createRow("total");
  let before: string | undefined;
  for (;;) {
    const runs = await store.list("runs", { since, limit: PAGE, ...(before !== undefined && { before }) });
    for (const run of runs) {
      if (run.endedAt === undefined) continue;
      const key = GET_KEY[by](run);
      const row = rows.get(key) ?? createRow(key);
      rows.set(key, row);
      addRun(row, run);
      addRun(total, run);
    }
    before = runs.at(-1)?.id;
    if (runs.length < PAGE) break;
  }
  const order =
    by === "day"
      ? (a: UsageRow, b: UsageRow) => (a.key < b.key ? 1 : -1)
      : (a: UsageRow, b: UsageRow) => (b.costUsd ?? 0) - (a.costUsd ?? 0) || b.outputTokens - a.outputTokens;
  return { by, since: iso(since), rows: [...rows.values()].toSorted(order), total };
}
