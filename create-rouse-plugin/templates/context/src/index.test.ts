import { createCapability, testContext } from "rouse/testing";
import plugin from "./index.ts";

testContext("acme", async () => {
  const fakeFetch: typeof fetch = async (address, init) => {
    init?.signal?.throwIfAborted();
    const query = new URL(String(address)).searchParams.get("q") ?? "";
    return Response.json({
      hits: query.includes("order") ? [{ text: "Order o-1 was shipped on Monday." }] : [],
    });
  };
  return {
    provider: await createCapability(
      plugin,
      "context",
      { token: "secret-token" },
      { fetch: fakeFetch },
    ),
    question: "Where is my order?",
    text: ["Order o-1 was shipped"],
    outside: ["shipped"],
    secrets: ["secret-token"],
  };
});
