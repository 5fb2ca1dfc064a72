import { z } from "zod";
import { definePlugin } from "rouse/plugin";

/** Adds what Acme knows about a question to the turn. */
export default definePlugin({
  id: "acme",
  config: z.strictObject({
    token: z.string().min(1).describe("The token of the API."),
    apiUrl: z.url().default("https://api.acme.example").describe("The address of the API."),
  }),
  context:
    ({ config, fetch }) =>
    async ({ question, signal }) => {
      const words = question.trim().slice(0, 500);
      if (words === "") return [];
      const headers = { authorization: `Bearer ${config.token}` };
      const response = await fetch(`${config.apiUrl}/search?q=${encodeURIComponent(words)}`, {
        headers,
        signal,
      });
      if (!response.ok) throw new Error(`acme answered ${response.status}`);
      const { hits } = (await response.json()) as { hits: { text: string }[] };
      // Others have written it: `outside` puts it inside the boundary.
      return hits.map(({ text }) => ({ text, from: "outside" as const, label: "record of Acme" }));
    },
});
