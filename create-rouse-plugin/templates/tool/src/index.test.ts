import { createCapability, testTools } from "rouse/testing";
import plugin from "./index.ts";

testTools("acme", async () => {
  const notes = new Map<string, string>();
  let failing = false;
  /** Acme's API: a note that comes again under its key is not added again. */
  const fakeFetch: typeof fetch = async (address, init) => {
    init?.signal?.throwIfAborted();
    if (failing) return new Response("quotes secret-token", { status: 503 });
    const key = new Headers(init?.headers).get("idempotency-key");
    if (key !== null) notes.set(key, String(init?.body));
    return Response.json(
      key === null ? { id: String(address).split("/").at(-1), total: 42 } : { added: true },
    );
  };
  return {
    tools: await createCapability(plugin, "tools", { token: "secret-token" }, { fetch: fakeFetch }),
    samples: {
      find_order: {
        input: { id: "o-1" },
        invalid: [{}, { id: 1 }, { id: "" }],
        result: ["o-1", "42"],
      },
      add_note: {
        input: { id: "o-1", text: "Call back." },
        invalid: [{ id: "o-1" }, { id: "o-1", text: 1 }],
        result: ["added"],
      },
    },
    changes: () => notes.size,
    fail: () => void (failing = true),
    secrets: ["secret-token"],
  };
});
