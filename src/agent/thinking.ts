import type { LanguageModelMiddleware } from "ai";
import type { Thinking } from "../config/schema/common.ts";
import { readVendorError, type CallError } from "./failure.ts";

type Params = Parameters<NonNullable<LanguageModelMiddleware["wrapGenerate"]>>[0]["params"];

const MAX_READ = 10_000;
/** Statuses by which providers refuse a parameter or its value; some answer 404 if no model of theirs has it. */
const REFUSALS = new Set([400, 404, 422]);
const ABOUT_THINKING = /reasoning|thinking|\beffort\b/i;

/** Returns whether a model refuses the level of thinking. */
function isRefusal(error: unknown): boolean {
  const call = error as CallError;
  const { status, message, param = "" } = readVendorError([call]);
  if (status === undefined || !REFUSALS.has(status)) return false;
  const body = typeof call.responseBody === "string" ? call.responseBody : "";
  return ABOUT_THINKING.test([param, message, body.slice(0, MAX_READ)].join("\n"));
}

/** The level as the providers' common interface calls it: it ends at xhigh, and `off` is none. */
export const toReasoning = (level: Thinking): NonNullable<Params["reasoning"]> =>
  level === "off" ? "none" : level === "max" ? "xhigh" : level;

/** A warning of the `ai` package. */
export interface SdkWarning {
  type: string;
  feature?: string;
}

/** Returns the texts of the provider's warnings, besides those about a level of thinking. */
function renderWarnings(sdkWarnings: readonly SdkWarning[]): string[] {
  // The SDK sets these by itself and then warns about them: the caller did not ask for them.
  const others = sdkWarnings.filter(
    ({ feature }) => feature !== "reasoning" && feature !== "maxOutputTokens",
  );
  return others.map(({ type, feature }) => {
    const named = feature !== undefined && /^[\w .-]{1,60}$/.test(feature) ? feature : "a setting";
    return `the provider does not support ${named} (${type})`;
  });
}

/** Asks a model once more without the level of thinking if it refuses the level. */
export function watchThinking(level: Thinking | undefined) {
  let isRefused = false;
  const call = async <T>(params: Params, make: (params: Params) => PromiseLike<T>): Promise<T> => {
    isRefused = false;
    try {
      return await make(params);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      isRefused = true;
      const { reasoning: _refused, ...rest } = params;
      return make(rest);
    }
  };
  const middleware: LanguageModelMiddleware = {
    specificationVersion: "v4",
    wrapGenerate: ({ params, model }) => call(params, (given) => model.doGenerate(given)),
    wrapStream: ({ params, model }) => call(params, (given) => model.doStream(given)),
  };
  return {
    middleware,
    /** Renders the provider's warnings, and says what became of the level. */
    warnings(sdkWarnings: readonly SdkWarning[] = []): string[] {
      const texts = renderWarnings(sdkWarnings);
      if (level === undefined) return texts;
      if (isRefused)
        texts.push(
          `thinking: the model refuses "${level}"; it was left out. Set \`thinking\` to a level that the model has`,
        );
      else if (sdkWarnings.some(({ feature }) => feature === "reasoning"))
        texts.push(`thinking: the model has no level "${level}"; the nearest that it has was used`);
      else if (level === "max")
        texts.push('thinking: "max" was sent as the highest level of this provider');
      return texts;
    },
  };
}
