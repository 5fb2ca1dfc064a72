import type { LimitsConfig } from "../config/schema/limits.ts";
import type { Failure } from "../core/errors.ts";
import { buildHeartbeatEvent } from "../sessions/events.ts";
import type { Ms, NewSystemEvent, ParkedByLimit } from "../store/types.ts";
import type { Budget } from "./types.ts";

/** What `Retry-After` says if no more runs may wait. */
const FULL_SECONDS = 30;

const WHAT: Record<ParkedByLimit["limit"], (count: number) => string> = {
  runsPerHour: (count) => `${count} runs within an hour`,
  concurrent: (count) => `${count} runs at the same time`,
  tokensPerDay: (count) => `${count} tokens within a day`,
  "budget.perDay": (count) => `${count} USD within a day`,
};

function renderScope(scope: string): string {
  const [kind, ...rest] = scope.split(":");
  return kind === "hooks" ? "all hooks together" : `the ${kind} "${rest.join(":")}"`;
}

/** The config path of a scope's limits. */
export function limitsPath(scope: string, mappings: readonly { id: string; at: string }[]): string {
  const [kind, ...rest] = scope.split(":");
  if (kind === "hooks") return "hooks.limits";
  const name = rest.join(":");
  const at = kind === "mapping" ? mappings.find(({ id }) => id === name)?.at : undefined;
  return at === undefined ? `hooks.presets (${name}).limits` : `${at}.limits`;
}

/** The number of a limit; undefined if it is not set. */
export const getLimit = (
  { budget, ...limits }: LimitsConfig,
  name: ParkedByLimit["limit"],
): number | undefined => (name === "budget.perDay" ? budget?.perDay : limits[name]);

/** A limit's name. */
export const toLimitKey = ({ scope, limit }: ParkedByLimit): string => `${scope} ${limit}`;

/** Builds the notice for the main session that a limit begins to hold runs back. */
export function buildNotice(
  parked: ParkedByLimit,
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
  const message = `${renderScope(scope)} may let ${limits.queue} runs wait (limits.queue), and they do; try again later`;
  return { code: "overloaded", message, retryAfterSeconds: FULL_SECONDS };
}
