import type { LanguageModelMiddleware } from "ai";
import type { Thinking } from "../config/schema/common.ts";
import { readMonotonic, type Clock } from "../core/clock.ts";
import type { Ms } from "../store/types.ts";
import { readVendorError, type CallError } from "./failure.ts";

/** The levels of the providers' common interface, in order. */
const REASONING = ["none", "minimal", "low", "medium", "high", "xhigh", "max"] as const;
type Reasoning = (typeof REASONING)[number];

/** What is sent in place of a level: another one, or nothing. */
interface Replacement {
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
function readRefusal(error: unknown, sent: Reasoning): Replacement | undefined {
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

/** The level as the providers' common interface calls it: it ends at xhigh, and `off` is none. */
export function toReasoning(level: Thinking): Reasoning {
  return level === "off" ? "none" : level === "max" ? "xhigh" : level;
}

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;

/** Whether a request has one of the fields, at its top or one level below. */
function hasField(request: unknown, fields: readonly string[]): boolean {
  const body: unknown = typeof request === "string" ? JSON.parse(request) : request;
  const objects = isObject(body) ? [body, ...Object.values(body).filter(isObject)] : [];
  return objects.some((object) =>
    fields.some((field) => (object as Record<string, unknown>)[field] !== undefined),
  );
}

interface ThinkingWatch {
  middleware: LanguageModelMiddleware;
  /** Says what became of the level: lowered, or left out because the model has none. */
  warnings(sdkWarnings: readonly { type: string }[] | undefined): string[];
}

/** The most calls after the first: with a level that the model has, and without one. */
const MAX_REPEATS = 2;

type Params = Parameters<NonNullable<LanguageModelMiddleware["wrapGenerate"]>>[0]["params"];

/** Calls a model with another level, or none, after it has refused the one that it was asked for. */
class ThinkingCalls {
  readonly #refused: RefusedThinking;
  readonly #model: string;
  /** What was sent in place of the level; undefined if it was sent itself. */
  replacement: Replacement | undefined;

  constructor(refused: RefusedThinking, model: string) {
    this.#refused = refused;
    this.#model = model;
  }

  async call<T>(params: Params, make: (params: Params) => PromiseLike<T>): Promise<T> {
    const asked = params.reasoning;
    if (asked === undefined || asked === "provider-default") return make(params);
    const known = this.#refused.get(this.#model, asked);
    let sent = known ? known.level : asked;
    for (let repeats = 0; ; repeats++) {
      try {
        const result = await make(withReasoning(params, sent));
        this.replacement = sent === asked ? undefined : { level: sent };
        if (repeats > 0) this.#refused.set(this.#model, asked, { level: sent });
        return result;
      } catch (error) {
        const refusal =
          sent === undefined || repeats >= MAX_REPEATS ? undefined : readRefusal(error, sent);
        if (!refusal) throw error;
        // A level that the error has named, and that is refused too, names no further one.
        sent = repeats === 0 ? refusal.level : undefined;
      }
    }
  }
}

function withReasoning(params: Params, reasoning: Reasoning | undefined): Params {
  const { reasoning: _asked, ...rest } = params;
  return reasoning === undefined ? rest : { ...rest, reasoning };
}

function renderReplacement(asked: Thinking, { level }: Replacement): string {
  return level === undefined
    ? `thinking: the model refuses "${asked}"; it was left out`
    : `thinking: the model has no level "${asked}"; "${level === "none" ? "off" : level}" was used`;
}

/**
 * Watches whether the requested level is sent, and sends another one, or none, if the model refuses it. `fields` are the
 * provider's names for the level; without them it counts as sent.
 */
export function watchThinking(
  level: Thinking | undefined,
  fields: readonly string[] | undefined,
  refused: RefusedThinking,
  model: string,
): ThinkingWatch {
  const calls = new ThinkingCalls(refused, model);
  let sent = fields === undefined;
  const look = <T extends { request?: { body?: unknown } | undefined }>(result: T): T => {
    if (fields && hasField(result.request?.body, fields)) sent = true;
    return result;
  };
  return {
    middleware: {
      specificationVersion: "v4",
      wrapGenerate: async ({ params, model: inner }) =>
        look(await calls.call(params, (given) => inner.doGenerate(given))),
      wrapStream: async ({ params, model: inner }) =>
        look(await calls.call(params, (given) => inner.doStream(given))),
    },
    warnings(sdkWarnings) {
      const features = (sdkWarnings ?? []).map((warning) => ({
        type: warning.type,
        feature: (warning as { feature?: unknown }).feature,
      }));
      // What the SDK sets by itself, and then warns of, was not asked for.
      const others = features.filter(
        ({ feature }) => feature !== "reasoning" && feature !== "maxOutputTokens",
      );
      const texts = others.map(({ type, feature }) => {
        const named =
          typeof feature === "string" && /^[\w .-]{1,60}$/.test(feature) ? feature : "a setting";
        return `the provider does not support ${named} (${type})`;
      });
      if (level === undefined) return texts;
      if (calls.replacement) texts.push(renderReplacement(level, calls.replacement));
      else if (features.some(({ feature }) => feature === "reasoning"))
        texts.push(`thinking: the model has no level "${level}"; the nearest that it has was used`);
      else if (!sent && level !== "off")
        texts.push(`thinking: the model has no levels; "${level}" was left out`);
      else if (level === "max")
        texts.push('thinking: "max" was sent as the highest level of this provider');
      return texts;
    },
  };
}
