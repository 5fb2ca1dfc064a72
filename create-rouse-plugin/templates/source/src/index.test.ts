import { createCapability, testSource } from "rouse/testing";
import plugin from "./index.ts";

testSource("acme", async () => {
  const events: { text: string }[] = [];
  /** Acme's API: the cursor is the number of events that were read. */
  const fakeFetch: typeof fetch = async (address) => {
    const after = Number(new URL(String(address)).searchParams.get("after"));
    // One event a page, so that the cursor moves with each.
    const page = events.slice(after, after + 1);
    return Response.json({ events: page, next: String(after + page.length) });
  };
  const section = { token: "secret-token", everySeconds: 0.02 };
  const source = await createCapability(plugin, "source", section, { fetch: fakeFetch });
  return {
    create: () => source,
    async emit(text) {
      events.push({ text });
      return undefined;
    },
    secrets: ["secret-token"],
  };
});
