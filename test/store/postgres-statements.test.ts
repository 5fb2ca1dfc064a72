import { afterEach, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import type { StoreHandle } from "../../src/store/types.ts";
import { until } from "../../src/testing/harness.ts";
import { event, runAction } from "./suite/make.ts";
import { startVendor, VENDORS, type Vendor } from "../agent/vendors.ts";
import { createWorld } from "../e2e/world.ts";
import { silent } from "./home.ts";
import { describePostgres, newSchema, plainly } from "./postgres.ts";
import { createProxy } from "./proxy.ts";

const VENDOR = VENDORS[0] as Vendor;
const WORKERS = 16;
const HOOKS = 8 * WORKERS;
/** For each run: some 4 while nothing else disturbs runs that begin and end together, 7 on a machine that is busy. */
const MOST = 9;

/** Counts the statements that a client sends over one connection: messages `Execute` and `Query` of PostgreSQL's protocol. */
function createCounter(count: () => void): (bytes: Buffer) => void {
  let rest = Buffer.alloc(0);
  // The first message has no letter before its length.
  let letter = 0;
  return (bytes) => {
    rest = Buffer.concat([rest, bytes]);
    while (rest.length >= letter + 4) {
      const length = letter + rest.readInt32BE(letter);
      if (rest.length < length) return;
      if (letter === 1 && "EQ".includes(rest.toString("latin1", 0, 1))) count();
      rest = rest.subarray(length);
      letter = 1;
    }
  };
}

describePostgres("statements that PostgreSQL is sent", () => {
  const schema = newSchema();
  afterEach(() => schema.drop());

  it("are few for each run of one step with a new session", async () => {
    let statements = 0;
    const proxy = await createProxy(new URL(schema.url), () => createCounter(() => statements++));
    const url = new URL(schema.url);
    url.port = String(proxy.port);
    const model = await startVendor(VENDOR);
    model.handler = () => ({ text: "done" });
    const config = {
      store: { url: url.href },
      models: {
        providers: { local: { type: VENDOR.type, baseUrl: model.baseUrl, apiKey: "k-0123456789" } },
      },
      agents: { defaults: { model: "local/big", maxConcurrent: WORKERS, heartbeat: { every: 0 } } },
    };
    const countSucceeded = async (): Promise<number | null> =>
      (
        await plainly((client) =>
          client.query(`SELECT FROM "${schema.name}".runs WHERE status = 'succeeded'`),
        )
      ).rowCount;
    try {
      const front = await createWorld({ config, workers: false });
      await Promise.all(
        Array.from({ length: HOOKS }, () =>
          front.post("/hooks/agent", { message: "hello", wakeMode: "next-heartbeat" }),
        ),
      );
      await front.stop();
      const back = await createWorld({ config });
      // Starting, and loading what calls models, is none of what a run costs.
      await back.until(async () => model.requests.length > 0);
      const [before, began] = [statements, Date.now()];
      await back.until(async () => (await countSucceeded()) === HOOKS);
      const [sent, took] = [statements - before, Date.now() - began];
      // What a gateway sends by the clock is none of what a run costs: so much in the same time without runs.
      await systemClock.sleep(took);
      const idle = statements - before - sent;
      expect((sent - idle) / HOOKS).toBeLessThanOrEqual(MOST);
      await back.stop();
    } finally {
      await model.close();
      proxy.close();
    }
  });

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
      const hanging = handle.store.get("session", session).then(
        () => "read",
        (error: { code?: string }) => error.code,
      );
      const read = async (): Promise<unknown> =>
        Promise.race([
          handle.store.get("run", action.runId).then((run) => run?.id),
          until(() => false, 3000).then(() => "late"),
        ]);
      expect(await read()).toBe(action.runId);
      expect(await read()).toBe(action.runId);
      expect(await hanging).toBe("store_unavailable");
      await client.query("ROLLBACK");
    });
    expect(await handle.store.get("session", session)).toBeUndefined();
    await handle.store.close();
  });
});
