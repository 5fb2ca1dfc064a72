import type { ModelProvider } from "#plugin";

const provider: ModelProvider = {
  type: "google",
  genAiName: "gcp.gemini",
  fromEnvironment: {
    name: "google",
    title: "Google",
    variables: ["GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY"],
    defaultModel: "gemini-2.5-flash",
  },
  thinkingFields: ["thinkingConfig"],
  async create({ baseUrl: baseURL, apiKey, headers }, { fetch }) {
    const { createGoogleGenerativeAI } = await import("@ai-sdk/google");
    return createGoogleGenerativeAI({
      headers: { ...headers },
      fetch,
      ...(apiKey !== undefined && { apiKey }),
      ...(baseURL !== undefined && { baseURL }),
    });
  },
};

/** Models of Google. Of `#plugin` it takes the types alone: it is loaded by every start that uses it. */
export default { id: "google", providers: [provider] };
