import { afterEach, beforeEach, expect, it } from "vitest";
import { until } from "../../src/testing/harness.ts";
import { createProvider, createShortWaits, modelConfig, type Provider } from "../e2e/provider.ts";
import { createWorld, TOKEN, type World } from "../e2e/world.ts";
import { describePostgres, madeSchema, type Schema } from "../store/postgres.ts";

const RUNS = 8;

describePostgres("runs that wait for a provider at one of several gateways", () => {
  let schema: Schema;
  let provider: Provider;
  let worlds: World[] = [];
  beforeEach(async () => {
    schema = await madeSchema();
    provider = await createProvider();
  });
  afterEach(async () => {
    await Promise.all(worlds.splice(0).map((world) => world.stop()));
    await provider.close();
  });

  const mapping = (id: string, model: string): object => ({
    id,
    match: { path: id },
    sessionKey: "hook:{{n}}",
    messageTemplate: "{{n}}",
    model,
    deliver: false,
    wakeMode: "next-heartbeat",
  });
  const open = async (): Promise<World> => {
    const hooks = {
      token: TOKEN,
      mappings: [mapping("ask", "local/big"), mapping("hold", "local/small")],
    };
    const models = modelConfig(provider, {
      defaults: { model: "local/big", heartbeat: { every: 0 }, maxConcurrent: 1 },
    });
    const world = await createWorld({
      config: { store: { url: schema.url }, hooks, ...models },
      clock: createShortWaits().clock,
    });
    worlds.push(world);
    return world;
  };

  it("are executed by other gateways as soon as these have an answer", async () => {
    let isDown = true;
    const releases: (() => void)[] = [];
    const countHeld = (): number =>
      provider.requests.filter(({ body }) => body.model === "small").length;
    provider.answer = ({ body }, response) => {
      if (body.model === "small")
        return new Promise((done) => void releases.push(() => done("held")));
      if (!isDown) return "fine";
      response.writeHead(503).end();
      return undefined;
    };
    const b = await open();
    await b.post("/hooks/hold", { n: "b" });
    await b.until(async () => countHeld() === 1);
    // From here on only the first one takes runs: the models of all of them are away for it.
    const a = await open();
    for (let n = 0; n < RUNS; n++) expect((await a.post("/hooks/ask", { n })).status).toBe(202);
    const count = async (status: string): Promise<number> =>
      (await a.admin(`/admin/v1/runs?status=${status}`)).body.runs.length;
    await a.until(async () => (await count("parked")) >= RUNS / 2);
    await a.post("/hooks/hold", { n: "a" });
    await a.until(async () => countHeld() === 2);
    isDown = false;
    releases[0]?.();
    for (let n = 0; n < 100 && (await count("succeeded")) < RUNS + 1; n++)
      await until(() => false, 200);
    expect(await count("succeeded")).toBe(RUNS + 1);
    releases[1]?.();
    await a.until(async () => (await count("succeeded")) === RUNS + 2);
  });
});
