import { afterEach, describe, expect, it } from "vitest";
import { FAILURES_TO_OPEN } from "../../src/core/breaker.ts";
import { createShortWaits } from "../e2e/provider.ts";
import { startModel, type Asked, type Model, type Says } from "./model.ts";
import { platformWorld, type PlatformWorld } from "./world.ts";

let world: PlatformWorld;
let others: Model[] = [];
afterEach(async () => {
  await world.close();
  await Promise.all(others.map((model) => model.close()));
  others = [];
});

const { clock, waits } = createShortWaits();

interface Models {
  /** `models.providers` besides `local`, by name: whether each has a server of its own. */
  more?: Record<string, object>;
  model?: unknown;
  aliases?: object;
  local?: object;
  platform?: object;
}

/** A gateway whose agent `ops` has the model, with a server for each provider. */
async function start({
  more = {},
  model = "local/big",
  aliases = {},
  local = {},
  platform = {},
}: Models = {}): Promise<Record<string, Model>> {
  waits.length = 0;
  const servers: Record<string, Model> = {};
  const first = await startModel();
  const entries = await Promise.all(
    Object.entries(more).map(async ([name, settings]) => {
      servers[name] = await startModel();
      return [
        name,
        {
          type: "openai-compatible",
          baseUrl: servers[name].url,
          apiKey: `${name}-key-0123456789`,
          ...settings,
        },
      ];
    }),
  );
  others = [first, ...Object.values(servers)];
  const provider = {
    type: "openai-compatible",
    baseUrl: first.url,
    apiKey: "provider-key-0123456789",
    ...local,
  };
  world = await platformWorld({
    clock,
    platform,
    agents: [{ id: "ops", model }],
    config: { models: { providers: { local: provider, ...Object.fromEntries(entries) }, aliases } },
  });
  return { local: first, ...servers };
}

const chat = {
  path: "/v1/chat/completions",
  body: { model: "ops", messages: [{ role: "user", content: "Say it." }] },
};
const responses = { path: "/v1/responses", body: { model: "ops", input: "Say it." } };
const ask = ({ path, body }: typeof chat | typeof responses, more: object = {}) =>
  world.call(path, { ...body, ...more });

const FAULTS: [string, Says][] = [
  ["answers 500", { status: 500 }],
  ["answers 503", { status: 503, headers: { "retry-after": "1" } }],
  ["answers 429 with Retry-After", { status: 429, headers: { "retry-after": "2" } }],
  ["breaks off before the first token", { cut: true }],
];

describe.each([
  ["chat completions", chat],
  ["responses", responses],
])("a provider that fails once, through %s", (_route, request) => {
  it.each([false, true])("is asked again: each is answered, streamed: %s", async (stream) => {
    const { local } = await start();
    for (const [name, fault] of FAULTS) {
      waits.length = 0;
      local!.reset((_asked, call) => (call % 2 === 0 ? fault : { text: ["fi", "ne"] }));
      for (let call = 0; call < 2; call++) {
        const usage = stream && request === chat ? { stream_options: { include_usage: true } } : {};
        const { status, text, content } = await ask(request, { stream, ...usage });
        expect([name, status, content]).toEqual([name, 200, "fine"]);
        // The usage is that of the one answer.
        expect(text).toMatch(
          /"(?:prompt|input)_tokens":11,.*"(?:completion|output)_tokens":3,.*"total_tokens":14/,
        );
      }
      expect([name, local!.asked.length, waits.length]).toEqual([name, 4, 2]);
    }
  });
});

describe("a wait between tries", () => {
  it("grows, and is the provider's if it names one", async () => {
    const { local } = await start();
    local!.says = (_asked, call) =>
      [{ status: 500 }, { status: 500 }, {}, { status: 429, headers: { "retry-after": "7" } }][
        call
      ] ?? {};
    await ask(chat);
    await ask(chat);
    const [first = 0, second = 0, named] = waits;
    expect(first).toBeGreaterThanOrEqual(375);
    expect(first).toBeLessThanOrEqual(625);
    expect(second).toBeGreaterThanOrEqual(750);
    expect(second).toBeLessThanOrEqual(1250);
    expect(named).toBe(7000);
  });

  it("that is too long is left to the caller", async () => {
    const { local } = await start();
    local!.says = () => ({ status: 429, headers: { "retry-after": "120" } });
    const { status, headers } = await ask(chat);
    expect([status, headers.get("retry-after"), local!.asked.length]).toEqual([429, "120", 1]);
  });

  it.each([
    ["500", { status: 500 }, 503, "provider_unavailable", false],
    ["429", { status: 429 }, 429, "rate_limit_exceeded", false],
    ["a cut connection", { cut: true }, 503, "provider_unavailable", false],
    // A stream gets a status, too: it has not begun.
    ["503 to a stream", { status: 503 }, 503, "provider_unavailable", true],
    ["429 to a stream", { status: 429 }, 429, "rate_limit_exceeded", true],
    ["a cut stream", { cut: true }, 503, "provider_unavailable", true],
  ])("ends with the caller's patience: %s", async (_name, fault, expected, code, stream) => {
    const { local } = await start();
    const error = { message: "boom of gpt-9 at https://api.test", code: "server_error" };
    local!.says = () => ({ ...fault, error });
    const { status, headers, body } = await ask(chat, { stream });
    expect([status, body.error.code]).toEqual([expected, code]);
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
    const waited = waits.reduce((sum, ms) => sum + ms, 0);
    expect(waited).toBeGreaterThan(10_000);
    expect(waited).toBeLessThanOrEqual(20_000);
    // Three tries, and then one for each longer wait.
    expect(local!.asked.length).toBeGreaterThan(4);
    expect(local!.asked.length).toBeLessThan(9);
    expect(JSON.stringify(body)).not.toMatch(/boom|gpt-9|api\.test|local|models\./);
    const [run] = (await world.admin("/admin/v1/runs")).body.runs;
    expect(run.error.message).toContain('the provider "local"');
    const { checks } = (await world.admin("/admin/v1/doctor")).body;
    expect(JSON.stringify(checks)).toContain("1 run failed");
  });

  it("is as long as `platform.maxWaitSeconds` says", async () => {
    const { local } = await start({ platform: { maxWaitSeconds: 3 } });
    local!.says = () => ({ status: 429, headers: { "retry-after": "4" } });
    const { status, headers } = await ask(chat);
    expect([status, headers.get("retry-after"), local!.asked.length]).toEqual([429, "4", 1]);
  });
});

describe("what was said", () => {
  it.each([
    ["chat completions", chat],
    ["responses", responses],
  ])(
    "is not said again where the provider breaks off after it, through %s",
    async (_route, request) => {
      const { local, second } = await start({
        more: { second: {} },
        model: { primary: "local/big", fallbacks: ["second/small"] },
      });
      local!.says = () => ({ text: ["half "], cut: true });
      const { text, content } = await ask(request, { stream: true });
      expect(content).toBe("half ");
      expect(text).toContain("upstream_error");
      expect([local!.asked.length, second!.asked.length]).toEqual([1, 0]);
    },
  );
});

describe("a fallback", () => {
  const model = { primary: "local/big", fallbacks: ["second/small", "third/tiny"] };
  const more = { second: {}, third: {} };

  it.each([false, true])("answers where the first model is down, streamed: %s", async (stream) => {
    const { local, second, third } = await start({ more, model });
    local!.says = () => ({ status: 503 });
    for (let call = 0; call < 6; call++) {
      const { status, content } = await ask(chat, { stream });
      expect([status, content]).toEqual([200, "fine"]);
    }
    expect([local!.asked.length, second!.asked.length, third!.asked.length]).toEqual([
      FAILURES_TO_OPEN,
      6,
      0,
    ]);
    expect(second!.asked[0]?.body.model).toBe("small");
    const { body } = await world.admin("/admin/v1/runs");
    expect(body.runs[0].warnings).toEqual([
      "the model local/big gave no answer (provider_unavailable); second/small answered",
    ]);
  });

  it("is asked immediately if another try of the same model cannot help", async () => {
    const { local, second } = await start({ more, model });
    local!.says = () => ({ status: 429, headers: { "retry-after": "3600" } });
    expect((await ask(chat)).status).toBe(200);
    local!.says = () => ({ status: 404 });
    expect((await ask(chat)).status).toBe(200);
    local!.says = () => ({ text: [], finish: "content_filter" });
    expect((await ask(chat)).status).toBe(200);
    local!.says = () => ({ status: 429, error: { code: "insufficient_quota" } });
    expect((await ask(chat)).status).toBe(200);
    expect([local!.asked.length, second!.asked.length, waits.length]).toEqual([4, 4, 0]);
  });

  it("of the same provider is left out where the key is wrong", async () => {
    const { local, second } = await start({
      more,
      model: { primary: "local/big", fallbacks: ["local/small", "second/small"] },
    });
    local!.says = () => ({ status: 401 });
    expect((await ask(chat)).status).toBe(200);
    expect([local!.asked.length, second!.asked.length]).toEqual([1, 1]);
  });

  it("is reported by its own attempts if none answers", async () => {
    const servers = await start({ more, model });
    for (const server of Object.values(servers)) server.says = () => ({ status: 401 });
    servers["second"]!.says = () => ({ status: 429, headers: { "retry-after": "60" } });
    const { status, headers, body } = await ask(chat);
    // The one that may pass is what the caller can act on.
    expect([status, headers.get("retry-after")]).toEqual([429, "60"]);
    expect(body.error.message).toBe("I am asked too often right now. Please try again later.");
    const [run] = (await world.admin("/admin/v1/runs")).body.runs;
    expect(run.error.message).toContain('the provider "second" answered 429');
    expect(Object.values(servers).map(({ asked }) => asked.length)).toEqual([1, 1, 1]);
  });
});

describe("an input that is too long", () => {
  const error = {
    message:
      "This model's maximum context length is 8192 tokens. However, your messages resulted in 14837 tokens.",
    type: "invalid_request_error",
    param: "messages",
    code: "context_length_exceeded",
  };
  const tooLong = { status: 400, error };

  it("goes to a model with a larger window, and to no other", async () => {
    const { local, small, large } = await start({
      more: { small: { contextTokens: 8000 }, large: { contextTokens: { huge: 500_000 } } },
      model: { primary: "local/big", fallbacks: ["small/a", "large/huge"] },
      local: { contextTokens: 8192 },
    });
    local!.says = () => tooLong;
    expect((await ask(chat)).status).toBe(200);
    expect([local!.asked.length, small!.asked.length, large!.asked.length]).toEqual([1, 0, 1]);
  });

  it.each([
    ["chat completions", chat],
    ["responses", responses],
  ])("has the code that clients know, through %s", async (_route, request) => {
    const { local } = await start();
    local!.says = () => tooLong;
    const { status, body } = await ask(request);
    expect([status, body.error.type, body.error.code]).toEqual([
      400,
      "invalid_request_error",
      "context_length_exceeded",
    ]);
    expect(body.error.message).toBe(
      "this model's maximum context length is exceeded: send fewer or shorter messages",
    );
    expect(local!.asked).toHaveLength(1);
  });
});

it("model errors: the answer names the parameter that the provider rejects, if the caller has sent it", async () => {
  const { local } = await start();
  const error = {
    message: "Unsupported value: 'temperature' does not support 0.2 with this model.",
    param: "temperature",
    code: "unsupported_value",
  };
  local!.says = () => ({ status: 400, error });
  const { status, body } = await ask(chat, { temperature: 0.2 });
  expect([status, body.error.code, body.error.param]).toEqual([
    400,
    "unsupported_value",
    "temperature",
  ]);
  local!.says = () => ({ status: 400, error: { ...error, param: "messages[0].content" } });
  const other = await ask(chat);
  expect([other.status, other.body.error.param]).toEqual([502, null]);
});

describe("an alias", () => {
  it("may stand for a model with its fallbacks: agents, mappings and hooks name it", async () => {
    const aliases = { sturdy: { primary: "local/big", fallbacks: ["second/small"] } };
    const { local, second } = await start({ more: { second: {} }, model: "sturdy", aliases });
    const isDown = (asked: Asked): Says => (asked.body.model === "big" ? { status: 404 } : {});
    local!.says = isDown;
    expect((await ask(chat)).status).toBe(200);
    const run = await world.hookRun({ model: "sturdy" });
    expect(run).toMatchObject({ status: "succeeded", attempts: 1 });
    expect(second!.asked).toHaveLength(2);
  });
});
