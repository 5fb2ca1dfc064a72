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
  // Of prompts up to 200,000 tokens.
  prices: {
    asOf: "2026-03-21",
    models: {
      "gemini-3-pro-preview": { input: 2, cachedInput: 0.2, output: 12 },
      "gemini-3-flash-preview": { input: 0.5, cachedInput: 0.05, output: 3 },
      "gemini-2.5-pro": { input: 1.25, cachedInput: 0.125, output: 10 },
      "gemini-2.5-flash": { input: 0.3, cachedInput: 0.03, output: 2.5 },
      "gemini-2.5-flash-lite": { input: 0.1, cachedInput: 0.01, output: 0.4 },
    },
  },
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
