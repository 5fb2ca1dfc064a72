import { definePlugin } from "rouse/plugin";

/** Models of Acme, which speaks the API that many vendors share. */
export default definePlugin({
  id: "acme",
  providers: [
    {
      type: "acme",
      check: ({ baseUrl }) =>
        baseUrl === undefined
          ? [{ field: "baseUrl", message: "is required for the type acme" }]
          : [],
      async create({ name, baseUrl = "", apiKey, headers }, { fetch }) {
        // Loaded with the first turn that needs it.
        const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
        return createOpenAICompatible({
          name,
          baseURL: baseUrl,
          headers,
          fetch,
          ...(apiKey !== undefined && { apiKey }),
        });
      },
    },
  ],
});
