import type { Failure } from "../core/errors.ts";
import { plural } from "../core/text.ts";
import type { Ms, LimitReason, Store } from "../store/types.ts";
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

/** The log has a limit that holds runs back at most so often. */
const LOG_MS = 3_600_000;

/** Creates what logs the limits that hold runs back. */
export function createLimitLog({ log }: Pick<AdmissionDeps, "log">) {
  const loggedAt = new Map<string, Ms>();
  return (parked: LimitReason, now: Ms): void => {
    if (now - (loggedAt.get(toLimitKey(parked)) ?? 0) < LOG_MS) return;
    loggedAt.set(toLimitKey(parked), now);
    log.warn({ scope: parked.scope, limit: parked.limit }, "a limit is reached: runs are parked");
  };
}

/** The seconds of `Retry-After` if no more runs may wait. */
const FULL_SECONDS = 30;

function renderScope(scope: string): string {
  const [kind, ...rest] = scope.split(":");
  return kind === "hooks" ? "all hooks together" : `the ${kind} "${rest.join(":")}"`;
}

/** A limit's name. */
const toLimitKey = ({ scope, limit }: LimitReason): string => `${scope} ${limit}`;

/** The failure that a caller gets if no more runs may wait. */
export function fullFailure({ scope, limits }: Budget): Failure {
  const message = `${renderScope(scope)} may let ${plural(limits.queue ?? 0, "run")} wait (limits.queue), and as many wait; try again later`;
  return { code: "overloaded", message, retryAfterSeconds: FULL_SECONDS };
}
