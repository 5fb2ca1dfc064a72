import { COUNTED_LIMITS, getLimit, toLimitKey, limitsPath } from "../limits/limit-text.ts";
import type { Parked, RunRecord } from "../store/types.ts";
import { passedCheck, warningCheck, type Check } from "./doctor-check.ts";
import type { Snapshot } from "../intake/types.ts";
import type { AdminDeps } from "./types.ts";

/** Parked runs that are looked at: the newest. */
const MAX_RUNS = 500;

const UNITS: Record<Parked["limit"], string> = {
  runsPerHour: "an hour",
  concurrent: "at the same time",
  tokensPerDay: "tokens a day",
  "budget.perDay": "USD a day",
};

/** Which limits park runs: how many runs each, its number, when the next may start, and which key of the config to change. */
function parkedBy(runs: readonly RunRecord[], { budgets, mappings }: Snapshot): string[] {
  const parked = runs.flatMap((run) => run.parked ?? []);
  return [...Map.groupBy(parked, toLimitKey).values()].flatMap((those) => {
    const [first] = those;
    if (!first) return [];
    const { scope, limit } = first;
    const number = getLimit(budgets.all.find((budget) => budget.scope === scope)?.limits ?? {}, limit);
    const until = those.flatMap((one) => one.until ?? []).toSorted((a, b) => a - b)[0];
    const next = until === undefined ? "when one ends" : `at ${new Date(until).toISOString()}`;
    const path = `${limitsPath(scope, mappings.mappings)}.${limit}`;
    return [
      `${those.length} by ${path} (${number ?? "no longer set"} ${UNITS[limit]}), the next may start ${next}: wait, or raise that limit`,
    ];
  });
}

async function usage(deps: AdminDeps): Promise<string[]> {
  return (await deps.limits()).map(({ scope, limits: { runsPerHour, concurrent, tokensPerDay, budget }, usage: used }) => {
    const parts = [
      runsPerHour === undefined ? [] : `${used.startedLastHour} of ${runsPerHour} runs this hour`,
      concurrent === undefined ? [] : `${used.running} of ${concurrent} at the same time`,
      tokensPerDay === undefined ? [] : `${used.tokensLastDay} of ${tokensPerDay} tokens in a day`,
      budget === undefined ? [] : `${used.costLastDay.toFixed(2)} of ${budget.perDay} USD in a day`,
    ].flat();
    return `${scope}: ${[...parts, `${used.waiting} wait`].join(", ")}`;
  });
}

/** What limits hold back, and how much of each is used. */
export const limits: Check = async (deps, snapshot) => {
  const used = await usage(deps);
  if (used.length === 0)
    return warningCheck(
      "no hook has a limit: a sender can start as many runs as it likes, and each costs tokens; set hooks.limits, or `limits` of a mapping",
    );
  const { "runs.parked": count = 0 } = await deps.store.counts();
  const parked = count === 0 ? [] : parkedBy(await deps.store.list("runs", { status: "parked", limit: MAX_RUNS }), snapshot);
  const held = count === 0 ? [] : [`${count} runs are parked: ${parked.join("; ")} (\`rouse runs list --status parked\`)`];
  const slow = deps.cluster.shared ? [COUNTED_LIMITS] : [];
  const text = [...held, ...used, ...slow].join("; ");
  return held.length + slow.length === 0 ? passedCheck(text) : warningCheck(text);
};
