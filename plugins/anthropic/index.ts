import type { ModelProvider } from "#plugin";

const provider: ModelProvider = {
  type: "anthropic",
  fromEnvironment: {
    name: "anthropic",
    title: "Anthropic",
    variables: ["ANTHROPIC_API_KEY"],
    defaultModel: "claude-sonnet-4-5",
  },
  prices: {
    asOf: "2026-03-21",
    models: {
      "claude-opus-4-6": { input: 5, cachedInput: 0.5, cacheWrite: 6.25, output: 25 },
      "claude-opus-4-5": { input: 5, cachedInput: 0.5, cacheWrite: 6.25, output: 25 },
      "claude-opus-4-1": { input: 15, cachedInput: 1.5, cacheWrite: 18.75, output: 75 },
      "claude-sonnet-4-6": { input: 3, cachedInput: 0.3, cacheWrite: 3.75, output: 15 },
      "claude-sonnet-4-5": { input: 3, cachedInput: 0.3, cacheWrite: 3.75, output: 15 },
      "claude-sonnet-4": { input: 3, cachedInput: 0.3, cacheWrite: 3.75, output: 15 },
      "claude-haiku-4-5": { input: 1, cachedInput: 0.1, cacheWrite: 1.25, output: 5 },
      "claude-3-5-haiku": { input: 0.8, cachedInput: 0.08, cacheWrite: 1, output: 4 },
    },
  },
  // Kept for five minutes, as the prices of writes are.
  cacheMarker: { anthropic: { cacheControl: { type: "ephemeral" } } },
  imagesInResults: true,
  plainCallIds: true,
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
    anthropic:
      parallelToolCalls === undefined ? {} : { disableParallelToolUse: !parallelToolCalls },
  }),
};

/** Models of Anthropic. Of `#plugin` it takes the types alone: it is loaded by every start that uses it. */
export default { id: "anthropic", providers: [provider] };
