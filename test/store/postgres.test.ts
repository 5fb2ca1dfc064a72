import type pg from "pg";
import { expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { createLogger } from "../../src/core/log.ts";
import { openStore } from "../../src/store/open.ts";
import { digest } from "../../plugins/postgres/client/digest.ts";
import { TAKE } from "../../plugins/postgres/queue/jobs.ts";
import { MIGRATIONS } from "../../plugins/postgres/schema/schema.ts";
import type { Job, JobKind, StoreHandle, Writes } from "../../src/store/types.ts";
import { until } from "../../src/testing/harness.ts";
import {
  approval,
  DAY,
  DECISION,
  dedupe,
  event,
  job,
  runAction,
  START,
  step,
  wakeAction,
} from "./suite/make.ts";
import { createDatabase, describePostgres, plainly } from "./postgres.ts";
import { postgresAddress } from "./postgres-client.ts";
import { createProxy } from "./proxy.ts";

describePostgres("several gateways on one PostgreSQL", () => {
  const database = createDatabase();
  const { open, within, query } = database;

  it("make one schema between them when they start at the same moment", async () => {
    await plainly((client) => client.query(`DROP SCHEMA ${database.schema.name} CASCADE`));
    const handles = await Promise.all(Array.from({ length: 4 }, () => open()));
    await handles[0]?.store.commit((tx) => tx.values.set("a", 1));
    expect(await handles[3]?.store.values.get("a")).toBe(1);
    expect(await query("SELECT version FROM migrations")).toHaveLength(MIGRATIONS.length);
  });

  it("accept one of two deliveries with the same key that come at the same moment, and name it to the other", async () => {
    const [a, b] = [await open(), await open()];
    const expiresAt = Date.now() + DAY;
    const keys = Array.from({ length: 40 }, (_, n) => [
      dedupe({ key: `one-${n}`, expiresAt }),
      dedupe({ key: `two-${n}`, expiresAt }),
    ]);
    const results = await Promise.all(
      keys.map(async (both) => {
        const events = [
          event({ actions: [runAction()] }),
          event({ actions: [runAction()] }),
        ] as const;
        // The keys in another order: whoever binds one must not wait for the other's.
        const answers = await Promise.all([
          a.store.accept(events[0], both),
          b.store.accept(events[1], both.toReversed()),
        ]);
        return { events, answers };
      }),
    );
    for (const { events, answers } of results) {
      const kinds = answers.map((answer) => answer.kind);
      expect(kinds.toSorted()).toEqual(["accepted", "duplicate"]);
      const winner = events[kinds.indexOf("accepted")];
      expect(answers.find((answer) => answer.kind === "duplicate")).toMatchObject({
        record: { eventId: winner?.id },
      });
    }
    expect(await a.store.events.list({ limit: 1000 })).toHaveLength(40);
    expect(await b.store.counts()).toMatchObject({
      "events.accepted": 40,
      "runs.queued": 40,
      "jobs.turn": 40,
    });
  });

  it("refuse an event whose id the other has just written, and nothing else of its group", async () => {
    const [a, b] = [await open(), await open()];
    for (let n = 0; n < 10; n++) {
      const shared = event();
      const results = await Promise.allSettled([
        a.store.accept(shared),
        b.store.accept(shared, [dedupe({ key: `k${n}`, expiresAt: Date.now() + DAY })]),
        a.store.accept(event()),
        b.store.accept(event()),
        b.store.accept(shared),
      ]);
      const states: string[] = results.map((result) => result.status);
      expect([0, 1, 4].map((n) => states[n] ?? "").toSorted()).toEqual([
        "fulfilled",
        "rejected",
        "rejected",
      ]);
      expect([states[2], states[3]]).toEqual(["fulfilled", "fulfilled"]);
      for (const result of results)
        if (result.status === "rejected") expect(result.reason).toMatchObject({ code: "internal" });
    }
    expect(await a.store.events.list({ limit: 1000 })).toHaveLength(30);
  });

  it("take one of two decisions on an approval that come at the same moment, and refuse the other whole", async () => {
    const named = (name: string) => (url: URL) => url.searchParams.set("application_name", name);
    const [a, b] = [await open(named("decides a")), await open(named("decides b"))];
    const decide = (by: string, on: StoreHandle, runId: string): Promise<boolean> =>
      on.store.commit((tx) => {
        tx.values.set(`${by} ${runId}`, 1);
        tx.approvals.decide(`apr_${runId}`, { ...DECISION, by });
        tx.jobs.reschedule("turn", runId, 0);
      });
    const waiting = async (client: pg.Client): Promise<number> => {
      // Within a transaction PostgreSQL shows the connections of the first look, and theirs may not have been open then.
      await client.query("SELECT pg_stat_clear_snapshot()");
      const text =
        "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'decides _' AND wait_event_type = 'Lock'";
      return (await client.query(text)).rows.length;
    };
    for (let n = 0; n < 6; n++) {
      const runId = `run_${n}`;
      await a.store.commit((tx) => {
        tx.approvals.add(approval(runId));
        tx.jobs.add(job(runId, { key: runId, runAt: Date.now() + DAY }));
      });
      // Both transactions are under way before either can read the approval.
      const deciding = await within(async (client) => {
        await client.query("BEGIN; SELECT 1 FROM approvals FOR UPDATE");
        const both = Promise.allSettled(
          n % 2 === 0
            ? [decide("a", a, runId), decide("b", b, runId)]
            : [decide("b", b, runId), decide("a", a, runId)],
        );
        while ((await waiting(client)) < 2) await new Promise((done) => setTimeout(done, 10));
        await client.query("COMMIT");
        return both;
      });
      expect(deciding.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
      const refused = deciding.find(({ status }) => status === "rejected");
      expect(refused).toMatchObject({
        reason: { code: "internal", message: expect.stringMatching(/is not open/) as string },
      });
      const by = (await b.store.approvals.get(`apr_${runId}`))?.decision?.by ?? "";
      const first = deciding[0]?.status === "fulfilled";
      expect(by).toBe(first === (n % 2 === 0) ? "a" : "b");
      expect(await a.store.values.get(`${by} ${runId}`)).toBe(1);
      expect(await a.store.values.get(`${by === "a" ? "b" : "a"} ${runId}`)).toBeUndefined();
    }
    expect(await a.store.counts()).toMatchObject({ "approvals.open": 0, "approvals.decided": 6 });
  });

  it("write a step once, and give an open code to one approval, also when both do it at the same moment", async () => {
    const [a, b] = [await open(), await open()];
    const refused = {
      status: "rejected",
      reason: { code: "internal", message: expect.stringMatching(/id it holds already/) as string },
    };
    for (let n = 0; n < 20; n++) {
      const both = (write: (tx: Writes, by: string) => void) =>
        Promise.allSettled([
          a.store.commit((tx) => write(tx, "a")),
          b.store.commit((tx) => write(tx, "b")),
        ]);
      const expectOne = (results: PromiseSettledResult<boolean>[]): void => {
        expect(results.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
        expect(results.find(({ status }) => status === "rejected")).toMatchObject(refused);
      };
      expectOne(await both((tx, by) => tx.steps.add({ ...step("run_a", n), model: by })));
      expectOne(
        await both((tx, by) => tx.toolResults.add({ id: `res_${n}`, runId: "run_a", text: by })),
      );
      expectOne(
        await both((tx, by) => tx.approvals.add(approval(`run_${by}${n}`, { code: `c${n}` }))),
      );
    }
    const steps = await a.store.steps.list("run_a");
    expect(steps.map(({ index, calls }) => [index, calls.length])).toEqual(
      Array.from({ length: 20 }, (_, n) => [n, 2]),
    );
    expect(await b.store.counts()).toMatchObject({ "approvals.open": 20 });
  });

  it("put the events of one window into one run", async () => {
    const [a, b] = [await open(), await open()];
    const collect = (n: number) => ({
      key: "w",
      closesAt: START + n,
      event: { at: START, payload: String(n), headers: {}, query: {}, path: "alerts" },
    });
    const first = runAction();
    await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        (n % 2 === 0 ? a : b).store.accept(event({ actions: [{ ...first, collect: collect(n) }] })),
      ),
    );
    expect(await a.store.runs.list({})).toMatchObject([
      { id: first.runId, status: "collecting", collect: { count: 20 } },
    ]);
    const payloads = (await b.store.runs.listCollected(first.runId)).map((one) =>
      Number(one.payload),
    );
    expect(payloads.toSorted((x, y) => x - y)).toEqual(Array.from({ length: 20 }, (_, n) => n));
    expect(await a.queue.fetch("turn", 5)).toMatchObject([
      { id: first.runId, data: { type: "collect" } },
    ]);
  });

  it("keep each key's order, one job at a time, while both add and both take", async () => {
    const [a, b] = [await open(), await open()];
    const keys = ["a", "b", "c", "d"];
    const PER_KEY = 40;
    const seen: Record<string, string[]> = {};
    const busy = new Set<string>();
    let overlaps = 0;
    let left = 2 * keys.length * PER_KEY;
    const add = async (from: StoreHandle, name: string): Promise<void> => {
      for (let n = 0; n < PER_KEY; n++)
        await from.store.commit((tx) =>
          keys.forEach((key) =>
            tx.jobs.add(job(`${name}-${key}-${n}`, { key, enqueuedAt: Date.now() })),
          ),
        );
    };
    const carryOut = async (by: StoreHandle, one: Job): Promise<void> => {
      if (busy.has(one.key)) overlaps++;
      busy.add(one.key);
      await new Promise((resolve) => setImmediate(resolve));
      (seen[one.key] ??= []).push(one.id);
      // Every seventh is put back first: it holds its key.
      const again = one.attempts === 1 && one.id.endsWith("7");
      busy.delete(one.key);
      const done = await by.store.commit(
        (tx) => (again ? tx.jobs.settle(one, Date.now()) : tx.jobs.settle(one)),
        one,
      );
      expect(done).toBe(true);
      if (!again) left--;
    };
    const work = async (by: StoreHandle, limit: number): Promise<void> => {
      while (left > 0) {
        const jobs = await by.queue.fetch("turn", limit);
        await Promise.all(jobs.map((one) => carryOut(by, one)));
      }
    };
    await Promise.all([add(a, "a"), add(b, "b"), work(a, 1), work(a, 3), work(b, 2), work(b, 1)]);
    expect(overlaps).toBe(0);
    for (const key of keys) {
      for (const name of ["a", "b"]) {
        const order = (seen[key] ?? []).filter((id) => id.startsWith(`${name}-`));
        const expected = Array.from({ length: PER_KEY }, (_, n) => `${name}-${key}-${n}`).flatMap(
          (id) => (id.endsWith("7") ? [id, id] : [id]),
        );
        expect(order).toEqual(expected);
      }
    }
    expect(await a.store.counts()).toMatchObject({ "jobs.turn": 0 });
  });

  it("keep to the order also where two opened a key at the same moment, and both jobs were taken for its first", async () => {
    const a = await open();
    for (const id of ["one", "two"])
      await a.store.commit((tx) => tx.jobs.add(job(id, { key: "k", enqueuedAt: 1 })));
    await query("UPDATE jobs SET ready = run_at");
    const [held, ...more] = await a.queue.fetch("turn", 5);
    expect([held?.id, more]).toEqual(["one", []]);
    expect(await a.queue.fetch("turn", 5)).toEqual([]);
    await a.store.commit((tx) => tx.jobs.settle(held as Job, Date.now() + 60_000), held);
    expect(await a.queue.fetch("turn", 5)).toEqual([]);
    await a.store.commit((tx) => tx.jobs.delete("turn", "one"));
    expect(await a.queue.fetch("turn", 5)).toMatchObject([{ id: "two" }]);
  });

  it("hear of each other's hooks, wakes and free keys without asking", async () => {
    const [a, b] = [await open(), await open()];
    const heard: string[] = [];
    // This gateway does not fetch jobs: each call comes from a notification.
    b.queue.onReady((kind) => heard.push(kind));
    b.store.onSystemEvents((agentId, mode) => heard.push(`${agentId} ${mode}`));
    const told = async (write: () => Promise<unknown>, expected: string): Promise<void> => {
      heard.length = 0;
      for (let n = 0; n < 100 && !heard.includes(expected); n++) {
        await write();
        await until(() => heard.includes(expected), 200);
      }
      expect(heard).toContain(expected);
    };
    let n = 0;
    await told(() => a.store.accept(event({ actions: [runAction(`hook:${n++}`)] })), "turn");
    // Each client of the database can send something: nothing of it is heard, and nothing ends.
    const channel = `rouse_${digest(database.schema.name).toString("hex")}`;
    for (const text of [
      "no JSON",
      "null",
      "[1]",
      '{"k":5,"w":[7]}',
      '{"k":[],"w":[],"t":[["cancel"]]}',
    ])
      await query("SELECT pg_notify($1, $2)", [channel, text]);
    await told(
      () => a.store.accept(event({ actions: [wakeAction({ agentId: "other" })] })),
      "other now",
    );
    await a.store.commit((tx) => {
      tx.jobs.add(job("d1", { kind: "delivery", key: "d" }));
      tx.jobs.add(job("d2", { kind: "delivery", key: "d" }));
    });
    const [held] = await a.queue.fetch("delivery", 1);
    await until(() => false, 50);
    heard.length = 0;
    await a.store.commit((tx) => tx.jobs.settle(held as Job), held);
    await until(() => heard.length > 0);
    expect(heard).toEqual(["delivery"]);
  });

  it("refuse within bounds while PostgreSQL is away or hangs, and continue by themselves when it is back", async () => {
    const proxy = await createProxy(postgresAddress());
    const a = await open((url) => {
      url.port = String(proxy.port);
      // The store's own bound is longer than a test should take.
      url.searchParams.set("query_timeout", "1000");
    });
    const heard: JobKind[] = [];
    a.queue.onReady((kind) => heard.push(kind));
    const accept = (): Promise<unknown> =>
      a.store.accept(event({ actions: [runAction(`hook:${Math.random()}`)] }));
    await accept();
    const back = async (): Promise<void> => {
      let kept = false;
      for (const end = Date.now() + 15_000; !kept && Date.now() < end;)
        kept = await accept().then(
          () => true,
          () => until(() => false, 50).then(() => false),
        );
      expect(kept).toBe(true);
      expect(await a.queue.fetch("turn", 100)).not.toEqual([]);
    };
    for (const state of ["refusing", "hanging"] as const) {
      proxy.set(state);
      const results = await Promise.allSettled([
        accept(),
        accept(),
        a.store.events.get("evt_x"),
        a.queue.fetch("turn", 1),
      ]);
      for (const result of results)
        expect(result).toMatchObject({
          status: "rejected",
          reason: { code: "store_unavailable", retryAfterSeconds: expect.any(Number) },
        });
      proxy.set("open");
      await back();
    }
    const b = await open();
    heard.length = 0;
    for (let n = 0; n < 50 && heard.length === 0; n++) {
      await b.store.accept(event({ actions: [runAction(`after:${n}`)] }));
      await until(() => heard.length > 0, 200);
    }
    expect(heard).toContain("turn");
    await database.closeAll();
    proxy.close();
  });

  it("accept hooks, and show that they are alive, while work that waits for a lock has used up the other connections", async () => {
    const a = await open();
    await a.store.accept(event());
    const seen = (client: pg.Client): Promise<string> =>
      client
        .query<{ seen: string }>("SELECT max(seen)::text AS seen FROM holders")
        .then(({ rows }) => rows[0]?.seen ?? "");
    await a.queue.recover();
    await within(async (client) => {
      await client.query("BEGIN; LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE");
      let isOver = false;
      let blocked = 0;
      const list = async (): Promise<void> => {
        while (!isOver) {
          blocked++;
          await a.store.sessions.list({}).catch(() => undefined);
          blocked--;
        }
      };
      const waiting = Array.from({ length: 40 }, list);
      try {
        const before = await seen(client);
        for (let n = 0; n < 5; n++) {
          const keys = [dedupe({ key: `k${n}`, expiresAt: Date.now() + DAY })];
          expect(await a.store.accept(event({ actions: [runAction()] }), keys)).toEqual({
            kind: "accepted",
          });
          expect(blocked).toBe(40);
        }
        for (const end = Date.now() + 10_000; (await seen(client)) === before && Date.now() < end;)
          await until(() => false, 100);
        expect(await seen(client)).not.toBe(before);
        expect(a.cluster.reachable()).toBe(true);
      } finally {
        isOver = true;
        await client.query("COMMIT");
        await Promise.all(waiting);
      }
    });
    expect(await a.store.counts()).toMatchObject({ "events.accepted": 6 });
  });

  it("show again and again that they are alive while statements that tidy up wait for a lock", async () => {
    const a = await open();
    await a.queue.recover();
    await within(async (client) => {
      await client.query("BEGIN; SELECT 1 FROM marks FOR UPDATE");
      // Statements that wait, by their start, and signs of life. A statement gives up after 5 seconds, and a sign comes every 2.5.
      const statements = new Set<string>();
      const signs = new Set<string>();
      for (
        const end = Date.now() + 80_000;
        statements.size < 2 && Date.now() < end;
        await until(() => false, 50)
      ) {
        await client.query("SELECT pg_stat_clear_snapshot()");
        const { rows } = await client.query<{ waiting: string[] | null; seen: string }>(
          `SELECT (SELECT array_agg(query_start::text) FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))) AS waiting,
            (SELECT max(seen)::text FROM holders) AS seen`,
        );
        for (const one of rows[0]?.waiting ?? []) statements.add(one);
        signs.add(rows[0]?.seen ?? "");
      }
      expect(statements.size).toBeGreaterThanOrEqual(2);
      // Each statement that tidies up comes after a sign of its own.
      expect(signs.size).toBeGreaterThanOrEqual(statements.size);
      await client.query("COMMIT");
    });
  });

  it("look at no more jobs than they take, however many wait", async () => {
    const a = await open();
    for (let n = 0; n < 10; n++) {
      await a.store.commit((tx) => {
        for (let i = 0; i < 1000; i++)
          tx.jobs.add(job(`own-${n}-${i}`, { key: `k${n}-${i}`, enqueuedAt: 1 }));
        for (let i = 0; i < 1000; i++)
          tx.jobs.add(job(`one-${n}-${i}`, { key: "one", enqueuedAt: 1 }));
      });
    }
    expect(await a.queue.fetch("turn", 2)).toHaveLength(2);
    interface Node {
      "Actual Rows": number;
      "Actual Loops": number;
      "Rows Removed by Filter"?: number;
      Plans?: Node[];
    }
    const rows = (node: Node): number =>
      Math.max(
        (node["Actual Rows"] + (node["Rows Removed by Filter"] ?? 0)) * node["Actual Loops"],
        ...(node.Plans ?? []).map(rows),
      );
    const most = await within(async (client) => {
      for (const plan of ["seqscan", "bitmapscan", "hashjoin", "mergejoin"])
        await client.query(`SET enable_${plan} TO off`);
      const { rows: holders } = await client.query<{ id: string }>("SELECT id FROM holders");
      const { rows: plans } = await client.query<{ "QUERY PLAN": { Plan: Node }[] }>(
        `EXPLAIN (ANALYZE, FORMAT JSON) ${TAKE}`,
        ["turn", Date.now(), 4, holders[0]?.id],
      );
      return rows(plans[0]?.["QUERY PLAN"][0]?.Plan as Node);
    });
    expect(most).toBeLessThan(20);
  });

  it("count alike before and after the changes were summed up", async () => {
    const a = await open();
    await a.store.commit((tx) => {
      for (let n = 0; n < 50; n++) tx.jobs.add(job(`j${n}`, { key: `k${n % 5}` }));
    });
    const [one] = await a.queue.fetch("turn", 1);
    await a.store.commit((tx) => tx.jobs.settle(one as Job), one);
    const deltas = async (): Promise<number> => (await query("SELECT 1 FROM count_deltas")).length;
    expect(await a.store.counts()).toMatchObject({ "jobs.turn": 49 });
    const end = Date.now() + 15_000;
    while ((await deltas()) > 0 && Date.now() < end) await until(() => false, 100);
    expect(await deltas()).toBe(0);
    expect(await a.store.counts()).toMatchObject({ "jobs.turn": 49 });
    expect(await a.queue.waiting("turn")).toMatchObject({ count: 49 });
  });

  it("say what is wrong with an address, and never its password", async () => {
    const lines: string[] = [];
    const log = createLogger("trace", { write: (line) => void lines.push(line) });
    const password = "hunter2-canary";
    const refused = async (change: (url: URL) => void, expected: object): Promise<void> => {
      const url = new URL(database.schema.url);
      url.password = password;
      change(url);
      const error: unknown = await openStore({ url: url.href, clock: systemClock, log }).then(
        (handle) => handle.store.close(),
        (reason: unknown) => reason,
      );
      expect(error).toMatchObject(expected);
      expect((error as Error).message).not.toContain(password);
    };
    const invalid = (text: string): object => ({
      code: "config_invalid",
      issues: [{ path: "store.url" }],
      message: expect.stringContaining(text),
    });
    await refused((url) => (url.pathname = "/nobody_made_this"), invalid("create it first"));
    await refused((url) => (url.pathname = "/"), invalid("name the database"));
    await refused((url) => url.searchParams.set("schema", "no;way"), invalid("schema"));
    await refused((url) => (url.username = "nobody_has_this_name"), invalid("refuses the user"));
    await refused((url) => (url.port = "1"), {
      code: "store_unavailable",
      message: expect.stringContaining("ECONNREFUSED"),
    });
    await expect(
      openStore({ url: `postgres://u:${password}@[bad/db`, clock: systemClock, log }),
    ).rejects.toMatchObject({
      message: expect.not.stringContaining(password),
    });
    expect(lines.join("")).not.toContain(password);
  });
});
