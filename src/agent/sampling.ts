import type { RequestChoices } from "../contract/kinds.ts";
import type { Sampling } from "./types.ts";

/** What the providers' common interface has a name for. */
export function toSamplingOptions(sampling: Sampling = {}) {
  const {
    temperature,
    topP,
    maxOutputTokens,
    stopSequences,
    seed,
    presencePenalty,
    frequencyPenalty,
    toolChoice,
  } = sampling;
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
      : {
          toolChoice:
            typeof toolChoice === "string"
              ? toolChoice
              : { type: "tool" as const, toolName: toolChoice.tool },
        }),
  };
}

/** An answer in JSON as the model's text: whether it fits is for the caller to see, who has asked for it. */
export function buildJsonOutput({ schema, name, description }: NonNullable<Sampling["json"]>) {
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

/** Returns what each provider has a name of its own for. */
export function getChoices({ parallelToolCalls, json }: Sampling = {}): RequestChoices {
  return {
    ...(parallelToolCalls === undefined ? {} : { parallelToolCalls }),
    ...(json?.strict === undefined ? {} : { strictJson: json.strict }),
  };
}
