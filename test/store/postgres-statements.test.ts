import { afterEach, expect, it } from "vitest";
import { parseAddress } from "../../plugins/postgres/client/address.ts";
import { openDb } from "../../plugins/postgres/client/db.ts";
import type { Lane } from "../../plugins/postgres/client/lane.ts";
import { commitGroup } from "../../plugins/postgres/commit/group.ts";
import { newKeys } from "../../plugins/postgres/commit/keys.ts";
import type { Request } from "../../plugins/postgres/commit/request.ts";
import { migrate } from "../../plugins/postgres/schema/migrate.ts";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import { toEventRow } from "../../src/store/sql/rows.ts";
import { DAY, dedupe, event, runAction } from "./suite/make.ts";
import { silent } from "./home.ts";
import { describePostgres, newSchema, plainly } from "./postgres.ts";

describePostgres("statements that PostgreSQL is sent", () => {
  const schema = newSchema();
  afterEach(() => schema.drop());

  it("wait for no other: a read that hangs holds up none that is asked for in the same turn, or later", async () => {
    const url = new URL(schema.url);
    // The store's own bound is longer than a test should take.
    url.searchParams.set("query_timeout", "3000");
    const handle = await openStore({ url: url.href, clock: systemClock, log: silent });
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
          hanging.then(() => "late"),
        ]);
      expect(await read()).toBe(action.runId);
      expect(await read()).toBe(action.runId);
      expect(await hanging).toBe("store_unavailable");
      await client.query("ROLLBACK");
    });
    expect(await handle.store.sessions.get(session)).toBeUndefined();
    await handle.store.close();
  });

  it("are one for a hook with its run and job, and few for a run's start and end", async () => {
    const db = await openDb(parseAddress(schema.url), silent);
    await migrate(db);
    let sent = 0;
    const counting = <L extends Pick<Lane, "query">>(lane: L): L => ({
      ...lane,
      query(text: string, values: readonly unknown[]) {
        sent++;
        return lane.query(text, values);
      },
    });
    const lane: Lane = {
      ...counting(db.work),
      send(statement) {
        sent++;
        return db.work.send(statement);
      },
      transaction: (work) => db.work.transaction((tx) => work(counting(tx))),
    };
    const count = async (request: Request): Promise<number> => {
      sent = 0;
      const parts = {
        db: lane,
        part: "gwy_one",
        now: () => Date.now(),
        dbTime: (at: number) => at,
      };
      const { outcomes } = await commitGroup([request], parts, false);
      expect(outcomes).toEqual([{ kind: "done" }]);
      return sent;
    };
    const action = { ...runAction("hook:one"), mapping: "shop" };
    const one = event({ actions: [action] });
    const keys = newKeys(one.id, [dedupe({ expiresAt: Date.now() + DAY })]);
    expect(
      await count({ keys, event: { row: toEventRow(one, Date.now()), actions: one.actions } }),
    ).toBe(1);
    const { runId: id } = action;
    const start = await count({
      keys: [],
      write: (tx) => tx.runs.update(id, { status: "running", attempts: 1 }),
    });
    // Both read the run with a lock, and write it with its counters.
    expect(start).toBe(3);
    const usage = { totalTokens: 15, costUsd: 0.001 };
    const end = await count({
      keys: [],
      write: (tx) => tx.runs.update(id, { status: "succeeded", endedAt: Date.now(), usage }),
    });
    expect(end).toBe(3);
    expect(
      await db.query(
        "SELECT width, at, tokens, running FROM usage WHERE counter = 'hooks' AND tokens > 0",
      ),
    ).toHaveLength(2);
    await db.close();
  });
});
