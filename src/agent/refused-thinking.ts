import { readMonotonic, type Clock } from "../core/clock.ts";
import type { Ms } from "../store/types.ts";
import { readVendorError, type CallError } from "./vendor-error.ts";

/** The levels of the providers' common interface, in order. */
const REASONING = ["none", "minimal", "low", "medium", "high", "xhigh", "max"] as const;
export type Reasoning = (typeof REASONING)[number];

/** What is sent in place of a level: another one, or nothing. */
export interface Replacement {
  level: Reasoning | undefined;
}

/** A model that has refused a level may learn it, and another one may stand behind its name. */
const KEPT_MS: Ms = 3_600_000;
const MAX_KEPT = 1_000;
const MAX_READ = 10_000;
/** Statuses by which providers refuse a parameter or its value; some answer 404 if no model of theirs has it. */
const REFUSALS = new Set([400, 404, 422]);
const ABOUT_THINKING = /reasoning|thinking|\beffort\b/i;
const LEVELS = String.raw`(none|minimal|low|medium|high|xhigh|max)`;
const LISTED =
  /(?:must be|should be|one of|expected|(?:supported|allowed|valid|available|possible) (?:values?|levels?|options?)|supports)([^.;\n]{0,160})/gi;
const QUOTED = new RegExp(`["'\`‘“]${LEVELS}["'\`’”]`, "gi");
const WORDS = new RegExp(String.raw`\b${LEVELS}\b`, "gi");

/** Reads which levels an error offers. */
function readLevels(text: string, sent: Reasoning): Reasoning[] {
  const listed = [...text.matchAll(LISTED)].map(([, rest = ""]) => rest).join(" ");
  const found = [...listed.matchAll(WORDS), ...text.matchAll(QUOTED)].map(([, level = ""]) =>
    level.toLowerCase(),
  );
  return REASONING.filter((level) => level !== sent && found.includes(level));
}

/** The nearest level below, else above. To think less is no reason not to think at all. */
function findNearest(level: Reasoning, offered: readonly Reasoning[]): Reasoning | undefined {
  const place = REASONING.indexOf(level);
  const levels = offered.filter((one) => one !== "none");
  return (
    levels.findLast((one) => REASONING.indexOf(one) < place) ??
    levels.find((one) => REASONING.indexOf(one) > place)
  );
}

/** The levels that not all vendors have beside the three usual ones. */
const USUAL: Partial<Record<Reasoning, Reasoning>> = { minimal: "low", xhigh: "high" };

/** Returns what to send in place of a level; undefined if the error is about something else. */
export function readRefusal(error: unknown, sent: Reasoning): Replacement | undefined {
  const call = error as CallError;
  const { status, message, param = "" } = readVendorError([call]);
  if (status === undefined || !REFUSALS.has(status)) return undefined;
  const body = typeof call.responseBody === "string" ? call.responseBody : "";
  const text = [param, message, body.slice(0, MAX_READ)].join("\n");
  if (!ABOUT_THINKING.test(text)) return undefined;
  const isAboutLevel = new RegExp(String.raw`\b${sent}\b`, "i").test(text);
  return {
    level: findNearest(sent, readLevels(text, sent)) ?? (isAboutLevel ? USUAL[sent] : undefined),
  };
}

/** The levels that models have refused, so that not every run asks them in vain. */
export interface RefusedThinking {
  get(model: string, level: Reasoning): Replacement | undefined;
  set(model: string, level: Reasoning, replacement: Replacement): void;
}

/** Creates the memory of a runtime: a changed config begins without it. */
export function createRefusedThinking(clock: Pick<Clock, "now" | "monotonic">): RefusedThinking {
  const kept = new Map<string, Replacement & { until: Ms }>();
  const toKey = (model: string, level: Reasoning): string => `${level} ${model}`;
  return {
    get(model, level) {
      const found = kept.get(toKey(model, level));
      return found && found.until > readMonotonic(clock) ? found : undefined;
    },
    set(model, level, { level: used }) {
      // Callers may name as many models as they like.
      if (kept.size >= MAX_KEPT) kept.clear();
      kept.set(toKey(model, level), { level: used, until: readMonotonic(clock) + KEPT_MS });
    },
  };
}
