import type { ModelProvider } from "#plugin";

const provider: ModelProvider = {
  type: "anthropic",
  fromEnvironment: { name: "anthropic", title: "Anthropic", variables: ["ANTHROPIC_API_KEY"], defaultModel: "claude-sonnet-4-5" },
  thinkingFields: ["thinking", "output_config"],
  imagesInResults: true,
  async create({ baseUrl: baseURL, apiKey, headers }, { fetch }) {
    const { createAnthropic } = await import("@ai-sdk/anthropic");
    return createAnthropic({
      headers: { ...headers },
      fetch,
      ...(apiKey !== undefined && { apiKey }),
      ...(baseURL !== undefined && { baseURL }),
    });
  },
  requestOptions: ({ parallelToolCalls }) => ({
    anthropic: parallelToolCalls === undefined ? {} : { disableParallelToolUse: !parallelToolCalls },
  }),
};

/** Models of Anthropic. Of `#plugin` it takes the types alone: it is loaded by every start that uses it. */
export default { id: "anthropic", providers: [provider] };
