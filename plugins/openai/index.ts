import type { ModelProvider } from "#plugin";

const provider: ModelProvider = {
  type: "openai",
  fromEnvironment: {
    name: "openai",
    title: "OpenAI",
    variables: ["OPENAI_API_KEY"],
    defaultModel: "gpt-5-mini",
  },
  embeddings: { baseUrl: "https://api.openai.com/v1" },
  prices: {
    asOf: "2026-03-21",
    models: {
      "gpt-5.2": { input: 1.75, cachedInput: 0.175, output: 14 },
      "gpt-5.1": { input: 1.25, cachedInput: 0.125, output: 10 },
      "gpt-5": { input: 1.25, cachedInput: 0.125, output: 10 },
      "gpt-5-mini": { input: 0.25, cachedInput: 0.025, output: 2 },
      "gpt-5-nano": { input: 0.05, cachedInput: 0.005, output: 0.4 },
      "gpt-4.1": { input: 2, cachedInput: 0.5, output: 8 },
      "gpt-4.1-mini": { input: 0.4, cachedInput: 0.1, output: 1.6 },
      "gpt-4.1-nano": { input: 0.1, cachedInput: 0.025, output: 0.4 },
      "gpt-4o": { input: 2.5, cachedInput: 1.25, output: 10 },
      "gpt-4o-mini": { input: 0.15, cachedInput: 0.075, output: 0.6 },
      "o4-mini": { input: 1.1, cachedInput: 0.275, output: 4.4 },
    },
  },
  imagesInResults: true,
  plainCallIds: true,
  imageOptions: (detail) => ({ openai: { imageDetail: detail } }),
  async create({ baseUrl: baseURL, apiKey, headers }, { fetch }) {
    const { createOpenAI } = await import("@ai-sdk/openai");
    return createOpenAI({
      headers: { ...headers },
      fetch,
      ...(apiKey !== undefined && { apiKey }),
      ...(baseURL !== undefined && { baseURL }),
    });
  },
  requestOptions: ({ parallelToolCalls, strictJson }) => ({
    openai: {
      // The gateway keeps the history: OpenAI stores nothing, and gets whole messages instead of references to stored ones.
      store: false,
      ...(strictJson !== undefined && { strictJsonSchema: strictJson }),
      ...(parallelToolCalls !== undefined && { parallelToolCalls }),
    },
  }),
};

/** Models of OpenAI. Of `#plugin` it takes the types alone: it is loaded by every start that uses it. */
export default { id: "openai", providers: [provider] };
