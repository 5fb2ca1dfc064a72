import type { LimitsConfig } from "../config/schema/limits.ts";
import { type Failure, safeError } from "../core/errors.ts";
import { plural } from "../core/text.ts";
import { buildHeartbeatEvent } from "./heartbeat.ts";
import type { Ms, NewSystemEvent, LimitReason, Store } from "../store/types.ts";
import type { Budget, AdmissionDeps } from "./types.ts";

/** Runs whose reason is written again together: the newest, which are those that people look at. */
const MAX_RUNS = 500;

/**
 * Keeps the reasons of parked runs true: what holds a mapping's runs back may be another limit than the one by which they were
 * parked. Writes only when that has changed. `explain` says why each parked run waits, the newest first.
 */
export function createReasons(store: Store) {
  const known = new Map<string, string>();
  return async (
    reasons: ReadonlyMap<string, LimitReason>,
    now: Ms,
    explain: (mapping: string | undefined) => LimitReason | undefined,
  ): Promise<void> => {
    for (const mapping of known.keys()) if (!reasons.has(mapping)) known.delete(mapping);
    const changed = new Map(
      [...reasons].filter(([mapping, reason]) => known.get(mapping) !== toLimitKey(reason)),
    );
    if (changed.size === 0) return;
    const runs = await store.runs.list({ status: "parked", limit: MAX_RUNS });
    const wrong = runs.flatMap(({ id, mapping, hold }) => {
      if (hold?.reason !== "limit") return [];
      const reason = explain(mapping);
      if (!reason || !changed.has(mapping ?? "")) return [];
      return toLimitKey(hold) === toLimitKey(reason) && (hold.until ?? Infinity) > now
        ? []
        : [{ id, hold: { reason: "limit" as const, ...reason, since: hold.since } }];
    });
    if (wrong.length > 0)
      await store.commit((tx) => wrong.forEach(({ id, hold }) => tx.runs.update(id, { hold })));
    for (const [mapping, reason] of changed) known.set(mapping, toLimitKey(reason));
  };
}

/** The main session hears of a limit at most so often. */
const NOTICE_MS = 3_600_000;

/** Tells the main session of limits that hold runs back, each once an hour: all gateways give the notice the same id. */
export function createNotices({ store, log, snapshot }: AdmissionDeps) {
  const notifiedAt = new Map<string, Ms>();
  return (parked: LimitReason, now: Ms): void => {
    if (now - (notifiedAt.get(toLimitKey(parked)) ?? 0) < NOTICE_MS) return;
    notifiedAt.set(toLimitKey(parked), now);
    log.warn({ scope: parked.scope, limit: parked.limit }, "a limit is reached: runs are parked");
    const id = `sev_limit:${toLimitKey(parked)}:${Math.floor(now / NOTICE_MS)}`;
    const notice = buildNotice(parked, snapshot().budgets.all, snapshot().agents.default.id, now);
    store
      .commit((tx) => tx.systemEvents.add({ ...notice, id }))
      .catch((error: unknown) =>
        log.error({ err: safeError(error) }, "the main session could not be notified of a limit"),
      );
  };
}

/** The seconds of `Retry-After` if no more runs may wait. */
const FULL_SECONDS = 30;

const WHAT: Record<LimitReason["limit"], (count: number) => string> = {
  runsPerHour: (count) => `${plural(count, "run")} within an hour`,
  concurrent: (count) => `${plural(count, "run")} at the same time`,
  tokensPerDay: (count) => `${plural(count, "token")} within a day`,
  "budget.perDay": (count) => `${count} USD within a day`,
};

function renderScope(scope: string): string {
  const [kind, ...rest] = scope.split(":");
  return kind === "hooks" ? "all hooks together" : `the ${kind} "${rest.join(":")}"`;
}

/** The number of a limit; undefined if it is not set. */
export const getLimit = (
  { budget, ...limits }: LimitsConfig,
  name: LimitReason["limit"],
): number | undefined => (name === "budget.perDay" ? budget?.perDay : limits[name]);

/** A limit's name. */
export const toLimitKey = ({ scope, limit }: LimitReason): string => `${scope} ${limit}`;

/** Builds the notice for the main session that a limit begins to hold runs back. */
function buildNotice(
  parked: LimitReason,
  budgets: readonly Budget[],
  agentId: string,
  now: Ms,
): NewSystemEvent {
  const limits = budgets.find(({ scope }) => scope === parked.scope)?.limits ?? {};
  const count = getLimit(limits, parked.limit) ?? 0;
  const until =
    parked.until === undefined
      ? ""
      : ` The next may start at ${new Date(parked.until).toISOString()}.`;
  const text = `Limit reached: ${renderScope(parked.scope)} may use ${WHAT[parked.limit](count)} (limits.${parked.limit}). Further runs wait, none is lost.${until}`;
  return buildHeartbeatEvent(agentId, now, "limits", text);
}

/** The failure that a caller gets if no more runs may wait. */
export function fullFailure({ scope, limits }: Budget): Failure {
  const message = `${renderScope(scope)} may let ${plural(limits.queue ?? 0, "run")} wait (limits.queue), and as many wait; try again later`;
  return { code: "overloaded", message, retryAfterSeconds: FULL_SECONDS };
}
