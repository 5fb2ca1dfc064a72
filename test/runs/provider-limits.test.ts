import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createProvider, createShortWaits, modelConfig, type Provider } from "../e2e/provider.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { describePostgres, madeSchema, type Schema } from "../store/postgres.ts";

let provider: Provider;
let world: World;

beforeEach(async () => {
  provider = await createProvider();
  provider.answer = ({ body }, response) => {
    if (body.model !== "big") return "fine";
    response.writeHead(503).end();
    return undefined;
  };
});
afterEach(async () => {
  await world.stop();
  await provider.close();
});

const mapping = (id: string, agentId: string): object => ({
  id,
  match: { path: id },
  messageTemplate: "Answer.",
  agentId,
  deliver: false,
  wakeMode: "next-heartbeat",
});

/** Starts a gateway with two models, of which one is away, and lets three runs wait for that one. */
async function startWithOutage(store: object, limits: object): Promise<void> {
  const list = [{ id: "main" }, { id: "other", model: "local/small" }];
  world = await createWorld({
    config: {
      ...modelConfig(provider, { list }),
      ...store,
      hooks: { limits, mappings: [mapping("away", "main"), mapping("there", "other")] },
    },
    clock: createShortWaits().clock,
  });
  const waitFor = (count: number, kinds: string[]): Promise<unknown> =>
    world.until(async () => {
      const { runs } = (await world.admin("/admin/v1/runs")).body as {
        runs: { waitsFor: { reason: string } | null }[];
      };
      return (
        runs.filter(({ waitsFor }) => waitsFor && kinds.includes(waitsFor.reason)).length >= count
      );
    });
  for (let n = 0; n < 2; n++) expect((await world.post("/hooks/away", { n })).status).toBe(202);
  // Calls of these fail, and open the breaker.
  await waitFor(2, ["delay", "away"]);
  expect((await world.post("/hooks/away", { n: 2 })).status).toBe(202);
  await waitFor(3, ["delay", "away"]);
  await waitFor(1, ["away"]);
  // Gateways that share limits know within a second what others have done.
  await new Promise((done) => setTimeout(done, 1100));
  await world.admin("/admin/v1/doctor");
}

const getLimitsCheck = async (): Promise<string> =>
  (await world.admin("/admin/v1/doctor")).body.checks.find(
    ({ id }: { id: string }) => id === "limits",
  ).message;

function testWaitsForProvider(getStore: () => object): void {
  it("take no place of `concurrent` and no start of `runsPerHour` from runs of another model", async () => {
    await startWithOutage(getStore(), { concurrent: 1, runsPerHour: 5 });
    await expect.poll(getLimitsCheck).toContain("0 of 1 at the same time");
    const { body } = await world.post("/hooks/there", { n: 9 });
    expect(body.status).toBe("queued");
    expect((await world.endedRun(body.runId)).status).toBe("succeeded");
  });

  it("count for `queue`: an outage fills it, and then hooks are answered 503", async () => {
    await startWithOutage(getStore(), { queue: 3 });
    // The last one may not be counted yet.
    await expect.poll(getLimitsCheck).toContain("hooks: 3 wait");
    const refused = await world.post("/hooks/there", { n: 9 });
    expect([refused.status, refused.body.error.code, refused.headers.has("retry-after")]).toEqual([
      503,
      "overloaded",
      true,
    ]);
    provider.answer = () => "fine";
    await world.until(async () => (await getLimitsCheck()).includes("hooks: 0 wait"));
    expect((await world.post("/hooks/there", { n: 10 })).status).toBe(202);
  });
}

describe("runs that wait for a provider, on SQLite", () => testWaitsForProvider(() => ({})));

describePostgres("runs that wait for a provider, on PostgreSQL", () => {
  let schema: Schema;
  beforeEach(async () => void (schema = await madeSchema()));
  testWaitsForProvider(() => ({ store: { url: schema.url } }));
});
