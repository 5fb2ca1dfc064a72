import { readFileSync } from "node:fs";
import { afterEach, describe, expect, it } from "vitest";
import { classifyFailure } from "../../src/agent/failure.ts";
import { createShortWaits } from "../e2e/provider.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { startVendor, VENDORS, type ModelServer } from "./vendors.ts";

interface Recorded {
  type: string;
  source: string;
  status: number;
  body: { error: { message: string } } | { error: { message: string } }[];
  expected: { code: string; message?: string; vendor: object };
}

const RECORDED = JSON.parse(
  readFileSync(new URL("../fixtures/provider-errors.json", import.meta.url), "utf8"),
) as Recorded[];
const KEY = "the-configured-key-of-the-provider";
const HEADER = "header-value-4711";

let world: World;
let server: ModelServer;
afterEach(async () => {
  await world?.stop();
  await server?.close();
});

/** Runs one hook on a provider that answers so, and returns the run: for the operator, and for the sender. */
async function runInto(type: string, status: number, body: string, message = "Hello there") {
  const vendor = VENDORS.find((one) => one.type === type);
  if (!vendor) throw new Error(`no vendor ${type}`);
  server = await startVendor(vendor);
  server.handler = (_request, response) =>
    void response.writeHead(status, { "content-type": "application/json" }).end(body);
  const provider = { type, baseUrl: server.baseUrl, apiKey: KEY, headers: { "x-gate": HEADER } };
  world = await createWorld({
    logLevel: "trace",
    clock: createShortWaits().clock,
    config: {
      models: { providers: { local: provider } },
      agents: {
        defaults: { model: "local/big", heartbeat: { every: 0 } },
        list: [{ id: "ops", instructions: "Watch the deploys closely." }],
      },
    },
  });
  const { body: answer } = await world.post("/hooks/agent", {
    message,
    wakeMode: "next-heartbeat",
    deliver: false,
  });
  const run = await world.until(async () => {
    const { run: found } = (await world.admin(`/admin/v1/runs/${answer.runId}`)).body;
    return found.error !== null && found;
  });
  return { run, receipt: (await world.get(`/hooks/runs/${answer.runId}`)).body.run };
}

describe("a provider's recorded error", () => {
  it.each(RECORDED.map((recorded) => [recorded.type, recorded.source, recorded] as const))(
    "of %s (%s)",
    async (type, _source, recorded) => {
      const { status, body, expected } = recorded;
      const { run, receipt } = await runInto(type, status, JSON.stringify(body));
      const { message } = (Array.isArray(body) ? body[0] : body)?.error ?? {};
      expect(run.error).toMatchObject({
        code: expected.code,
        message: expect.stringContaining(expected.message ?? String(status)),
        vendor: { status, message, ...expected.vendor },
      });
      // Senders get Rouse's own words alone.
      expect(Object.keys(receipt.error)).toEqual(["code", "message"]);
      expect(JSON.stringify(receipt)).not.toContain(message);
    },
  );
});

it.each<[status: number, error: object, code: string, retryable: boolean]>([
  ...[
    "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 8200",
    "The decoder prompt (length 8357) is longer than the maximum model length of 8192.",
    "Invalid request: Your request exceeded model token limit: 131072",
    "Range of input length should be [1, 30720]",
    "prompt token count of 5000 exceeds the limit of 4096",
  ].map((message): [number, object, string, boolean] => [
    400,
    { message },
    "context_too_long",
    false,
  ]),
  [
    429,
    {
      message: "Request too large for gpt-4o on tokens per min (TPM): Limit 30000",
      type: "tokens",
    },
    "provider_refused",
    false,
  ],
  [
    429,
    { message: "Rate limit reached for gpt-4o on tokens per min (TPM)", type: "tokens" },
    "rate_limited",
    true,
  ],
  [
    429,
    { message: "Your account is suspended", type: "exceeded_current_quota_error" },
    "provider_refused",
    false,
  ],
  [400, { message: "Failed to call a function.", code: "tool_use_failed" }, "provider_error", true],
])("an error is sorted by its words: %d %o", (statusCode, error, code, retryable) => {
  const thrown = Object.assign(new Error("x"), {
    statusCode,
    responseBody: JSON.stringify({ error }),
  });
  const provider = { settings: { name: "local", headers: {} } };
  expect(classifyFailure(thrown, provider, 0)).toMatchObject({ code, retryable });
});

const missing = [{ type: "missing", loc: ["body", "messages"], msg: "Field required", input: "?" }];
it.each<[body: object, message: string]>([
  [{ detail: missing }, "body.messages: Field required"],
  [{ object: "error", message: { detail: missing } }, "body.messages: Field required"],
  [{ errors: [{ message: "No such model", code: 5007 }], success: false }, "No such model"],
])("the words of an error are found: %o", (body, message) => {
  const thrown = Object.assign(new Error("x"), {
    statusCode: 422,
    responseBody: JSON.stringify(body),
    requestBodyValues: {},
  });
  const provider = { settings: { name: "local", headers: {} } };
  expect(classifyFailure(thrown, provider, 0).vendor?.message).toBe(message);
});

describe("what is kept of a provider's message", () => {
  const keep = async (message: string, sent?: string): Promise<string> =>
    (await runInto("openai-compatible", 400, JSON.stringify({ error: { message } }), sent)).run
      .error.vendor.message;

  it("has no key: neither the configured one nor what looks like one", async () => {
    const told = await keep(
      `Incorrect API key provided: sk-5f6ce***********************acdb, not ${KEY} and ${HEADER}. Bearer abcdefghijklmnop1234 or A1b2C3d4E5f6A7b8C9d0E1f2A3b4C5d6 failed.`,
    );
    expect(told).toBe(
      "Incorrect API key provided: [redacted], not [redacted] and [redacted]. [redacted] or [redacted] failed.",
    );
    expect(world.logged.join("")).not.toContain("acdb");
  });

  it("has no words of the prompt", async () => {
    const told = await keep(
      "Invalid content: 'my secret diary entry of today' is not allowed, and neither is Watch the deploys closely.",
      "my secret diary entry of today",
    );
    expect(told).toMatch(/^Invalid content: '\[…\]' is not allowed, and neither is \s*\[…\]$/);
  });

  it("is one line of at most 500 characters", async () => {
    const told = await keep(`first line\nsecond ${"x y ".repeat(1000)}`);
    expect([told.length, told.slice(0, 17)]).toEqual([500, "first line second"]);
  });

  it("is nothing where the answer is no JSON", async () => {
    const { run } = await runInto("openai-compatible", 400, "<html>Bad gateway at 10.0.0.1</html>");
    expect(run.error).toEqual({
      code: "provider_refused",
      message: 'the provider "local" answered 400 to this request',
      provider: "local",
      vendor: { status: 400 },
    });
  });
});
