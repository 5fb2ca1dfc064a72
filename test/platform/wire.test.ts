import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { KEEP_ALIVE_MS, streamTurn } from "../../src/http/platform/stream.ts";
import { gate } from "./model.ts";
import { eventsOf, OTHER_KEY, platformWorld, USER, type PlatformWorld } from "./world.ts";

/** The gateway of all tests that need none of their own. */
let shared: PlatformWorld;
let world: PlatformWorld;
beforeAll(async () => {
  shared = await platformWorld();
});
afterAll(() => shared.close());
beforeEach(() => {
  shared.model.reset();
  world = shared;
});
afterEach(async () => {
  if (world !== shared) await world.close();
});

const ERROR = {
  message: expect.any(String),
  type: expect.any(String),
  param: null,
  code: expect.any(String),
};

/** The runs that were made, newest first. */
const runs = async () => (await world.admin("/admin/v1/runs")).body.runs;

describe("1. the chunks of a stream", () => {
  it("have a role in the first one, an index and a reason everywhere, and the usage and [DONE] at the end", async () => {
    const { headers, text } = await world.chat({
      stream: true,
      stream_options: { include_usage: true },
    });
    expect(headers.get("content-type")).toContain("text/event-stream");
    const events = eventsOf(text);
    expect(events[0].choices).toEqual([
      { index: 0, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null },
    ]);
    const words = events.slice(1, -3).map((event) => event.choices[0].delta.content);
    expect(words.join("")).toBe("fine");
    expect(events.at(-3).choices).toEqual([
      { index: 0, delta: {}, logprobs: null, finish_reason: "stop" },
    ]);
    expect(events.at(-2)).toMatchObject({
      choices: [],
      usage: { prompt_tokens: 11, completion_tokens: 3, total_tokens: 14 },
    });
    expect(events.at(-1)).toBe("data: [DONE]");
    for (const event of events.slice(0, -1)) {
      expect(event).toMatchObject({
        id: events[0].id,
        object: "chat.completion.chunk",
        model: "ops",
        created: events[0].created,
      });
      for (const choice of event.choices)
        expect(choice).toMatchObject({ index: 0, finish_reason: choice.finish_reason });
    }
  });

  it("have no usage if it was not asked for", async () => {
    const events = eventsOf((await world.chat({ stream: true })).text);
    expect(events.length).toBeGreaterThan(3);
    for (const event of events.slice(0, -1)) expect(event).not.toHaveProperty("usage");
  });

  it("begin before the model has said a word", async () => {
    const first = gate();
    world.model.says = () => ({ text: ["late"], wait: () => first.passed });
    const response = await world.ask("/v1/chat/completions", {
      method: "POST",
      body: JSON.stringify({ model: "ops", messages: USER, stream: true }),
    });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const { value } = await reader.read();
    expect(new TextDecoder().decode(value)).toContain('"role":"assistant"');
    first.open();
    await reader.cancel();
  });
});

describe("2. what else is on a stream", () => {
  it("is data without names alone; keep-alive is a comment", async () => {
    const { text } = await world.chat({ stream: true });
    expect(text.split("\n").filter((line) => line !== "" && !line.startsWith("data: "))).toEqual(
      [],
    );
  });

  it("is a comment every 15 seconds while nothing is said", async () => {
    expect(KEEP_ALIVE_MS).toBe(15_000);
    let left = 0;
    const turn = {
      runId: "run_1",
      createdAt: 0,
      isOneShot: true,
      sessionId: undefined,
      isRetrying: false,
      end: undefined,
      stored: Promise.resolve(),
      listen: () => () => void left++,
      whenOver: () => undefined,
    };
    const stream = streamTurn(
      turn,
      {
        whole: () => ({}),
        begin: () => ["begun"],
        text: () => [],
        reasoning: () => [],
        approval: () => [],
        end: () => [],
        failed: () => [],
      },
      5,
    );
    const reader = stream.getReader();
    let text = "";
    // On a busy machine several come in one piece.
    while (text.split("keep-alive").length < 3)
      text += new TextDecoder().decode((await reader.read()).value);
    expect(text).toMatch(/^data: begun\n\n(?:: keep-alive\n\n){2,}$/);
    await reader.cancel();
    expect(left).toBe(1);
  });
});

describe("3. a failure", () => {
  it("after the first word is an error object, without a reason and without [DONE]", async () => {
    world.model.says = () => ({ text: ["half"], cut: true });
    const { status, text } = await world.chat({ stream: true });
    expect(status).toBe(200);
    const events = eventsOf(text);
    expect(events.at(-1)).toEqual({ error: { ...ERROR, code: "upstream_error" } });
    expect(text).not.toContain("[DONE]");
    expect(text).not.toContain('"finish_reason":"');
    expect(text).toContain("half");
  });

  it("before the first word has a status, streamed or not", async () => {
    world = await platformWorld({ platform: { maxWaitSeconds: 0 } });
    for (const [refused, status, type, code] of [
      [400, 502, "upstream_error", "upstream_error"],
      [500, 503, "server_error", "provider_unavailable"],
    ] as const) {
      world.model.says = () => ({ status: refused });
      for (const stream of [true, false]) {
        const answer = await world.chat({ stream });
        expect([answer.status, answer.body]).toEqual([status, { error: { ...ERROR, type, code } }]);
      }
    }
  });
});

describe("4. errors", () => {
  const post = (body: string, headers: Record<string, string> = {}) =>
    world.call("/v1/chat/completions", body, headers);

  it("have all four members, as JSON, whatever is wrong", async () => {
    world = await platformWorld({ platform: { maxBodyBytes: 5000 } });
    const tried: [number, string, { status: number; body: unknown; headers: Headers }][] = [
      [400, "invalid_json", await post("{")],
      [400, "invalid_json", await post("[]")],
      [400, "invalid_json", await post("")],
      [401, "invalid_api_key", await post("{}", { key: "" })],
      [401, "invalid_api_key", await post("{}", { key: "rk_wrong" })],
      [404, "not_found", await world.call("/v1/nothing", {})],
      [404, "not_found", await world.call("/v1", {})],
      [404, "not_found", await world.call("/v1/chat/completions/", {})],
      [405, "method_not_allowed", await world.call("/v1/models", {})],
      [413, "body_too_large", await post(JSON.stringify({ model: "x".repeat(6000) }))],
      [415, "unsupported_media_type", await post("{}", { "content-type": "text/plain" })],
      [
        415,
        "unsupported_media_type",
        await post("a=b", { "content-type": "application/x-www-form-urlencoded" }),
      ],
      [415, "unsupported_media_type", await post("{}", { "content-encoding": "gzip" })],
    ];
    for (const [status, code, found] of tried) {
      expect([found.status, found.body]).toEqual([status, { error: { ...ERROR, code } }]);
      expect(found.headers.get("x-request-id")).toMatch(/^req_/);
      expect(found.headers.get("content-type")).toBe("application/json");
    }
    // The rest of a refused body would stand before the next request.
    expect(tried[9]?.[2].headers.get("connection")).toBe("close");
    const get = await world.ask("/v1/chat/completions");
    expect([get.status, get.headers.get("allow")]).toEqual([405, "POST"]);
    expect(await get.json()).toEqual({ error: { ...ERROR, code: "method_not_allowed" } });
    expect((await world.ask("/v1/agents", { method: "DELETE" })).headers.get("allow")).toBe(
      "GET, HEAD",
    );
  });

  it("say of a body what is wrong with it, and nothing that does not help", async () => {
    const { body } = await post(`{"model":"ops","messages":[],}`);
    expect(body.error.message).toMatch(/^the body is not valid JSON \([^)]+\)$/);
    const bytes = Buffer.from(
      JSON.stringify({ model: "ops", messages: [{ role: "user", content: "é" }] }),
      "latin1",
    );
    const send = (type: string) =>
      world.ask("/v1/chat/completions", {
        method: "POST",
        body: bytes,
        headers: { "content-type": type },
      });
    const { error } = (await (await send("application/json")).json()) as {
      error: { message: string };
    };
    const advice = /`(charset=[\w-]+)`/.exec(error.message)?.[1];
    // The request works after exactly the change that the message names.
    expect((await send(`application/json; ${advice}`)).status).toBe(200);
    expect(world.model.asked[0]?.text).toMatch(/\né$/);
  });

  it("do not come from a body without a content type, which is JSON", async () => {
    const body = new TextEncoder().encode(JSON.stringify({ model: "ops", messages: USER }));
    const response = await world.ask("/v1/chat/completions", { method: "POST", body });
    expect(response.status).toBe(200);
  });

  it("say that a provider took too long", async () => {
    world = await platformWorld({ timeoutSeconds: 0.3 });
    const never = gate();
    world.model.says = () => ({ text: ["x"], wait: () => never.passed });
    const { status, body } = await world.chat();
    expect([status, body]).toEqual([
      504,
      { error: { ...ERROR, type: "timeout", code: "timeout" } },
    ]);
    expect((await runs())[0].status).toBe("timed_out");
    never.open();
  });
});

describe("5. streaming", () => {
  it.each([
    ["application/json", true],
    ["text/event-stream", false],
  ])("is not decided by Accept (%s)", async (accept, stream) => {
    const { headers } = await world.chat({ stream }, { accept });
    expect(headers.get("content-type")).toContain(
      stream ? "text/event-stream" : "application/json",
    );
  });
});

describe("6. repeats", () => {
  const counted = { "x-stainless-retry-count": "1" };

  it("by the client itself join the turn in progress", async () => {
    const held = gate();
    world.model.says = () => ({ text: ["one"], wait: () => held.passed });
    const first = world.chat();
    await world.until(async () => world.model.asked.length === 1);
    const second = world.chat({}, counted);
    // Without a count it is a request of its own, another body too.
    const third = world.chat();
    const fourth = world.chat({ seed: 4 }, counted);
    await world.until(async () => world.model.asked.length === 3);
    held.open();
    const [one, two, three, four] = await Promise.all([first, second, third, fourth]);
    expect(two.body).toEqual(one.body);
    expect(two.headers.get("idempotent-replayed")).toBe("true");
    expect(new Set([one.body.id, three.body.id, four.body.id]).size).toBe(3);
    expect(world.model.asked).toHaveLength(3);
  });

  it("join no turn of another key", async () => {
    const held = gate();
    world.model.says = () => ({ text: ["one"], wait: () => held.passed });
    const first = world.chat();
    await world.until(async () => world.model.asked.length === 1);
    const second = world.chat({}, { ...counted, key: OTHER_KEY });
    await world.until(async () => world.model.asked.length === 2);
    held.open();
    expect((await first).body.id).not.toBe((await second).body.id);
  });

  it("find a session's turn that ended after its caller had gone", async () => {
    const held = gate();
    world.model.says = () => ({ text: ["one"], wait: () => held.passed });
    const abort = new AbortController();
    const init = { method: "POST", signal: abort.signal, headers: { "x-session-id": "s" } };
    const gone = world
      .ask("/v1/chat/completions", {
        ...init,
        body: JSON.stringify({ model: "ops", messages: USER }),
      })
      .catch(() => "gone");
    await world.until(async () => world.model.asked.length === 1);
    abort.abort();
    expect(await gone).toBe("gone");
    await new Promise((resolve) => setTimeout(resolve, 100));
    held.open();
    await world.until(async () => (await runs())[0].status === "succeeded");
    const again = await world.chat({}, { ...counted, "x-session-id": "s" });
    expect(again.body.choices[0].message.content).toBe("one");
    expect(world.model.asked).toHaveLength(1);
    // A turn whose answer reached its caller is not found by its body.
    await world.chat({}, { "x-session-id": "t" });
    await world.chat({}, { ...counted, "x-session-id": "t" });
    expect(world.model.asked).toHaveLength(3);
  });

  it("with an Idempotency-Key get the first answer, in progress or ended, and a conflict with another body", async () => {
    const headers = { "idempotency-key": "k1" };
    const [one, two] = await Promise.all([world.chat({}, headers), world.chat({}, headers)]);
    const three = await world.chat({}, headers);
    expect([two.body, three.body]).toEqual([one.body, one.body]);
    expect(world.model.asked).toHaveLength(1);
    const streamed = await world.chat({ stream: true }, { "idempotency-key": "k2" });
    const again = await world.chat({ stream: true }, { "idempotency-key": "k2" });
    expect(again.text).toContain("[DONE]");
    expect(eventsOf(again.text)[0].id).toBe(eventsOf(streamed.text)[0].id);
    const other = await world.chat({ seed: 1 }, headers);
    expect([other.status, other.body.error.code, other.headers.get("x-should-retry")]).toEqual([
      409,
      "idempotency_conflict",
      "false",
    ]);
  });

  it("with an Idempotency-Key try again after a failure", async () => {
    world = await platformWorld({ platform: { maxWaitSeconds: 0 } });
    world.model.says = (_asked, call) => (call < 1 ? { status: 500 } : { text: ["well"] });
    const headers = { "idempotency-key": "k1" };
    expect((await world.chat({}, headers)).status).toBe(503);
    expect((await world.chat({}, headers)).body.choices[0].message.content).toBe("well");
  });

  it("are not wanted once a turn has begun", async () => {
    world = await platformWorld({ platform: { maxWaitSeconds: 0 } });
    world.model.says = () => ({ status: 503 });
    expect((await world.chat()).headers.get("x-should-retry")).toBe("false");
    expect((await world.chat({ n: 2 })).headers.get("x-should-retry")).toBeNull();
  });

  it("get a Retry-After if the key is too fast or the gateway is full", async () => {
    world = await platformWorld({
      keys: [{ id: "slow", key: "rk_slow-0123456789", rateLimit: { requests: 1, per: "1m" } }],
      platform: { maxConcurrent: 1 },
    });
    const key = "rk_slow-0123456789";
    expect((await world.chat({}, { key })).status).toBe(200);
    const limited = await world.chat({}, { key });
    expect([
      limited.status,
      limited.body.error.code,
      Number(limited.headers.get("retry-after")) > 50,
    ]).toEqual([429, "rate_limit_exceeded", true]);
    const held = gate();
    world.model.says = () => ({ text: ["one"], wait: () => held.passed });
    const first = world.chat();
    await world.until(async () => world.model.asked.length === 2);
    const full = await world.chat();
    expect([full.status, full.body.error.code, full.headers.get("retry-after")]).toEqual([
      503,
      "overloaded",
      "2",
    ]);
    held.open();
    expect((await first).status).toBe(200);
  });
});

describe("7. when a caller hangs up", () => {
  const hangUp = async (
    body: object,
    headers: Record<string, string>,
    when: () => Promise<unknown>,
  ): Promise<void> => {
    const abort = new AbortController();
    const init = {
      method: "POST",
      signal: abort.signal,
      headers,
      body: JSON.stringify({ model: "ops", messages: USER, ...body }),
    };
    const asked = world
      .ask("/v1/chat/completions", init)
      .then((response) => response.text())
      .catch(() => undefined);
    await when();
    abort.abort();
    await asked;
  };

  it.each([true, false])("one shot is stopped (stream: %s)", async (stream) => {
    const held = gate();
    world.model.says = () => ({
      text: ["one", "two"],
      wait: (piece) => (stream && piece === 0 ? Promise.resolve() : held.passed),
    });
    await hangUp({ stream }, {}, () => world.until(async () => world.model.asked.length === 1));
    await world.until(async () => world.model.asked[0]?.gone.aborted);
    const run = await world.until(async () => {
      const [found] = await runs();
      return found.endedAt !== null && found;
    });
    expect(run).toMatchObject({
      kind: "api",
      status: "cancelled",
      error: { message: "the caller hung up" },
    });
    held.open();
  });

  it.each([true, false])("a session's turn continues (stream: %s)", async (stream) => {
    const held = gate();
    world.model.says = () => ({ text: ["one", "two"], wait: () => held.passed });
    await hangUp({ stream }, { "x-session-id": `goes-on-${stream}` }, () =>
      world.until(async () => world.model.asked.length === 1),
    );
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(world.model.asked[0]?.gone.aborted).toBe(false);
    held.open();
    await world.until(async () => (await runs())[0].status === "succeeded");
    const { body } = await world.admin(
      `/admin/v1/sessions/show?origin=api&agent=ops&key=api:web:ops:goes-on-${stream}`,
    );
    expect(body.turns).toHaveLength(1);
  });

  it("the turn continues for another caller that has joined", async () => {
    const held = gate();
    world.model.says = () => ({ text: ["one"], wait: () => held.passed });
    const second = world
      .until(async () => world.model.asked.length === 1)
      .then(() => world.chat({}, { "x-stainless-retry-count": "1" }));
    await hangUp({}, {}, async () => {
      await world.until(async () => world.model.asked.length === 1);
      await new Promise((resolve) => setTimeout(resolve, 150));
    });
    held.open();
    expect((await second).body.choices[0].message.content).toBe("one");
    expect(world.model.asked).toHaveLength(1);
  });
});

it("platform API: every answer has an id of its own", async () => {
  const ids = [
    (await world.chat()).headers,
    (await world.chat({ stream: true })).headers,
    (await world.ask("/v1/models")).headers,
    (await world.ask("/v1/agents")).headers,
    (await world.ask("/v1/models/ops", { method: "HEAD" })).headers,
  ].map((headers) => headers.get("x-request-id"));
  expect(new Set(ids).size).toBe(5);
  for (const id of ids) expect(id).toMatch(/^req_/);
});
