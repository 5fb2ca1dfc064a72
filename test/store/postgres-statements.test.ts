import { afterEach, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import type { StoreHandle } from "../../src/store/types.ts";
import { until } from "../../src/testing/harness.ts";
import { event, runAction } from "./suite/make.ts";
import { silent } from "./home.ts";
import { describePostgres, newSchema, plainly } from "./postgres.ts";

describePostgres("statements that PostgreSQL is sent", () => {
  const schema = newSchema();
  afterEach(() => schema.drop());

  it("wait for no other: a read that hangs holds up none that is asked for in the same turn, or later", async () => {
    const handle: StoreHandle = await openStore({
      url: schema.url,
      clock: systemClock,
      log: silent,
    });
    const action = runAction("hook:one");
    await handle.store.accept(event({ actions: [action] }));
    const session = { agentId: "main", origin: "hook" as const, key: "hook:one" };
    await plainly(async (client) => {
      await client.query(`BEGIN; LOCK TABLE "${schema.name}".sessions IN ACCESS EXCLUSIVE MODE`);
      const hanging = handle.store.sessions.get(session).then(
        () => "read",
        (error: { code?: string }) => error.code,
      );
      const read = async (): Promise<unknown> =>
        Promise.race([
          handle.store.runs.get(action.runId).then((run) => run?.id),
          until(() => false, 3000).then(() => "late"),
        ]);
      expect(await read()).toBe(action.runId);
      expect(await read()).toBe(action.runId);
      expect(await hanging).toBe("store_unavailable");
      await client.query("ROLLBACK");
    });
    expect(await handle.store.sessions.get(session)).toBeUndefined();
    await handle.store.close();
  });
});
