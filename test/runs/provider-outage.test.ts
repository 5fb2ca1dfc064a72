import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { definePlugin, type OutgoingMessage, type SendResult } from "../../src/plugin/api.ts";
import { configSchema } from "../../src/config/schema/index.ts";
import { createWorld, type Answer, type World } from "../e2e/world.ts";
import { manualClock, passTurns, type ManualClock } from "../delivery/support.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const KEY = "rk_test-key-0123456789-0123456789";

/** A provider: what it was asked, by model, and how it answers. */
interface Provider {
  asked: { model: string; at: number; text: string }[];
  answer(
    model: string,
    text: string,
  ): { status: number; headers?: Record<string, string> } | undefined;
  /** The most calls at the same time. */
  most: number;
  /** Turns of the event loop that an answer takes; and what it waits for besides. */
  turns: number;
  held?: Promise<void>;
  takesMs: number;
}

let provider: Provider;
let clock: ManualClock;
let world: World;
let dir: string;

const fetchModel: typeof fetch = async (_input, init) => {
  const { model, messages } = JSON.parse(init?.body as string) as {
    model: string;
    messages: { content: unknown }[];
  };
  const text = JSON.stringify(messages);
  provider.asked.push({ model, at: clock.now(), text });
  running++;
  provider.most = Math.max(provider.most, running);
  await provider.held;
  const failure = provider.answer(model, text);
  await passTurns(provider.turns);
  if (!failure && provider.takesMs > 0) await clock.sleep(provider.takesMs);
  running--;
  if (failure)
    return Response.json(
      { error: { message: "no" } },
      { status: failure.status, headers: failure.headers ?? {} },
    );
  const choices = [
    { index: 0, finish_reason: "stop", message: { role: "assistant", content: "Done." } },
  ];
  return Response.json({
    id: "c1",
    object: "chat.completion",
    created: 1,
    model,
    choices,
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  });
};
let running = 0;

/** A channel's vendor: what it was sent, and how it answers. */
let sent: { message: OutgoingMessage; at: number }[] = [];
/** Messages that the vendor works on, and the most at the same time. */
let sending = 0;
let mostSending = 0;
let vendorHeld: Promise<void> | undefined;
let vendor: (message: OutgoingMessage) => SendResult = () => ({ status: "sent" });
let hear: ((text: string, more: object) => Promise<unknown>) | undefined;
let heard = 0;
const desk = definePlugin({
  id: "desk",
  channel: () => ({
    allowFrom: ["ann"],
    async listen(signal, host) {
      hear = (text, more) =>
        host.receive({
          id: `msg-${++heard}`,
          from: "ann",
          to: "ann",
          direct: true,
          parts: [{ kind: "own", text }],
          ...more,
        });
      await new Promise((ended) => signal.addEventListener("abort", ended, { once: true }));
    },
    send: async (message) => {
      sent.push({ message, at: clock.now() });
      mostSending = Math.max(mostSending, ++sending);
      await vendorHeld;
      sending--;
      return vendor(message);
    },
  }),
});

/** A channel that takes each message. */
const side = definePlugin({
  id: "side",
  channel: () => ({ send: async () => ({ status: "sent" }) }),
});

async function start(more: object = {}): Promise<World> {
  world = await createWorld({
    dir,
    clock,
    fetch: fetchModel,
    logLevel: "trace",
    plugins: [desk, side],
    config: {
      models: {
        providers: { local: { type: "openai-compatible", baseUrl: "http://model.test/v1" } },
      },
      agents: {
        defaults: { model: "local/big", heartbeat: { every: 0 } },
        list: [
          { id: "main" },
          { id: "other", model: "local/small" },
          { id: "safe", model: { primary: "local/big", fallbacks: ["local/small"] } },
        ],
      },
      platform: { apiKeys: [{ id: "web", key: KEY }] },
      hooks: { allowRequestSessionKey: true },
      ...more,
    },
  });
  return world;
}

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "rouse-outage-"));
  clock = manualClock();
  running = 0;
  sent = [];
  sending = mostSending = 0;
  vendorHeld = undefined;
  vendor = () => ({ status: "sent" });
  provider = { asked: [], answer: () => undefined, most: 0, turns: 1, takesMs: 0 };
});
afterEach(async () => {
  await stop();
  rmSync(dir, { recursive: true, force: true });
});

async function stop(): Promise<void> {
  const stopped = world.gateway.stop();
  for (let i = 0; i < 5; i++) await clock.advance(10_000);
  await stopped;
}

/** The step by which the time moves: a second, and more for a long time. */
const stepOf = (ms: number): number => Math.max(1000, ms / 100);

/** Moves the time on step by step, so that what a moment starts is done before the next: the disk takes real time. */
async function pass(ms: number, stepMs = stepOf(ms)): Promise<void> {
  for (let passed = 0; passed < ms; passed += stepMs) {
    await clock.advance(stepMs);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
async function passUntil(
  check: () => Promise<boolean>,
  most: number,
  stepMs = stepOf(most),
): Promise<void> {
  for (let passed = 0; passed < most; passed += stepMs) {
    if (await check()) return;
    await clock.advance(stepMs);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  expect(await check()).toBe(true);
}
async function passWhile<T>(work: Promise<T>): Promise<T> {
  let isDone = false;
  void work.finally(() => (isDone = true));
  while (!isDone) {
    await clock.advance(50);
    await new Promise((resolve) => setTimeout(resolve, 5));
    // Earlier answers have arrived by now, so the clock of a busy machine does not run ahead of them.
    await world.get("/livez");
  }
  return work;
}
const counts = async (): Promise<Record<string, number>> =>
  (await world.admin("/admin/v1/status")).body.status.counts;
const order = async (more: object = {}): Promise<string> => world.orderRun({ ...more });
const read = async (id: string) => (await world.admin(`/admin/v1/runs/${id}`)).body.run;
const chat = (model: string): Promise<Answer> =>
  world.gateway
    .fetch(
      new Request("http://127.0.0.1/v1/chat/completions", {
        method: "POST",
        headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
        body: JSON.stringify({ model, messages: [{ role: "user", content: "Say it." }] }),
      }),
    )
    .then(async (response) => ({
      status: response.status,
      headers: response.headers,
      body: await response.json(),
    }));
const down =
  (...models: string[]) =>
  (model: string) =>
    models.includes(model) ? { status: 503 } : undefined;

describe("sessions, while a provider is away", () => {
  it("continue with runs that use another model; those that wait keep their order", async () => {
    await start();
    provider.answer = down("big");
    // Hooks of one path and credential share a session under one key.
    for (let n = 0; n < 8; n++) await order({ message: `warm ${n}` });
    await passUntil(async () => (await counts())["runs.parked"] === 8, MINUTE);
    const first = await order({ message: "first", sessionKey: "hook:a" });
    const second = await order({ message: "second", sessionKey: "hook:a", model: "local/small" });
    const third = await order({ message: "third", sessionKey: "hook:a" });
    await passUntil(async () => (await read(second)).status === "succeeded", MINUTE);
    expect((await read(first)).waitsFor).toMatchObject({ reason: "away", of: "local/big" });
    await passUntil(async () => (await read(third)).status === "parked", MINUTE);
    expect((await read(third)).status).toBe("parked");
    await pass(10 * MINUTE);
    provider.answer = () => undefined;
    const late = await order({ message: "fourth", sessionKey: "hook:a" });
    await passUntil(async () => (await read(late)).status === "succeeded", 5 * MINUTE);
    const answered = provider.asked
      .slice(-11)
      .map(
        ({ text }) =>
          /first|second|third|fourth/g.exec(
            text.slice(text.lastIndexOf("EXTERNAL")) || text,
          )?.[0] ?? "",
      );
    const ends = await Promise.all(
      [first, second, third, late].map(async (id) => Date.parse((await read(id)).endedAt)),
    );
    expect(answered.length).toBeGreaterThan(0);
    expect(ends[1]).toBeLessThan(ends[0] as number);
    expect([ends[0], ends[2], ends[3]]).toEqual(
      [ends[0], ends[2], ends[3]].toSorted((a, b) => (a as number) - (b as number)),
    );
    expect(new Set([first, third, late]).size).toBe(3);
  });
});

describe("a provider that limits its callers", () => {
  it("once, with Retry-After, delays no other session", async () => {
    await start();
    let limited = 0;
    provider.answer = (_model, text) =>
      text.includes("the one") && limited++ === 0
        ? { status: 429, headers: { "retry-after": "600" } }
        : undefined;
    const one = await order({ message: "the one" });
    await pass(2000);
    const others = await Promise.all(
      Array.from({ length: 8 }, (_, n) => order({ message: `other ${n}` })),
    );
    await passUntil(
      async () =>
        (await Promise.all(others.map(read))).every(({ status }) => status === "succeeded"),
      5000,
      50,
    );
    expect((await read(one)).status).toBe("queued");
    await pass(9 * MINUTE);
    expect(limited).toBe(1);
    await passUntil(async () => (await read(one)).status === "succeeded", 3 * MINUTE);
  });

  it("with Retry-After: 86400 is asked again after fifteen minutes", async () => {
    await start();
    let limited = 0;
    provider.answer = () =>
      limited++ === 0 ? { status: 429, headers: { "retry-after": "86400" } } : undefined;
    const id = await order();
    const began = clock.now();
    await passUntil(async () => (await read(id)).status === "succeeded", 20 * MINUTE);
    const waited = (provider.asked[1]?.at ?? 0) - began;
    expect(waited).toBeGreaterThanOrEqual(15 * MINUTE - 1000);
    expect(waited).toBeLessThanOrEqual(17 * MINUTE);
  });

  it("at more than three calls at a time is soon asked by about as many, and all runs succeed", async () => {
    await start({
      agents: { defaults: { model: "local/big", heartbeat: { every: 0 }, maxConcurrent: 24 } },
    });
    provider.takesMs = 2000;
    provider.answer = () => (running > 3 ? { status: 429 } : undefined);
    for (let n = 0; n < 60; n++) await order({ message: `number ${n}`, sessionKey: `hook:${n}` });
    await passUntil(async () => (await counts())["runs.succeeded"] === 60, 10 * MINUTE);
    // Without the limit, every run of the crowd is refused again and again.
    expect(provider.most).toBeGreaterThan(3);
    expect(provider.asked.length).toBeLessThan(120);
  });
});

describe("a run at which its provider fails", () => {
  it("is tried with growing waits until it succeeds, while other runs get their answers", async () => {
    await start();
    let isOver = false;
    provider.answer = (_model, text) =>
      text.includes("the one") && !isOver ? { status: 503 } : undefined;
    const one = await order({ message: "the one", sessionKey: "hook:one" });
    // Answers to others keep the breaker closed.
    for (let n = 0; n < 80; n++) {
      await order({ message: "another", sessionKey: `hook:other-${n}` });
      await pass(n < 40 ? 500 : 5000, n < 40 ? 500 : 2500);
    }
    const times = provider.asked.filter(({ text }) => text.includes("the one")).map(({ at }) => at);
    // Shorter waits are those within an attempt.
    const waits = times.flatMap((at, n) =>
      n === 0 || at - (times[n - 1] as number) < 3000 ? [] : [at - (times[n - 1] as number)],
    );
    expect((await read(one)).status).toBe("queued");
    expect(Math.max(...waits)).toBeGreaterThan(45_000);
    expect(waits.length).toBeLessThan(10);
    // No wait is exactly twice the one before it.
    expect(waits.some((ms) => ms % 2000 > 100 && ms % 2000 < 1900)).toBe(true);
    isOver = true;
    await passUntil(async () => (await read(one)).status === "succeeded", 10 * MINUTE);
  });

  it("and asks for a wait is asked again at a moment of its own", async () => {
    await start();
    const asked = new Map<string, number[]>();
    provider.answer = (_model, text) => {
      const [name = ""] = /number \d/.exec(text) ?? [];
      asked.set(name, [...(asked.get(name) ?? []), clock.now()]);
      return asked.get(name)?.length === 1
        ? { status: 429, headers: { "retry-after": "600" } }
        : undefined;
    };
    const ids = await Promise.all(
      [0, 1, 2, 3].map((n) => order({ message: `number ${n}`, sessionKey: `hook:${n}` })),
    );
    await passUntil(
      async () => (await Promise.all(ids.map(read))).every(({ status }) => status === "succeeded"),
      20 * MINUTE,
    );
    const waits = [...asked.values()].map(([first = 0, second = 0]) => second - first);
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(600_000);
    // Runs that ask at the same moment again would be refused at the same moment again.
    expect(Math.max(...waits) - Math.min(...waits)).toBeGreaterThan(1000);
  });

  it("and asks for a day is tested again after fifteen minutes while the breaker is open", async () => {
    await start();
    provider.answer = () => ({ status: 503, headers: { "retry-after": "86400" } });
    const ids = await Promise.all(
      Array.from({ length: 8 }, (_, n) =>
        order({ message: `number ${n}`, sessionKey: `hook:${n}` }),
      ),
    );
    await passUntil(async () => (await counts())["runs.parked"] === 8, 40 * MINUTE);
    provider.answer = () => undefined;
    await passUntil(
      async () => (await Promise.all(ids.map(read))).every(({ status }) => status === "succeeded"),
      40 * MINUTE,
    );
  });
});

describe("a caller of the API", () => {
  /** Opens the breaker of `big`. */
  const openBreaker = async (): Promise<void> => {
    provider.answer = down("big");
    for (let n = 0; n < 8; n++) await order({ message: `warm ${n}`, sessionKey: `hook:${n}` });
    await passUntil(async () => (await counts())["runs.parked"] === 8, MINUTE);
  };

  it("waits while the breaker is open, and is answered 503 when its patience is over", async () => {
    await start();
    await openBreaker();
    const began = clock.now();
    const before = provider.asked.length;
    const refused = await passWhile(chat("main"));
    expect([refused.status, refused.body.error]).toEqual([
      503,
      {
        message: "I cannot answer right now; my operator has been told.",
        type: "server_error",
        param: null,
        code: "provider_unavailable",
      },
    ]);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(clock.now() - began).toBeLessThan(30_000);
    // One call at a time has tested the model meanwhile.
    expect(provider.asked.length - before).toBeLessThan(9);
    expect((await chat("safe")).status).toBe(200);
    expect(provider.asked.at(-1)?.model).toBe("small");
  });

  it("is answered once the model answers again, and its call may be the test that closes the breaker", async () => {
    await start();
    await openBreaker();
    await pass(10 * MINUTE);
    const answer = chat("main");
    await pass(2000);
    provider.answer = () => undefined;
    const { status, body } = await passWhile(answer);
    expect([status, body.choices[0].message.content]).toEqual([200, "Done."]);
    await passUntil(async () => (await counts())["runs.succeeded"] === 9, MINUTE);
  });

  it.each([503, 429])(
    "fails no work of its own or of others by a burst of failures: %s",
    async (status) => {
      await start();
      let failures = 0;
      provider.answer = () => (failures++ < 6 ? { status } : undefined);
      const six = Promise.all(Array.from({ length: 6 }, () => chat("main")));
      await pass(600, 100);
      const run = await order({ message: "other work", sessionKey: "hook:other" });
      const seventh = chat("main");
      const answers = await passWhile(Promise.all([six, seventh]));
      expect(answers.flat().map((one) => one.status)).toEqual([200, 200, 200, 200, 200, 200, 200]);
      await passUntil(async () => (await read(run)).status === "succeeded", MINUTE);
    },
  );

  it("gets the provider's wait in the error if it is longer than its patience", async () => {
    await start();
    provider.answer = () => ({ status: 429, headers: { "retry-after": "90" } });
    const { status, headers, body } = await passWhile(chat("main"));
    expect([status, headers.get("retry-after"), body.error.code]).toEqual([
      429,
      "90",
      "rate_limit_exceeded",
    ]);
  });
});

describe("a person on a channel", () => {
  const AWAY = "I will answer as soon as my model answers again.";
  const startDesk = async (): Promise<void> => {
    hear = undefined;
    await start({ channels: { desk: {} }, sessions: { quietTime: 0 } });
    await passUntil(async () => hear !== undefined, MINUTE);
  };
  const say = async (text: string, more: object = {}): Promise<void> => {
    await hear?.(text, more);
  };
  const texts = (): string[] =>
    sent.map(({ message }) => message.text).filter((text) => !text.includes("/help"));
  /** Lets the time pass. The queue's own timers take real time: a command has it look for what is due. */
  const passAndLook = async (ms: number): Promise<void> => {
    await pass(ms);
    await say("/help");
    await pass(1000, 100);
  };
  const untilTold = (): Promise<void> =>
    passUntil(async () => {
      await say("/help");
      return texts().length > 0;
    }, MINUTE);

  it("gets one message after 20 s that the model is away, then the answer", async () => {
    await startDesk();
    provider.answer = down("big");
    await say("Hi");
    await passAndLook(18_000);
    expect(texts()).toEqual([]);
    await untilTold();
    expect(texts()).toEqual([AWAY]);
    await say("Are you there?");
    await passAndLook(2 * MINUTE);
    expect(texts()).toEqual([AWAY]);
    provider.answer = () => undefined;
    await passUntil(async () => texts().length > 2, 5 * MINUTE);
    await pass(MINUTE);
    expect(texts()).toEqual([AWAY, "Done.", "Done."]);
  });

  it("who writes during an outage gets the message as well, and is answered after it", async () => {
    await startDesk();
    provider.answer = down("big");
    for (let n = 0; n < 8; n++) await order({ message: `warm ${n}`, sessionKey: `hook:${n}` });
    await passUntil(async () => (await counts())["runs.parked"] === 8, MINUTE);
    await say("Hi");
    await untilTold();
    expect(texts()).toEqual([AWAY]);
    provider.answer = () => undefined;
    await passUntil(async () => texts().length > 1, 5 * MINUTE);
    expect(texts()).toEqual([AWAY, "Done."]);
  });

  it("gets one apology in a group, if the model stays away", async () => {
    await startDesk();
    provider.answer = down("big");
    await say("Hi", { to: "group", direct: false });
    await untilTold();
    expect(texts()).toEqual([AWAY]);
    await pass(17 * MINUTE);
    expect(texts()).toEqual([AWAY, "I cannot answer right now; my operator has been told."]);
  });

  it("gets no message about an outage that is shorter", async () => {
    await startDesk();
    provider.answer = down("big");
    await say("Hi");
    await pass(8000);
    provider.answer = () => undefined;
    await passUntil(async () => texts().length === 1, MINUTE);
    await passAndLook(MINUTE);
    expect(texts()).toEqual(["Done."]);
  });

  it("gets the message although the provider names waits that fit into one try", async () => {
    await startDesk();
    provider.answer = (model) =>
      model === "big" ? { status: 503, headers: { "retry-after": "15" } } : undefined;
    await say("Hi");
    await untilTold();
    expect(texts()).toEqual([AWAY]);
  });

  it("gets the message after a restart of the gateway", async () => {
    await startDesk();
    provider.answer = down("big");
    await say("Hi");
    await pass(5000);
    await stop();
    await startDesk();
    await untilTold();
    expect(texts()).toEqual([AWAY]);
  });
});

describe("a run that waits for a provider", () => {
  it("is still there after a restart, and one call at a time tests the provider", async () => {
    await start();
    provider.answer = down("big");
    const ids = await Promise.all(
      Array.from({ length: 30 }, (_, n) =>
        order({ message: `number ${n}`, sessionKey: `hook:${n % 3}` }),
      ),
    );
    await passUntil(async () => (await counts())["runs.parked"] === 30, MINUTE);
    await stop();
    const before = provider.asked.length;
    await start();
    await pass(5000);
    expect((await counts())["runs.parked"]).toBe(30);
    // Tests at once, and two and four seconds later.
    expect(provider.asked.length - before).toBeLessThanOrEqual(4);
    const during = provider.asked.length;
    provider.answer = () => undefined;
    await passUntil(async () => (await counts())["runs.succeeded"] === 30, 5 * MINUTE);
    expect(provider.asked.length - during).toBe(30);
    for (let session = 0; session < 3; session++) {
      const ends = (await Promise.all(ids.filter((_, n) => n % 3 === session).map(read))).map(
        (run) => run.startedAt as string,
      );
      expect(ends).toEqual(ends.toSorted());
    }
  });

  it("is not alone, and still one call at a time tests the provider", async () => {
    await start();
    provider.answer = down("big");
    for (let n = 0; n < 20; n++) await order({ message: `number ${n}`, sessionKey: `hook:${n}` });
    await passUntil(async () => (await counts())["runs.parked"] === 20, MINUTE);
    provider.most = 0;
    let release = (): void => undefined;
    provider.held = new Promise((done) => (release = done));
    await passUntil(async () => running === 1, MINUTE);
    // Those that come while a test is under way are no further tests, however long it takes.
    for (let n = 20; n < 30; n++) await order({ message: `number ${n}`, sessionKey: `hook:${n}` });
    await passUntil(async () => (await counts())["runs.parked"] === 29, MINUTE);
    await pass(MINUTE);
    expect([running, provider.most]).toEqual([1, 1]);
    release();
    await passUntil(async () => (await counts())["runs.parked"] === 30, MINUTE);
  });

  it("ends with its provider's last error after runs.maxAge, by default a day", async () => {
    expect(configSchema.parse({}).runs.maxAge).toBe(24 * HOUR);
    await start({ runs: { maxAge: "30m" } });
    provider.answer = down("big");
    const id = await order();
    await pass(29 * MINUTE);
    expect((await read(id)).status).toBe("parked");
    await pass(2 * MINUTE, 5000);
    // The last call is under way in real time.
    await world.until(async () => (await read(id)).status === "failed");
    const run = await read(id);
    expect(run).toMatchObject({
      status: "failed",
      attempts: expect.any(Number),
      error: { code: "provider_unavailable", vendor: { status: 503 } },
    });
    expect(run.error.message).toBe(
      'the provider "local" answered 503; given up after 30 min (runs.maxAge)',
    );
  });

  it("is shown by metrics, doctor, /readyz?detail and the log", async () => {
    await start();
    provider.answer = down("big");
    const id = await order();
    await passUntil(async () => (await read(id)).status === "parked", MINUTE);
    const metrics = (await world.admin("/metrics")).body as string;
    expect(metrics).toContain('rouse_breaker_open{of="local/big"} 1');
    expect(metrics).toContain('rouse_breaker_waiting{of="local/big"} 1');
    const { checks } = (await world.admin("/admin/v1/doctor")).body;
    expect(checks.find((check: { id: string }) => check.id === "breakers")).toMatchObject({
      status: "warn",
      message: expect.stringContaining("local/big since"),
    });
    expect((await world.admin("/readyz?detail")).body.breakers).toMatchObject([
      { of: "local/big", waiting: 1 },
    ]);
    provider.answer = () => undefined;
    await passUntil(async () => (await read(id)).status === "succeeded", 2 * MINUTE);
    const lines = world.logged.filter((line) => line.includes('"of":"local/big"'));
    expect(lines.map((line) => JSON.parse(line).level)).toEqual(["warn", "info"]);
    expect((await world.admin("/metrics")).body).toContain('rouse_breaker_open{of="local/big"} 0');
  });
});

describe("a channel whose vendor is away", () => {
  it("for an hour gets each message once, in the order of its recipient, and is asked by one at a time", async () => {
    await start({ channels: { desk: {} } });
    const status = async (): Promise<{ away: object | null }> =>
      (await world.admin("/admin/v1/channels/status")).body.channels.find(
        ({ id }: { id: string }) => id === "desk",
      );
    vendor = () => ({ status: "retry", reason: "desk answered 503" });
    for (let n = 0; n < 40; n++)
      await order({
        message: `number ${n}`,
        deliver: true,
        channel: "desk",
        to: `to-${n % 4}`,
        sessionKey: `hook:${n % 4}`,
      });
    await passUntil(async () => (await counts())["runs.succeeded"] === 40, MINUTE);
    await pass(5000);
    // The queue waits for the end of a delay with a timer of the real clock.
    await world.until(async () => (await status()).away ?? false);
    mostSending = 0;
    await pass(HOUR);
    const during = sent.length;
    expect(mostSending).toBe(1);
    expect(during).toBeLessThan(120);
    expect((await counts())["deliveries.pending"]).toBe(40);
    expect((await status()).away).toMatchObject({ of: "desk" });
    let release = (): void => undefined;
    vendorHeld = new Promise((done) => (release = done));
    await passUntil(async () => sending === 1, 2 * MINUTE);
    for (let n = 40; n < 44; n++)
      await order({
        message: `number ${n}`,
        deliver: true,
        channel: "desk",
        to: `to-${n}`,
        sessionKey: `hook:${n}`,
      });
    await pass(MINUTE);
    expect(mostSending).toBe(1);
    release();
    vendor = () => ({ status: "sent" });
    await passUntil(async () => (await counts())["deliveries.delivered"] === 44, 5 * MINUTE);
    expect((await status()).away).toBeNull();
    const arrived = sent.slice(during).map(({ message }) => message);
    expect(new Set(arrived.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(44);
    expect(arrived.length).toBeLessThanOrEqual(45);
  });

  it("for one message only gets its other messages without delay, and in an outage they wait", async () => {
    await start({ channels: { desk: {}, side: {} } });
    const away = async (): Promise<boolean> =>
      (await world.admin("/admin/v1/channels/status")).body.channels.some(
        (one: { id: string; away: unknown }) => one.id === "desk" && one.away,
      );
    const send = (to: string): Promise<string> =>
      order({ deliver: true, channel: "desk", to, sessionKey: `hook:${to}` });
    const triesOf = (to: string): number[] =>
      sent.filter(({ message }) => message.to === to).map(({ at }) => at);
    vendor = ({ to }) =>
      to === "poison" ? { status: "retry", reason: "desk answered 500" } : { status: "sent" };
    await send("poison");
    // The queue waits for the end of a delay with a timer of the real clock: another delivery makes it look at once.
    for (let looks = 0; !(await away()); looks++) {
      expect(looks).toBeLessThan(12);
      await pass(20_000, 5000);
      const other = await order({
        deliver: true,
        channel: "side",
        to: "anyone",
        sessionKey: "hook:side",
      });
      await passUntil(async () => (await read(other)).status === "succeeded", MINUTE, 100);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    for (let n = 0; n < 6; n++) {
      const began = clock.now();
      await send(`to-${n}`);
      await passUntil(async () => triesOf(`to-${n}`).length === 1, MINUTE, 250);
      expect(clock.now() - began).toBeLessThanOrEqual(3000);
      await pass(20_000);
    }
    const poisoned = triesOf("poison").length;
    expect(poisoned).toBeLessThan(20);
    // The channel is there, and the delivery that it does not take still waits.
    const shown = async (): Promise<unknown[]> => [
      await away(),
      ((await world.admin("/metrics")).body as string).includes('rouse_breaker_open{of="desk"} 1'),
      (await world.admin("/admin/v1/doctor")).body.checks.find(
        ({ id }: { id: string }) => id === "breakers",
      ).status,
    ];
    expect(await shown()).toEqual([false, false, "ok"]);
    expect((await counts())["deliveries.pending"]).toBe(1);

    vendor = () => ({ status: "retry", reason: "desk answered 503" });
    for (let n = 0; n < 20; n++) await send(`late-${n}`);
    await pass(10 * MINUTE);
    expect((await counts())["deliveries.pending"]).toBe(21);
    expect(await shown()).toEqual([true, true, "warn"]);
    // All of them are tried at most once each when the outage begins, and then one at a time tests the vendor.
    expect(sent.length - 6 - poisoned).toBeLessThan(45);
    vendor = ({ to }) =>
      to === "poison" ? { status: "retry", reason: "desk answered 500" } : { status: "sent" };
    await passUntil(async () => (await counts())["deliveries.pending"] === 1, 5 * MINUTE);
    expect((await counts())["deliveries.delivered"]).toBeGreaterThanOrEqual(26);
    const late = sent.filter(({ message }) => message.to.startsWith("late-"));
    expect(new Set(late.map(({ message }) => message.idempotencyKey)).size).toBe(20);
  });
});
