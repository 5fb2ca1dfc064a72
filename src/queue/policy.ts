import {
  type BudgetLimits,
  type Decision,
  type Ms,
  type LimitReason,
  type BudgetUsage,
  isInLine,
  type Amounts,
  type RunRecord,
} from "../store/types.ts";

/** What a run takes when it starts. */
export interface Need extends Pick<Amounts, "starts" | "places"> {
  /** Whether the run is among those that `Counted.inLine` counts. */
  isInLine: boolean;
}

/** A start counts once for all tries of a run; a run that a crash cut off has its place still. */
export const toNeed = (run: RunRecord): Need => ({
  starts: run.attempts === 0 ? 1 : 0,
  places: run.status === "running" ? 0 : 1,
  isInLine: isInLine(run),
});

type Wait = LimitReason | undefined;

/** Returns a wait until a moment; none if that moment has come. An unknown moment never has. */
function buildWait(
  scope: string,
  limit: LimitReason["limit"],
  until: Ms | undefined,
  now: Ms,
): Wait {
  if (until === undefined) return { scope, limit };
  return until > now ? { scope, limit, until } : undefined;
}

function waitForHour(
  { scope, limits: { runsPerHour } }: BudgetLimits,
  { starts, nextStartAt }: BudgetUsage,
  now: Ms,
): Wait {
  if (runsPerHour === undefined) return undefined;
  return starts < runsPerHour ? undefined : buildWait(scope, "runsPerHour", nextStartAt, now);
}

function waitForTokens(
  { scope, limits: { tokensPerDay = Infinity } }: BudgetLimits,
  { tokens, tokensFreeAt }: BudgetUsage,
  now: Ms,
): Wait {
  return tokens < tokensPerDay ? undefined : buildWait(scope, "tokensPerDay", tokensFreeAt, now);
}

function waitForMoney(
  { scope, limits: { budget } }: BudgetLimits,
  { costUsd = 0, costFreeAt }: BudgetUsage,
  now: Ms,
): Wait {
  return budget === undefined || costUsd < budget.perDay
    ? undefined
    : buildWait(scope, "budget.perDay", costFreeAt, now);
}

function waitForPlace(
  { scope, limits: { concurrent } }: BudgetLimits,
  { busy, isQueued }: BudgetUsage,
): Wait {
  return concurrent !== undefined && (busy >= concurrent || isQueued)
    ? { scope, limit: "concurrent" }
    : undefined;
}

const untilOf = ({ until = Infinity }: LimitReason): Ms => until;

/**
 * Decides whether a run may start now, by what each of its budgets has spent. If several limits hold the run back, the
 * reason is the latest moment of `runsPerHour`, else `tokensPerDay`, else `budget`, else `concurrent`: a moment that is known comes
 * before a wait for another run's end.
 */
export function decide(
  usage: ReadonlyMap<string, BudgetUsage>,
  budgets: readonly BudgetLimits[],
  now: Ms,
): Decision {
  const find = (wait: (budget: BudgetLimits, usage: BudgetUsage, now: Ms) => Wait): LimitReason[] =>
    budgets.flatMap((budget) => {
      const used = usage.get(budget.scope);
      return (used && wait(budget, used, now)) ?? [];
    });
  const [latest] = find(waitForHour).toSorted((a, b) => untilOf(b) - untilOf(a));
  const reason = latest ?? find(waitForTokens)[0] ?? find(waitForMoney)[0] ?? find(waitForPlace)[0];
  return reason ? { start: false, reason } : { start: true };
}
