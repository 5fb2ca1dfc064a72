import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import { noStart } from "../../src/store/types.ts";
import { silent } from "../store/home.ts";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";
import { createProvider, modelConfig, type Provider } from "./provider.ts";
import { createWorld, TOKEN, type World } from "./world.ts";

interface Run {
  id: string;
  status: string;
  waitsFor: { limit: string; until: string | null } | null;
}

describePostgres("limits over several gateways", () => {
  let schema: Schema;
  let provider: Provider;
  let worlds: World[] = [];
  let dirs: string[] = [];
  /** Turns that the model answers at the same moment: how many there are, and the most there were. */
  let now = 0;
  let most = 0;
  /** `models.prices` */
  let prices: object = {};

  beforeEach(async () => {
    schema = newSchema();
    provider = await createProvider();
    [now, most, prices] = [0, 0, {}];
    provider.answer = async () => {
      most = Math.max(most, ++now);
      await new Promise((done) => setTimeout(done, 20));
      now--;
      return "fine";
    };
  });
  afterEach(async () => {
    await Promise.all(worlds.splice(0).map((world) => world.stop()));
    for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true, force: true });
    await provider.close();
    await schema.drop();
  });

  const configOf = (hooks: object): object => {
    const { models, ...rest } = modelConfig(provider) as { models: object };
    return {
      store: { url: schema.url },
      hooks: { token: TOKEN, ...hooks },
      models: { ...models, prices },
      ...rest,
    };
  };
  const open = async (hooks: object, workers = true): Promise<World> => {
    const dir = mkdtempSync(join(tmpdir(), "rouse-limits-"));
    dirs.push(dir);
    const world = await createWorld({ dir, config: configOf(hooks), workers });
    worlds.push(world);
    return world;
  };
  const pair = async (hooks: object, workers = true): Promise<[World, World]> => [
    await open(hooks, workers),
    await open(hooks, workers),
  ];
  const ASK = {
    id: "ask",
    match: { path: "ask" },
    messageTemplate: "{{n}}",
    deliver: false,
    wakeMode: "next-heartbeat",
  };
  const mapping = (limits: object, more: object = {}): object => ({
    mappings: [{ ...ASK, limits, ...more }],
  });
  const postAll = (gateways: readonly World[], count: number) =>
    Promise.all(
      Array.from({ length: count }, (_, n) =>
        (gateways[n % gateways.length] as World).post("/hooks/ask", { n }),
      ),
    );
  const runs = async (world: World): Promise<Run[]> =>
    (await world.admin("/admin/v1/runs?limit=500")).body.runs;
  const count = async (world: World, status: string): Promise<number> =>
    (await runs(world)).filter((run) => run.status === status).length;
  const toldByDoctor = async (world: World): Promise<string> =>
    (await world.admin("/admin/v1/doctor")).body.checks.find(
      (one: { id: string }) => one.id === "limits",
    ).message;
  const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

  it("`concurrent` is kept by all together, and each run comes to its turn", async () => {
    const [a, b] = await pair(mapping({ concurrent: 2 }));
    const answers = await postAll([a, b], 24);
    expect(answers.map(({ status }) => status)).toEqual(Array(24).fill(202));
    await a.until(async () => (await count(a, "succeeded")) === 24);
    expect(most).toBe(2);
    await a.until(async () => (await toldByDoctor(a)).includes("0 of 2 at the same time"));
  });

  it("`runsPerHour` counts the starts of all gateways; a higher limit starts the waiting runs immediately", async () => {
    const [a, b] = await pair(mapping({ runsPerHour: 5 }));
    await postAll([a, b], 12);
    await a.until(
      async () =>
        (await count(a, "succeeded")) === 5 &&
        (await runs(a)).filter((run) => run.waitsFor?.until).length === 7,
    );
    const untils = (await runs(a)).flatMap((run) =>
      run.waitsFor?.until ? [Date.parse(run.waitsFor.until)] : [],
    );
    for (const until of untils) expect(until).toBeGreaterThan(Date.now() + 3_500_000);
    expect(provider.requests).toHaveLength(5);
    for (const world of [a, b]) await world.reload(configOf(mapping({ runsPerHour: 9 })));
    await a.until(
      async () => (await count(a, "succeeded")) === 9 && (await count(a, "parked")) === 3,
    );
    expect(provider.requests).toHaveLength(9);
  });

  // 14 tokens a run, a thousandth of a dollar each: the third run reaches it.
  it.each([
    ["tokensPerDay", { tokensPerDay: 40 }, "42 of 40 tokens"],
    ["budget.perDay", { budget: { perDay: "0.04 USD" } }, "0.04 of 0.04 USD in a day"],
  ])("`%s` counts what the runs of all have used", async (limit, limits, words) => {
    prices = { "local/big": { input: 1000, output: 1000 } };
    const [a, b] = await pair(mapping({ ...limits, concurrent: 1 }));
    await postAll([a, b], 8);
    await a.until(
      async () => (await count(a, "succeeded")) === 3 && (await count(a, "parked")) === 5,
    );
    // None stays in the line for its turn: all wait for the day to be over.
    await a.until(async () => {
      const waits = (await runs(a)).filter((run) => run.status === "parked");
      return waits.every(
        (run) =>
          run.waitsFor?.limit === limit &&
          Date.parse(run.waitsFor.until ?? "") > Date.now() + 80_000_000,
      );
    });
    expect(provider.requests).toHaveLength(3);
    await b.until(async () => (await toldByDoctor(b)).includes(words));
  });

  it("`queue` counts what waits at all, a second late at most", async () => {
    const [a, b] = await pair(mapping({ queue: 6 }), false);
    for (let n = 0; n < 6; n++) expect((await a.post("/hooks/ask", { n })).status).toBe(202);
    await pause(1100);
    // The first one after a second finds what was known, and asks; alone it would take six.
    let taken = 0;
    while (taken < 6 && (await b.post("/hooks/ask", { n: taken })).status === 202) {
      taken++;
      await pause(500);
    }
    expect(taken).toBeLessThan(6);
    expect((await a.post("/hooks/ask", { n: 99 })).status).toBe(503);
  });

  it("collects the events of all in one window, and loses none when it closes", async () => {
    const coalesce = { key: "{{service}}", windowSeconds: 1, maxSeconds: 3, maxEvents: 15 };
    const template = {
      coalesce,
      messageTemplate: '{{count}}: {{ $join(events.($string(n)), " ") }}.',
    };
    const [a, b] = await pair({ mappings: [{ ...ASK, ...template }] });
    const post = async (world: World, n: number, service = "db") =>
      (await world.post("/hooks/ask", { service, n })).body;
    const first = await post(a, 0);
    const rest = await Promise.all(
      Array.from({ length: 9 }, (_, n) => post(n % 2 === 0 ? b : a, n + 1)),
    );
    expect(new Set([first, ...rest].map((body) => body.runId)).size).toBe(1);
    expect(first.status).toBe("collecting");
    await a.until(async () => (await count(a, "succeeded")) === 1);
    expect(provider.text(provider.requests[0] as never)).toMatch(/10/);

    // A stream without a pause: windows fill, close and open while events come in at both.
    provider.requests.length = 0;
    const answers: { ok: boolean; runId: string; status: string }[] = [];
    for (let round = 0; round < 25; round++) {
      answers.push(
        ...(await Promise.all([
          post(a, 1000 + 4 * round),
          post(b, 1001 + 4 * round),
          post(a, 1002 + 4 * round),
          post(b, 1003 + 4 * round),
        ])),
      );
      await pause(30);
    }
    for (const answer of answers) expect(answer).toMatchObject({ ok: true, status: "collecting" });
    const ids = new Set(answers.map((answer) => answer.runId));
    await a.until(async () => (await count(a, "succeeded")) === ids.size + 1);
    const said = provider.requests.flatMap(
      (request) => provider.text(request).match(/\b1[01]\d\d\b/g) ?? [],
    );
    expect(said.map(Number).toSorted((x, y) => x - y)).toEqual(
      Array.from({ length: 100 }, (_, n) => 1000 + n),
    );
    expect(ids.size).toBeLessThan(20);
  });

  it("a caller's requests and failures count at all gateways, a second late at most", async () => {
    const [a, b] = await pair({ rateLimit: { requests: 8, per: "1h" } });
    for (let n = 0; n < 8; n++)
      expect((await a.post("/hooks/wake", { text: "hi", mode: "next-heartbeat" })).status).toBe(
        200,
      );
    let answers = 0;
    await b.until(async () => {
      const answer = await b.post("/hooks/wake", { text: "hi", mode: "next-heartbeat" });
      if (answer.status === 429) return true;
      await pause(250);
      return ++answers > 8 ? Promise.reject(new Error("never limited")) : false;
    });
    expect(answers).toBeLessThan(8);
    const wrong = { authorization: "Bearer wrong-token-0123456789" };
    for (let n = 0; n < 20; n++) expect((await a.post("/hooks/wake", {}, wrong)).status).toBe(401);
    await pause(1500);
    expect((await b.post("/hooks/wake", {}, wrong)).status).toBe(429);
  });

  it("what a gateway that is gone had taken of a budget is given back", async () => {
    const a = await open(mapping({ concurrent: 1 }), false);
    const { runId } = (await a.post("/hooks/ask", { n: 1 })).body;
    // As one that died when it had begun the run.
    const dead = await openStore({ url: schema.url, clock: systemClock, log: silent });
    const request = {
      scope: "mapping:ask",
      counters: ["mapping:ask"],
      limits: { places: 1 },
      pending: noStart(),
      wanted: { starts: 0, places: 1 },
    };
    expect((await dead.usage.reserve([request]))[0]?.reserved).toEqual({ places: 1 });
    await dead.store.commit((tx) =>
      tx.runs.update(runId, { status: "running", attempts: 1, startedAt: Date.now() }),
    );
    await dead.store.commit((tx) => {
      tx.runs.update(runId, {
        status: "succeeded",
        endedAt: Date.now(),
        usage: { totalTokens: 5 },
      });
      tx.jobs.delete("turn", runId);
    });
    await dead.store.close();
    const b = await open(mapping({ concurrent: 1 }));
    await b.post("/hooks/ask", { n: 2 });
    await b.until(async () => (await count(b, "succeeded")) === 2);
    await b.until(async () => (await toldByDoctor(b)).includes("0 of 1 at the same time"));
  });
});
