import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FAILURES_TO_OPEN } from "../../src/core/breaker.ts";
import { createShortWaits } from "../e2e/provider.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { startModel, type Model } from "../platform/model.ts";

const HOUR_MS = 3_600_000;

let model: Model;
let world: World;
/** The milliseconds by which the system clock was set ahead. The monotonic clock is not changed. */
let aheadMs = 0;

beforeEach(async () => {
  aheadMs = 0;
  model = await startModel();
});
afterEach(async () => {
  await world.stop();
  await model.close();
});

async function start(): Promise<void> {
  const { clock } = createShortWaits();
  world = await createWorld({
    clock: { ...clock, now: () => clock.now() + aheadMs },
    config: {
      models: { providers: { local: { type: "openai-compatible", baseUrl: model.url } } },
      agents: { defaults: { model: "local/big", heartbeat: { every: 0 } } },
      hooks: { allowRequestSessionKey: true },
    },
  });
}

const order = async (more: object = {}): Promise<string> => world.orderRun({ ...more });
const read = async (id: string) => (await world.admin(`/admin/v1/runs/${id}`)).body.run;
const ended = (id: string) =>
  world.until(async () => {
    const run = await read(id);
    return run.endedAt !== null && run;
  });

describe("steps of the system clock", () => {
  it.each([HOUR_MS, -HOUR_MS])(
    "a turn in progress ends with its answer if the clock is set by %d ms",
    async (stepMs) => {
      await start();
      const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
      const { promise: answer, resolve: release } = Promise.withResolvers<void>();
      model.says = () => {
        ask();
        return { text: ["Done."], wait: () => answer };
      };
      const id = await order();
      await asked;
      aheadMs += stepMs;
      release();
      expect(await ended(id)).toMatchObject({ status: "succeeded", attempts: 1 });
      expect(model.asked).toHaveLength(1);
    },
  );

  it("an hour forward ends no turn that is retried", async () => {
    await start();
    model.says = (_asked, call) => {
      if (call > 0) return { text: ["Done."] };
      aheadMs += HOUR_MS;
      return { status: 503 };
    };
    expect(await ended(await order())).toMatchObject({ status: "succeeded", attempts: 1 });
  });

  it("an hour back lets no turn run for longer than its time limit", async () => {
    await start();
    model.says = (_asked, call) => {
      if (call > 0) return { wait: () => new Promise(() => undefined) };
      aheadMs -= HOUR_MS;
      return { status: 503 };
    };
    const began = performance.now();
    expect(await ended(await order({ timeoutSeconds: 2 }))).toMatchObject({
      status: "timed_out",
      error: { code: "timeout" },
    });
    expect(performance.now() - began).toBeGreaterThan(1_900);
    expect(model.asked).toHaveLength(2);
  });

  it.each([HOUR_MS, -HOUR_MS])(
    "a provider that is away is tested as before where the clock is set by %d ms",
    async (stepMs) => {
      await start();
      let isAway = true;
      model.says = () => (isAway ? { status: 503 } : { text: ["Done."] });
      const ids = await Promise.all([1, 2].map((n) => order({ sessionKey: `hook:${n}` })));
      await world.until(async () =>
        (await Promise.all(ids.map(read))).every(({ status }) => status === "parked"),
      );
      expect(model.asked.length).toBeGreaterThanOrEqual(FAILURES_TO_OPEN);
      const before = model.asked.length;
      aheadMs += stepMs;
      // The next test is due at its time, neither immediately nor an hour later.
      await new Promise((resolve) => setTimeout(resolve, 500));
      expect(model.asked.length).toBeLessThanOrEqual(before + 1);
      isAway = false;
      for (const id of ids) expect(await ended(id)).toMatchObject({ status: "succeeded" });
    },
  );
});
