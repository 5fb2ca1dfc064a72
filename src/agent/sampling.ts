import type { Config } from "../config/schema/index.ts";
import type { Sampling } from "./types.ts";

type ProviderType = Config["models"]["providers"][string]["type"];
type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue };

/** What the providers' common interface has a name for. */
export function samplingOf(sampling: Sampling = {}) {
  const { temperature, topP, maxOutputTokens, stopSequences, seed, presencePenalty, frequencyPenalty, toolChoice } = sampling;
  return {
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { topP }),
    ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
    ...(stopSequences === undefined ? {} : { stopSequences: [...stopSequences] }),
    ...(seed === undefined ? {} : { seed }),
    ...(presencePenalty === undefined ? {} : { presencePenalty }),
    ...(frequencyPenalty === undefined ? {} : { frequencyPenalty }),
    ...(toolChoice === undefined
      ? {}
      : { toolChoice: typeof toolChoice === "string" ? toolChoice : { type: "tool" as const, toolName: toolChoice.tool } }),
  };
}

/** An answer in JSON as the model's text: whether it fits is for the caller to see, who has asked for it. */
export function outputOf({ schema, name, description }: NonNullable<Sampling["json"]>) {
  const responseFormat = {
    type: "json" as const,
    ...(schema === undefined ? {} : { schema }),
    ...(name === undefined ? {} : { name }),
    ...(description === undefined ? {} : { description }),
  };
  return {
    name: "text",
    responseFormat: Promise.resolve(responseFormat),
    parseCompleteOutput: async ({ text }: { text: string }) => text,
    parsePartialOutput: async ({ text }: { text: string }) => ({ partial: text }),
    createElementStreamTransform: () => undefined,
  };
}

/** What each vendor calls in its own way. */
export function providerOptionsOf(type: ProviderType, id: string, sampling: Sampling = {}): Record<string, Record<string, JsonValue>> {
  const { parallelToolCalls: parallel, json } = sampling;
  const strict = json?.strict === undefined ? {} : { strictJsonSchema: json.strict };
  switch (type) {
    case "openai":
      // The history is ours: the vendor keeps none, and gets whole messages, not references into a store of its own.
      return { openai: { store: false, ...strict, ...(parallel === undefined ? {} : { parallelToolCalls: parallel }) } };
    case "openai-compatible":
      return { [id]: { ...strict, ...(parallel === undefined ? {} : { parallel_tool_calls: parallel }) } };
    case "anthropic":
      return { anthropic: parallel === undefined ? {} : { disableParallelToolUse: !parallel } };
    case "google":
      return {};
  }
}
