import type { Thinking } from "../config/schema/common.ts";

type Reasoning = "none" | "minimal" | "low" | "medium" | "high" | "xhigh";

/** The level as the providers' common interface calls it: it ends at xhigh, and `off` is none. */
export function reasoningOf(level: Thinking): Reasoning {
  return level === "off" ? "none" : level === "max" ? "xhigh" : level;
}

/** Fields by which the providers are told how much to think. In a JSON text a quoted word of the content is escaped. */
const SENT = /"(?:reasoning|reasoning_effort|thinking|thinkingConfig|output_config)":/;

export interface ThinkingWatch {
  fetch: typeof fetch;
  /** What became of the level: lowered, or not a thing of this model at all. */
  warnings(sdkWarnings: readonly { type: string }[] | undefined): string[];
}

/** Looks whether the level that was asked for goes out with the request. */
export function watchThinking(level: Thinking | undefined, fetcher: typeof fetch): ThinkingWatch {
  let sent = false;
  return {
    fetch:
      level === undefined
        ? fetcher
        : (url, init) => {
            if (typeof init?.body === "string" && SENT.test(init.body)) sent = true;
            return fetcher(url, init);
          },
    warnings(sdkWarnings) {
      const features = (sdkWarnings ?? []).map((warning) => ({ type: warning.type, feature: (warning as { feature?: unknown }).feature }));
      // What the SDK sets by itself, and then warns of, was not asked for.
      const others = features.filter(({ feature }) => feature !== "reasoning" && feature !== "maxOutputTokens");
      const texts = others.map(({ type, feature }) => {
        const named = typeof feature === "string" && /^[\w .-]{1,60}$/.test(feature) ? feature : "a setting";
        return `the provider does not support ${named} (${type})`;
      });
      if (level === undefined) return texts;
      if (features.some(({ feature }) => feature === "reasoning"))
        texts.push(`thinking: the model has no level "${level}"; the nearest that it has was used`);
      else if (!sent && level !== "off") texts.push(`thinking: the model has no levels; "${level}" was left out`);
      else if (level === "max") texts.push('thinking: "max" was sent as the highest level of this provider');
      return texts;
    },
  };
}
