import { createCapability, testChannel, type Fault } from "rouse/testing";
import plugin from "./index.ts";

const STATUS: Partial<Record<Fault, number>> = {
  "rate-limited": 429,
  unavailable: 503,
  "bad-credential": 401,
  "no-such-recipient": 404,
};

testChannel("acme", async () => {
  const sent: { to: string; text: string; key: string | undefined }[] = [];
  let fault: Fault | undefined;
  /** Acme's API. Replace it with a local server if your client takes no `fetch`. */
  const fakeFetch: typeof fetch = async (address, init) => {
    const signal = init?.signal;
    if (fault === "cut-connection") throw new TypeError("fetch failed");
    if (fault === "hang")
      return new Promise((_, reject) =>
        signal?.addEventListener("abort", () => reject(signal.reason as Error)),
      );
    if (fault)
      return new Response("no", { status: STATUS[fault] ?? 500, headers: { "retry-after": "2" } });
    const to = String(address).split("/").at(-2) ?? "";
    const { text } = JSON.parse(String(init?.body)) as { text: string };
    sent.push({ to, text, key: new Headers(init?.headers).get("idempotency-key") ?? undefined });
    return Response.json({ ok: true });
  };
  const section = { token: "secret-token", defaultTo: "ops" };
  return {
    channel: await createCapability(plugin, "channel", section, { fetch: fakeFetch }),
    to: "ops",
    spellings: ["#ops"],
    malformed: ["no room", "a/b"],
    sent: () => sent,
    fail: (next) => void (fault = next),
    retryAfterMs: 2000,
    secrets: ["secret-token"],
  };
});
