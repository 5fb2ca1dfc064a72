import type { Failure } from "../core/errors.ts";
import type { Parked } from "../store/types.ts";
import type { Budget } from "./limits.ts";

/** Callers that find no room for more are asked to come again after so long. */
const FULL_SECONDS = 30;

const WHAT: Record<Parked["limit"], (count: number) => string> = {
  runsPerHour: (count) => `${count} runs within an hour`,
  concurrent: (count) => `${count} runs at the same time`,
  tokensPerDay: (count) => `${count} tokens within a day`,
};

function nameOf(scope: string): string {
  const [kind, ...rest] = scope.split(":");
  return kind === "hooks" ? "all hooks together" : `the ${kind} "${rest.join(":")}"`;
}

/** Where the config states the limits of a scope. */
export function limitsPath(scope: string, mappings: readonly { id: string; at: string }[]): string {
  const [kind, ...rest] = scope.split(":");
  if (kind === "hooks") return "hooks.limits";
  const name = rest.join(":");
  const at = kind === "mapping" ? mappings.find(({ id }) => id === name)?.at : undefined;
  return at === undefined ? `hooks.presets (${name}).limits` : `${at}.limits`;
}

/** What is said of limits if the store is PostgreSQL. */
export const COUNTED_LIMITS =
  "on PostgreSQL each start of a run counts the runs of the last hour and the tokens of the last day again: with thousands of them starts become slow; keep the limits small there, or leave them out";

/** A limit's name. */
export const keyOf = ({ scope, limit }: Parked): string => `${scope} ${limit}`;

/** What the main session is told when a limit begins to hold runs back. */
export function limitText(parked: Parked, budgets: readonly Budget[]): string {
  const count = budgets.find(({ scope }) => scope === parked.scope)?.limits[parked.limit] ?? 0;
  const until = parked.until === undefined ? "" : ` The next may start at ${new Date(parked.until).toISOString()}.`;
  return `Limit reached: ${nameOf(parked.scope)} may use ${WHAT[parked.limit](count)} (limits.${parked.limit}). Further runs wait, none is lost.${until}`;
}

/** What a caller is told where no more may wait. */
export function fullFailure({ scope, limits }: Budget): Failure {
  const message = `${nameOf(scope)} may let ${limits.queue} runs wait (limits.queue), and they do; try again later`;
  return { code: "overloaded", message, retryAfterSeconds: FULL_SECONDS };
}
