import type { ModelProvider } from "#plugin";

const provider: ModelProvider = {
  type: "openai",
  fromEnvironment: { name: "openai", title: "OpenAI", variables: ["OPENAI_API_KEY"], defaultModel: "gpt-5-mini" },
  embeddings: { baseUrl: "https://api.openai.com/v1" },
  thinkingFields: ["reasoning", "reasoning_effort"],
  imagesInResults: true,
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
