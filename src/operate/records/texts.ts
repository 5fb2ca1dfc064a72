/**
 * The sentences that operators read beside codes: `text` in the admin API, and what the command line and the console show. A time
 * that belongs to a sentence is a field beside it, since each of them writes times in its own way.
 */
import { basename } from "node:path";
import { locateIssues } from "../../config/places.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { MappingTrace, Nearest } from "../../mapping/types.ts";
import type { EventRecord, PastWait, RunError, Usage, WaitReason } from "../../store/types.ts";

type WithoutTimes<T> = T extends unknown ? Omit<T, "since" | "until"> : never;

/** Renders the thing that a run waits for, or has waited for. The time until then follows it. */
export function renderWait(wait: WithoutTimes<WaitReason | PastWait>): string {
  switch (wait.reason) {
    case "session":
      return `${wait.head}, the run of its session that goes first`;
    case "limit":
      return `limits.${wait.limit} of ${wait.scope}`;
    case "away":
      return `the model ${wait.of}, which does not answer`;
    case "delay":
      return "its next try";
    case "batch":
      return "further events of its batch";
    case "person":
      return `a person (${wait.approvalIds.join(", ")})`;
    case "worker":
      return "a free worker: all are busy, or no gateway has workers";
    case "queue":
      return "a free worker, or a run of its session that went first";
  }
}

/** Renders the words of a provider about its error, in one line; null if there are none. */
export function renderVendor(error: RunError | undefined): string | null {
  const { status, code, param, message } = error?.vendor ?? {};
  const head = [status, code, param && `(${param})`].filter((part) => part !== undefined).join(" ");
  return [head, message].filter(Boolean).join(": ") || null;
}

/** A model call that gave no answer, and what was done about it. */
export function renderAttempt(
  model: string,
  error: RunError,
  waitedMs: number | undefined,
): string {
  const vendor = renderVendor(error);
  const again = waitedMs === undefined ? "" : `; tried again after ${waitedMs / 1000} s`;
  return `${model}: ${error.code}: ${error.message}${vendor === null ? "" : ` (${vendor})`}${again}`;
}

const count = (value: number | undefined, what: string): string[] =>
  value === undefined ? [] : [`${value.toLocaleString("en")} ${what}`];

/** `1,200 in (800 cached), 30 out (10 reasoning)`; empty if nothing was counted. */
export function renderTokens(usage: Usage = {}): string {
  const { inputTokens, outputTokens, cachedInputTokens, cacheWriteTokens, reasoningTokens } = usage;
  const add = (head: string[], parts: string[]): string[] =>
    head.map((text) => (parts.length === 0 ? text : `${text} (${parts.join(", ")})`));
  const cached = count(cachedInputTokens, "cached");
  const written = count(cacheWriteTokens, "written to the cache");
  return [
    ...add(count(inputTokens, "in"), [...cached, ...written]),
    ...add(count(outputTokens, "out"), count(reasoningTokens, "reasoning")),
  ].join(", ");
}

/** The mapping that came closest, and why it did not match. */
const renderNearest = ({ mapping, condition }: Nearest): string =>
  `${condition} of ${mapping} does not hold`;

/** Renders the reason for the outcome of an event; for a skipped one also the reason that no other mapping took it. */
export function renderReason({ outcome, reason, nearest }: EventRecord): string | null {
  if (reason === undefined || outcome !== "skipped" || !nearest) return reason ?? null;
  return `${reason}; the closest other mapping is "${nearest.mapping}", whose ${nearest.condition} does not hold`;
}

/** The name of runs whose mapping gives none: it says nothing. */
const NO_NAME = "Hook";

/** Names the work of an event; empty if its mapping says as much. */
function renderWork({ actions, mapping: by }: EventRecord): string {
  const names = actions.map((action) => {
    const name = action.kind === "run" ? action.spec.name : NO_NAME;
    return name === NO_NAME ? (action.mapping ?? action.kind) : name;
  });
  if (names.every((name) => name === by)) return names.length > 1 ? `${names.length} runs` : "";
  const counts = Map.groupBy(names, (name) => name);
  return [...counts]
    .map(([name, { length }]) => (length === 1 ? name : `${length} × ${name}`))
    .join(", ");
}

/** Renders the fate of an event in a few words: the reason that it was not accepted, or the names of its work. */
export function renderEvent(event: EventRecord): string {
  const { outcome, nearest, handled } = event;
  const done = handled ? ` (${handled.as})` : "";
  if (outcome === "unmatched" && nearest) return renderNearest(nearest) + done;
  const reason = renderReason(event);
  return reason === null ? renderWork(event) : reason + done;
}

const VERDICTS: Record<MappingTrace["verdict"], string> = {
  first: "took it",
  also: "also matched",
  hidden: "would have matched",
  no: "does not match",
  unknown: "does not match: a condition is unknown",
  failed: "failed: match.when gave an error",
  disabled: "is not enabled",
  shadow: "matches, in shadow",
};

/** Renders the decision of a mapping about an event. */
export function renderTrace({ verdict, by }: Pick<MappingTrace, "verdict" | "by">): string {
  return `${VERDICTS[verdict]}${by === undefined ? "" : `, but ${by} took it before`}`;
}

/** Renders the reason that a hook has no actions; null if it has. */
export function renderTested({
  outcome,
  mapping,
  reason,
  nearest,
}: {
  outcome: string;
  mapping: string | null;
  reason: string | null;
  nearest: Nearest | null;
}): string | null {
  if (outcome === "actions") return null;
  if (outcome === "unmatched")
    return `no mapping matches${nearest ? `; the closest: ${renderNearest(nearest)}` : ""}`;
  return `${outcome} by ${mapping ?? "a mapping"}${outcome === "skipped" ? `: ${reason ?? ""}` : ""}`;
}

/** Adds to each mapping where it is written: file and line; for a preset where the config enables it. */
export function place<T extends { at: string; origin: string }>(
  mappings: readonly T[],
  { configFile: file, config, texts }: Snapshot,
): (T & { place: string })[] {
  const issues = mappings.map(({ at }, index) => ({ path: at, message: String(index) }));
  const places = locateIssues(issues, { file, mappingsDir: config.hooks.mappingsDir, texts });
  return mappings.map((mapping, index) => {
    const found = places[index];
    const name = found?.file === undefined ? mapping.origin : basename(found.file);
    return { ...mapping, place: found?.line === undefined ? name : `${name}:${found.line}` };
  });
}
