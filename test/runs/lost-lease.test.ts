import { afterEach, beforeEach, expect, it } from "vitest";
import { until } from "../../src/testing/harness.ts";
import { createProvider, modelConfig, type Provider } from "../e2e/provider.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { describePostgres, newSchema, plainly, type Schema } from "../store/postgres.ts";

describePostgres("a turn whose lease is lost", () => {
  let schema: Schema;
  let provider: Provider;
  let world: World;
  beforeEach(async () => {
    schema = newSchema();
    provider = await createProvider();
  });
  afterEach(async () => {
    await world.stop();
    await provider.close();
    await schema.drop();
  });

  it("is aborted: its model call is cut off, and nothing of it is written", async () => {
    let isAborted = false;
    provider.answer = (_request, response) => {
      response.once("close", () => (isAborted = true));
      return new Promise(() => undefined);
    };
    world = await createWorld({
      config: { store: { url: schema.url }, ...modelConfig(provider) },
      logLevel: "trace",
    });
    const runId = await world.orderRun();
    await world.until(async () => provider.requests.length === 1);
    // Acts as a gateway that took the job while this one showed no sign of life.
    await plainly(async (client) => {
      await client.query(`SET search_path TO "${schema.name}"`);
      const { rows } = await client.query(
        "INSERT INTO holders (seen, gateway) VALUES (now() + interval '1 hour', 'other') RETURNING id",
      );
      const taken = await client.query(
        "UPDATE jobs SET holder = $1, starts = starts + 1 WHERE kind = 'turn' AND holder IS NOT NULL",
        [(rows as { id: number }[])[0]?.id],
      );
      expect(taken.rowCount).toBe(1);
    });
    // Seen by two looks at what it holds, some seconds apart.
    await until(() => isAborted, 40_000);
    expect(isAborted).toBe(true);
    await world.until(async () =>
      world.logged.some((line) => line.includes("another gateway has a job of this one")),
    );
    await new Promise((done) => setTimeout(done, 300));
    expect((await world.get(`/hooks/runs/${runId}`)).body.run.status).toBe("running");
    expect(provider.requests).toHaveLength(1);
  });
});
