/** Providers whose key in the environment is enough, in this order, with the model that is used if none is named. */
export const KNOWN_PROVIDERS = [
  { id: "openai", name: "OpenAI", type: "openai", keys: ["OPENAI_API_KEY"], model: "gpt-5-mini" },
  { id: "anthropic", name: "Anthropic", type: "anthropic", keys: ["ANTHROPIC_API_KEY"], model: "claude-sonnet-4-5" },
  { id: "google", name: "Google", type: "google", keys: ["GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY"], model: "gemini-2.5-flash" },
] as const;
