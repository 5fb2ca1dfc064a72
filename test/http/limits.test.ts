import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { createProvider, modelConfig, type Provider } from "../e2e/provider.ts";
import { createWorld, type Answer, type World, type WorldOptions } from "../e2e/world.ts";

let world: World;
let provider: Provider;
/** Answers to the model's callers that a test holds back. */
let held: (() => void)[];

beforeEach(async () => {
  provider = await createProvider();
  held = [];
  prices = {};
});
afterEach(async () => {
  for (const go of held) go();
  await world.stop();
  await provider.close();
});

const mapping = (id: string, more: object = {}) => ({
  id,
  match: { path: id },
  messageTemplate: '{{ "job-" & n & "." }}',
  wakeMode: "next-heartbeat",
  ...more,
});
/** `models.prices` of the next gateways. */
let prices: object = {};
function start(hooks: object, more: WorldOptions = {}): Promise<World> {
  const { models, ...rest } = modelConfig(provider) as { models: object };
  return createWorld({ ...more, config: { ...rest, models: { ...models, prices }, hooks } });
}
const runOf = async (answer: Answer) =>
  (await world.admin(`/admin/v1/runs/${answer.body.runId}`)).body.run;
const statusOf = async (answer: Answer) => (await runOf(answer)).status as string;
const ended = (answers: readonly Answer[], status = "succeeded") =>
  world.until(async () =>
    (await Promise.all(answers.map(statusOf))).every((now) => now === status),
  );
const post = (path: string, n: number, headers?: Record<string, string>) =>
  world.post(`/hooks/${path}`, { n }, headers);
const hold = (): void => {
  provider.answer = () => new Promise((resolve) => held.push(() => resolve("done")));
};
const asked = (): string[] =>
  provider.requests.flatMap(
    (request) => /job-(\d+)\./.exec(String(request.body.messages.at(-1)?.content))?.[1] ?? [],
  );

/** The same folder under another gateway, so much later. */
async function later(ms: number, hooks: object): Promise<void> {
  const { dir } = world;
  await world.gateway.stop();
  const before = world;
  world = await start(hooks, { dir, clock: { ...systemClock, now: () => systemClock.now() + ms } });
  const { stop } = world;
  world.stop = async () => {
    await stop();
    before.gateway = world.gateway;
  };
}

describe("runs an hour", () => {
  const hooks = {
    mappings: [
      mapping("shop", {
        limits: { runsPerHour: 2 },
        sessionKey: "hook:{{n}}",
        wakeMode: "next-heartbeat",
      }),
    ],
  };

  it("park runs over them, and start them when there is room, in order", async () => {
    world = await start(hooks);
    const answers = [
      await post("shop", 1),
      await post("shop", 2),
      await post("shop", 3),
      await post("shop", 4),
      await post("shop", 5),
    ];
    expect(answers.map(({ status, body }) => [status, body.status])).toEqual([
      [202, "queued"],
      [202, "queued"],
      [202, "parked"],
      [202, "parked"],
      [202, "parked"],
    ]);
    await ended(answers.slice(0, 2));
    expect((await world.get(`/hooks/runs/${answers[2]?.body.runId}`)).body.run).toMatchObject({
      status: "parked",
      startedAt: null,
    });
    const [third, fifth] = [await runOf(answers[2] as Answer), await runOf(answers[4] as Answer)];
    expect(third.waitsFor).toMatchObject({ scope: "mapping:shop", limit: "runsPerHour" });
    // Two an hour: the fifth has to wait for the third.
    expect(Date.parse(fifth.waitsFor.until) - Date.parse(third.waitsFor.until)).toBeGreaterThan(
      3_590_000,
    );
    const { checks } = (await world.admin("/admin/v1/doctor")).body;
    expect(checks.find((check: { id: string }) => check.id === "limits")).toMatchObject({
      status: "warn",
      message: expect.stringMatching(
        /^3 runs are parked: 3 by hooks\.mappings\[0\]\.limits\.runsPerHour, the next may start at 20\d\d-.*: wait, or raise that limit .*; mapping:shop: 2 of 2 runs this hour, 3 wait$/,
      ),
    });
    await later(3_661_000, hooks);
    await ended(answers.slice(2, 4));
    expect(await statusOf(answers[4] as Answer)).toBe("parked");
    expect(asked().slice(2).toSorted()).toEqual(["3", "4"]);
  });

  it("keep runs parked that no worker could take: these are no backlog, as those are that are queued", async () => {
    let ms = 0;
    const clock = { ...systemClock, now: () => systemClock.now() + ms };
    world = await start(
      { mappings: [mapping("shop", { limits: { runsPerHour: 1 }, sessionKey: "hook:{{n}}" })] },
      { workers: false, clock },
    );
    const waiting = async (): Promise<object> => {
      const [{ status }, activity, { checks }] = await Promise.all(
        ["status", "activity", "doctor"].map(
          async (name) => (await world.admin(`/admin/v1/${name}`)).body,
        ),
      );
      const { message } = checks.find((check: { id: string }) => check.id === "backlog");
      return { status: status.waiting.turn, activity: activity.waiting.runs, message };
    };
    await post("shop", 1);
    ms = 90_000;
    await post("shop", 2);
    await post("shop", 3);
    ms = 120_000;
    const turn = { count: 1, oldestSeconds: expect.closeTo(120, -1) };
    expect(await waiting()).toEqual({
      status: turn,
      activity: turn,
      message: expect.stringMatching(
        /^waiting: 1 turn, 0 deliveries, the oldest for 2 min: this gateway has no workers/,
      ),
    });
    const { runs } = (await world.admin("/admin/v1/runs?status=queued")).body;
    await world.admin(`/admin/v1/runs/${runs[0].id}/cancel`, { method: "POST" });
    const none = { count: 0, oldestSeconds: 0 };
    expect(await waiting()).toEqual({
      status: none,
      activity: none,
      message: "waiting: 0 turns, 0 deliveries",
    });
    expect((await world.admin("/admin/v1/status")).body.status.counts).toMatchObject({
      "runs.parked": 2,
    });
  });

  it("are not used by rejected requests and duplicates", async () => {
    world = await start(
      {
        mappings: [mapping("shop", { limits: { runsPerHour: 1 }, validate: { required: ["n"] } })],
      },
      { workers: false },
    );
    expect((await world.post("/hooks/shop", {})).status).toBe(400);
    expect((await post("shop", 1, { authorization: "Bearer wrong" })).status).toBe(401);
    const first = await post("shop", 1, { "idempotency-key": "one" });
    const again = await post("shop", 1, { "idempotency-key": "one" });
    expect([first.body.status, again.body.runId]).toEqual(["queued", first.body.runId]);
    expect((await post("shop", 2)).body.status).toBe("parked");
  });

  it("may be set for all hooks together, and for a preset as a whole", async () => {
    world = await start(
      {
        limits: { runsPerHour: 3 },
        presets: [{ use: "stripe", auth: "token", limits: { runsPerHour: 1 } }],
        mappings: [mapping("shop")],
      },
      { workers: false },
    );
    const event = (type: string) => ({
      id: `evt_${type}`,
      object: "event",
      type,
      data: { object: { id: "x", object: "y" } },
    });
    expect((await world.post("/hooks/stripe", event("invoice.payment_failed"))).body.status).toBe(
      "queued",
    );
    const second = await world.post("/hooks/stripe", event("charge.dispute.created"));
    expect(second.body.status).toBe("parked");
    expect((await runOf(second)).waitsFor.scope).toBe("preset:stripe");
    const direct = await world.post("/hooks/agent", { message: "hello" });
    // The parked one has its place among all hooks' runs already, an hour from now.
    expect(direct.body.status).toBe("queued");
    const over = await post("shop", 1);
    expect(over.body.status).toBe("parked");
    expect((await runOf(over)).waitsFor.scope).toBe("hooks");
  });

  it("start the next run of a session key once the parked one is cancelled", async () => {
    world = await start({
      sharedSessions: ["hook:one"],
      mappings: [
        mapping("shop", { limits: { runsPerHour: 1 }, sessionKey: "hook:one" }),
        mapping("free", { sessionKey: "hook:one" }),
      ],
    });
    const [first, second, third] = [
      await post("shop", 1),
      await post("shop", 2),
      await post("free", 3),
    ];
    await ended([first]);
    expect(await statusOf(third)).toBe("queued");
    await world.admin(`/admin/v1/runs/${second.body.runId}/cancel`, { method: "POST", body: "{}" });
    await ended([third]);
  });
});

describe("runs at the same time", () => {
  it("wait for one to end, in the order in which they came", async () => {
    hold();
    world = await start({
      mappings: [mapping("shop", { limits: { concurrent: 1 } }), mapping("free")],
    });
    const answers: Answer[] = [];
    for (const n of [1, 2, 3, 4]) answers.push(await post("shop", n));
    expect(answers.map(({ body }) => body.status)).toEqual([
      "queued",
      "parked",
      "parked",
      "parked",
    ]);
    const free = await post("free", 9);
    await world.until(async () => provider.requests.length === 2);
    expect((await runOf(answers[1] as Answer)).waitsFor).toMatchObject({
      reason: "limit",
      scope: "mapping:shop",
      limit: "concurrent",
      until: null,
    });
    for (const [index, answer] of answers.entries()) {
      const working = (): string[] => asked().filter((n) => n !== "9");
      await world.until(
        async () => (await statusOf(answer)) === "running" && working().length > index,
      );
      expect(working()).toEqual(["1", "2", "3", "4"].slice(0, index + 1));
      for (const go of held.splice(0)) go();
      await ended([answer]);
    }
    await ended([free]);
  });

  it("cannot lock each other out over shared session keys", async () => {
    hold();
    world = await start({
      sharedSessions: ["hook:"],
      mappings: ["one", "two"].map((id) =>
        mapping(id, { limits: { concurrent: 1 }, sessionKey: "hook:{{key}}" }),
      ),
    });
    const all = [];
    for (const [path, key] of [
      ["one", "k"],
      ["two", "k"],
      ["two", "j"],
      ["one", "j"],
      ["two", "k"],
      ["one", "j"],
    ] as const)
      all.push(await world.post(`/hooks/${path}`, { n: 1, key }));
    let done = false;
    const going = (async () => {
      while (!done) {
        for (const go of held.splice(0)) go();
        await new Promise((next) => setTimeout(next, 10));
      }
    })();
    await ended(all);
    done = true;
    await going;
  });

  it("are counted again after a restart", async () => {
    hold();
    const hooks = { mappings: [mapping("shop", { limits: { concurrent: 1 } })] };
    world = await start(hooks);
    const answers = [await post("shop", 1), await post("shop", 2), await post("shop", 3)];
    await world.until(
      async () => (await statusOf(answers[2] as Answer)) === "parked" && held.length === 1,
    );
    provider.answer = () => "done";
    await later(0, hooks);
    await ended(answers);
  });
});

describe("what a day may use", () => {
  // Each turn of this model uses 11 tokens of input and 3 of output: 0.02 dollars.
  const PRICES = { "local/big": { input: 1000, output: 3000 } };

  it.each([
    ["tokensPerDay", { tokensPerDay: 20 }],
    ["budget.perDay", { budget: { perDay: "0.04 USD" } }],
  ])(
    "parks runs once it is used up, across a restart, until enough of it is a day old: %s",
    async (limit, limits) => {
      const hooks = { mappings: [mapping("shop", { limits })] };
      prices = PRICES;
      world = await start(hooks);
      await ended([await post("shop", 1)]);
      await ended([await post("shop", 2)]);
      const third = await post("shop", 3);
      expect(third.body.status).toBe("parked");
      const { waitsFor } = await runOf(third);
      expect(waitsFor).toMatchObject({ scope: "mapping:shop", limit });
      expect(Date.parse(waitsFor.until) - Date.now()).toBeGreaterThan(86_000_000);
      await later(0, hooks);
      expect((await post("shop", 4)).body.status).toBe("parked");
      await later(87_301_000, hooks);
      await ended([third]);
    },
  );

  it("is a config error in money where the price of an agent's model is unknown", async () => {
    const money = (perDay: string): object => ({
      mappings: [mapping("shop", { limits: { budget: { perDay } } })],
    });
    world = await createWorld({ start: false });
    await expect(start(money("0.04 USD"))).rejects.toThrow(
      "models.prices.local/big: limits.budget counts what runs cost, and the price of this model is unknown",
    );
    prices = PRICES;
    await expect(start(money("5 EUR"))).rejects.toThrow(
      'write an amount of US dollars such as "5 USD"',
    );
  });
});

describe("the queue's limit", () => {
  it("answers 503 with Retry-After, keeps nothing as work, and says why in the event", async () => {
    world = await start(
      { mappings: [mapping("shop", { limits: { queue: 2 } })] },
      { workers: false },
    );
    await post("shop", 1);
    await post("shop", 2);
    const full = await post("shop", 3);
    expect([full.status, full.body.error.code, full.headers.get("retry-after")]).toEqual([
      503,
      "overloaded",
      "30",
    ]);
    const { event } = (await world.admin(`/admin/v1/events/${full.headers.get("x-request-id")}`))
      .body;
    expect(event).toMatchObject({ outcome: "rejected", mapping: "shop", actions: [] });
    expect(event.reason).toContain("limits.queue");
    expect((await world.admin("/admin/v1/runs")).body.runs).toHaveLength(2);
  });

  it("takes all actions of an event or none, and has room again when one has ended", async () => {
    world = await start({
      mappings: [
        mapping("list", {
          forEach: "items",
          messageTemplate: "do {{item}}",
          limits: { queue: 2, runsPerHour: 2 },
        }),
      ],
    });
    expect((await world.post("/hooks/list", { items: [1, 2, 3] })).status).toBe(503);
    expect((await world.admin("/admin/v1/runs")).body.runs).toHaveLength(0);
    const { body } = await world.post("/hooks/list", { items: [1, 2] });
    await world.until(
      async () => (await statusOf({ body: body.results[1] } as Answer)) === "succeeded",
    );
    const again = await world.post("/hooks/list", { items: [3, 4] });
    expect(again.body.results.map((result: { status: string }) => result.status)).toEqual([
      "parked",
      "parked",
    ]);
    expect((await world.post("/hooks/list", { items: [5] })).status).toBe(503);
  });
});

describe("hooks.rateLimit", () => {
  it("answers a caller that is too fast 429, keeps nothing of it, and no other caller pays for it", async () => {
    world = await start(
      {
        rateLimit: { requests: 3, per: "1h" },
        mappings: [mapping("own", { auth: { token: "another-token-0123456789" } })],
      },
      { workers: false },
    );
    const statuses = [];
    for (let n = 0; n < 5; n++)
      statuses.push((await world.post("/hooks/wake", { text: "x" })).status);
    expect(statuses).toEqual([200, 200, 200, 429, 429]);
    const refused = await world.post("/hooks/wake", { text: "x" });
    expect([refused.body.error.code, Number(refused.headers.get("retry-after")) > 1000]).toEqual([
      "rate_limited",
      true,
    ]);
    expect(
      (await post("own", 1, { authorization: "Bearer another-token-0123456789" })).status,
    ).toBe(202);
    expect((await world.admin("/admin/v1/events")).body.events).toHaveLength(4);
    expect((await world.admin("/admin/v1/refusals")).body.refusals[0]).toMatchObject({
      path: "wake",
      reason: "rate_limited",
    });
  });
});

describe("limits in the config", () => {
  it("are refused where they mean nothing", async () => {
    world = await createWorld({ start: false });
    await expect(
      start(
        {
          mappings: [
            {
              id: "w",
              match: { path: "w" },
              action: "wake",
              textTemplate: "x",
              limits: { queue: 1 },
            },
          ],
        },
        { start: false },
      ),
    ).rejects.toThrow(/hooks\.mappings\[0\]\.limits: has no effect for action "wake"/);
    await expect(start({ limits: { runsPerHour: 0 } }, { start: false })).rejects.toThrow(
      /hooks\.limits\.runsPerHour/,
    );
  });
});

describe("fair shares", () => {
  /** Lets one model call after the other end, until a run has ended; returns how many began before it. */
  const letGo = async (calm: Answer): Promise<number> => {
    for (let round = 0; (await statusOf(calm)) !== "succeeded" && round < 20; round++) {
      const before = provider.requests.length;
      for (const go of held.splice(0)) go();
      await world.until(
        async () => provider.requests.length > before || (await statusOf(calm)) === "succeeded",
      );
    }
    await ended([calm]);
    return asked().indexOf("9999");
  };

  it("let a mapping's first run go in its turn, however many runs of another mapping are parked", async () => {
    hold();
    world = await start({
      limits: { concurrent: 1 },
      mappings: [mapping("busy", { sessionKey: "hook:{{n}}" }), mapping("calm")],
    });
    const first = await post("busy", 0);
    await world.until(async () => held.length === 1);
    await Promise.all(Array.from({ length: 50 }, (_, n) => post("busy", n + 1)));
    const calm = await post("calm", 9999);
    expect(calm.body.status).toBe("parked");
    // One of the other mapping's runs may have its turn before.
    expect(await letGo(calm)).toBeLessThanOrEqual(2);
    await ended([first]);
  });

  it("let a session key's first run go in its turn, however many runs of another key are parked", async () => {
    hold();
    world = await start({
      mappings: [mapping("shop", { sessionKey: "hook:{{key}}", limits: { concurrent: 1 } })],
    });
    const ask = (key: string, n: number) => world.post("/hooks/shop", { key, n });
    await ask("busy", 0);
    await world.until(async () => held.length === 1);
    for (let n = 1; n <= 50; n++) await ask("busy", n);
    const calm = await ask("calm", 9999);
    expect(await letGo(calm)).toBeLessThanOrEqual(2);
  });
});
