import type { LanguageModelMiddleware } from "ai";
import type { Thinking } from "../config/schema/common.ts";

type Reasoning = "none" | "minimal" | "low" | "medium" | "high" | "xhigh";

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

export interface ThinkingWatch {
  middleware: LanguageModelMiddleware;
  /** Says what became of the level: lowered, or left out because the model has none. */
  warnings(sdkWarnings: readonly { type: string }[] | undefined): string[];
}

/** Watches whether the requested level is sent. `fields` are the provider's names for it; without them it counts as sent. */
export function watchThinking(
  level: Thinking | undefined,
  fields: readonly string[] | undefined,
): ThinkingWatch {
  let sent = fields === undefined;
  const look = <T extends { request?: { body?: unknown } | undefined }>(result: T): T => {
    if (fields && hasField(result.request?.body, fields)) sent = true;
    return result;
  };
  return {
    middleware: {
      specificationVersion: "v4",
      wrapGenerate: async ({ doGenerate }) => look(await doGenerate()),
      wrapStream: async ({ doStream }) => look(await doStream()),
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
      if (features.some(({ feature }) => feature === "reasoning"))
        texts.push(`thinking: the model has no level "${level}"; the nearest that it has was used`);
      else if (!sent && level !== "off")
        texts.push(`thinking: the model has no levels; "${level}" was left out`);
      else if (level === "max")
        texts.push('thinking: "max" was sent as the highest level of this provider');
      return texts;
    },
  };
}
