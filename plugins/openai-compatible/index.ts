import type { ModelProvider } from "#plugin";
import { readAnswers } from "./answers.ts";

const provider: ModelProvider = {
  type: "openai-compatible",
  embeddings: {},
  thinkingFields: ["reasoning_effort"],
  check: ({ baseUrl }) =>
    baseUrl === undefined
      ? [{ field: "baseUrl", message: "is required for type openai-compatible" }]
      : [],
  async create({ name, baseUrl = "", apiKey, headers }, { fetch }) {
    const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
    return createOpenAICompatible({
      name,
      baseURL: baseUrl,
      headers: { ...headers },
      fetch: readAnswers(fetch),
      includeUsage: true,
      supportsStructuredOutputs: true,
      ...(apiKey !== undefined && { apiKey }),
    });
  },
  requestOptions: ({ parallelToolCalls, strictJson }, { name }) => ({
    [name]: {
      ...(strictJson !== undefined && { strictJsonSchema: strictJson }),
      ...(parallelToolCalls !== undefined && { parallel_tool_calls: parallelToolCalls }),
    },
  }),
};

/** Models of any server that speaks OpenAI's chat completions. Of `#plugin` it takes the types alone: it is loaded by every start that uses it. */
export default { id: "openai-compatible", providers: [provider] };
