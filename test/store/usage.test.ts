import { describe, expect, it, vi } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { newId } from "../../src/core/ids.ts";
import { createBudgets, Admission } from "../../src/queue/admission.ts";
import {
  noStart,
  type Amounts,
  type Job,
  type ReservationRequest,
  type RunAction,
  type HookRun,
  type RunRecord,
  type StartAmounts,
  type StoreHandle,
} from "../../src/store/types.ts";
import { event, job, runAction } from "./suite/make.ts";
import { silent } from "./home.ts";
import { createDatabase, describePostgres } from "./postgres.ts";

const ask = (
  limits: Partial<Amounts>,
  more: Partial<ReservationRequest> = {},
): ReservationRequest => ({
  scope: "hooks",
  counters: ["hooks"],
  limits,
  pending: noStart(),
  wanted: noStart(),
  ...more,
});

describePostgres("what gateways spend and collect together", () => {
  const database = createDatabase();
  const { open, query, within } = database;
  const run = (id: string, more: Partial<HookRun> = {}): HookRun => ({
    id,
    eventId: null,
    kind: "hook",
    mapping: "shop",
    status: "queued",
    spec: runAction("k").spec,
    warnings: [],
    attempts: 0,
    restarts: 0,
    createdAt: Date.now(),
    ...more,
  });
  const begin = (handle: StoreHandle, id: string) =>
    handle.store.commit((tx) =>
      tx.runs.update(id, { status: "running", attempts: 1, startedAt: Date.now() }),
    );

  it("an event that comes too late for its window is not kept, and one in time is part of it", async () => {
    const [a, b] = [await open(), await open()];
    const [windowsOfA, windowsOfB] = [a.batches, b.batches];
    if (!windowsOfA || !windowsOfB) throw new Error("there are no shared batches");
    const at = Date.now();
    const joining = {
      name: "alerts\ndb",
      at,
      windowMs: 1000,
      maxMs: 5000,
      maxEvents: 10,
      chars: 10,
      maxChars: 1000,
    };
    const first = await windowsOfA.join({ ...joining, runId: newId("run", Date.now()) });
    const second = await windowsOfB.join({
      ...joining,
      runId: newId("run", Date.now()),
      at: at + 10,
    });
    expect(second).toMatchObject({ runId: first.runId, opened: false });
    expect(first.opened).toBe(true);
    const joinedBy = (n: number): RunAction => ({
      ...runAction("hook:w"),
      runId: first.runId,
      collect: {
        key: "db",
        closesAt: first.closesAt,
        event: { eventId: `evt_${n}`, at, payload: { n } } as never,
        shared: true,
      },
    });
    expect(await a.store.accept(event({ id: "evt_1", actions: [joinedBy(1)] }))).toEqual({
      kind: "accepted",
    });
    expect(await windowsOfB.close(first.runId, at + 500)).toBeGreaterThan(at + 500);
    expect(await windowsOfB.close(first.runId, at + 2000)).toBeUndefined();
    expect(await a.store.accept(event({ id: "evt_2", actions: [joinedBy(2)] }))).toEqual({
      kind: "closed",
    });
    expect(await b.store.events.get("evt_2")).toBeUndefined();
    expect(await b.store.runs.listCollected(first.runId)).toHaveLength(1);
    expect(await windowsOfA.join({ ...joining, runId: newId("run", Date.now()) })).toMatchObject({
      opened: true,
    });
  });

  it("reserves no more than there is for gateways that ask at the same moment, and never the same twice", async () => {
    const gateways = [await open(), await open(), await open()];
    let total = 0;
    const reserve = async ({ usage }: StoreHandle): Promise<void> => {
      for (let starts = 0; ;) {
        const pending = { ...noStart(), starts };
        const [reservation] = await usage.reserve([
          ask({ starts: 20 }, { pending, wanted: { ...noStart(), starts: 1 } }),
        ]);
        if (!reservation) continue;
        if (reservation.reserved.starts === 0) return;
        starts++;
        total++;
      }
    };
    await Promise.all(gateways.map(reserve));
    expect(total).toBe(20);
  });

  it("a gateway that asks for the first time waits for no other one that is reserving room", async () => {
    const [a, b] = [await open(), await open()];
    await a.usage.reserve([ask({ places: 3 })]);
    await within(async (client) => {
      // As a gateway that reserves room and stands still.
      await client.query("BEGIN; UPDATE budgets SET version = version + 1");
      // Refused by a time limit of the connection if it waits for the row.
      expect(await b.usage.reserve([ask({ places: 3 })])).toEqual([]);
      await client.query("COMMIT");
    });
    expect(await b.usage.reserve([ask({ places: 3 })])).toMatchObject([{ left: { places: 3 } }]);
  });

  it("a start turns what was reserved into what is used, in the commit that starts the run", async () => {
    const [a, b] = [await open(), await open()];
    await a.store.commit((tx) => tx.runs.add(run("run_1")));
    const one = { starts: 1, places: 1 };
    const limits = { starts: 5, places: 5 };
    await a.usage.reserve([ask(limits, { wanted: one })]);
    const left = async (
      { usage }: StoreHandle = b,
      more?: Partial<ReservationRequest>,
    ): Promise<object | undefined> => (await usage.reserve([ask(limits, more)]))[0]?.left;
    expect(await left()).toEqual({ starts: 4, places: 4 });
    await begin(a, "run_1");
    expect(await left()).toEqual({ starts: 4, places: 4 });
    // Its own gateway may not know of the commit yet: the start counts once there, too.
    expect(await left(a, { pending: one })).toEqual({ starts: 4, places: 4 });
    await a.store.commit((tx) =>
      tx.runs.update("run_1", {
        status: "succeeded",
        endedAt: Date.now(),
        usage: { totalTokens: 7, costUsd: 0.25 },
      }),
    );
    expect(await left()).toEqual({ starts: 4, places: 5 });
    const counted = (await b.usage.count([{ scope: "shop", counters: ["mapping:shop"] }])).get(
      "shop",
    );
    expect(counted).toMatchObject({
      running: 0,
      waiting: 0,
      hour: [{ starts: 1 }],
      day: [{ tokens: 7, micros: 250_000 }],
    });
  });

  describe("a gateway that is silent for longer than a lease", () => {
    const all = { ...noStart(), places: 3 };
    const one = { ...noStart(), places: 1 };
    const reserve = async (
      { usage }: StoreHandle,
      wanted: StartAmounts,
    ): Promise<number | undefined> =>
      (await usage.reserve([ask({ places: 3 }, { wanted })]))[0]?.reserved.places;
    /** Makes a gateway look silent for some seconds. Its next sign of life undoes that. */
    const silence = async ({ cluster }: StoreHandle, seconds: number): Promise<void> => {
      const text = `UPDATE holders SET seen = now() - interval '${seconds} seconds' WHERE gateway = $1 RETURNING 1`;
      expect(await query(text, [cluster.id])).toHaveLength(1);
    };
    /** From now on no sign of life of a gateway counts. */
    const hush = async (handle: StoreHandle): Promise<void> => {
      await query(`
        CREATE FUNCTION hush() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          NEW.seen := now() - interval '11 seconds'; NEW.freed := coalesce(NEW.freed, OLD.freed); RETURN NEW; END $$;
        CREATE TRIGGER hush BEFORE UPDATE ON holders FOR EACH ROW WHEN (OLD.gateway = '${handle.cluster.id}')
          EXECUTE FUNCTION hush()`);
      await silence(handle, 11);
    };
    const addJob = (handle: StoreHandle): Promise<boolean> =>
      handle.store.commit((tx) => {
        tx.runs.add(run("run_1"));
        tx.jobs.add(job("run_1"));
      });
    const start = (handle: StoreHandle, held: Job | undefined): Promise<boolean> =>
      handle.store.commit(
        (tx) => tx.runs.update("run_1", { status: "running", attempts: 1, startedAt: Date.now() }),
        held,
      );

    it("has what it has reserved until its jobs are freed: a start that it commits late is within the limit", async () => {
      const [a, b] = [await open(), await open()];
      await addJob(a);
      const [held] = await a.queue.fetch("turn", 1);
      expect(await reserve(a, one)).toBe(1);
      await silence(a, 11);
      expect(await reserve(b, all)).toBe(2);
      expect(await start(a, held)).toBe(true);
      // One run is under way; what b had reserved it has given back with this request.
      expect(await reserve(b, all)).toBe(2);
    });

    it("loses it with its jobs: what it starts late is refused then", async () => {
      const [a, b] = [await open(), await open()];
      await addJob(a);
      const [held] = await a.queue.fetch("turn", 1);
      expect(await reserve(a, one)).toBe(1);
      expect(await reserve(b, noStart())).toBe(0);
      // A gateway frees the jobs of others once it was connected for a lease itself.
      await hush(a);
      let reserved = 2;
      for (let n = 0; n < 300 && reserved < 3; n++) {
        reserved = (await reserve(b, all)) ?? reserved;
        await new Promise((done) => setTimeout(done, 100));
      }
      expect(reserved).toBe(3);
      expect(await start(a, held)).toBe(false);
    });

    it("counts as alive when it reserves room, so that its jobs are not freed at that moment", async () => {
      const [a, b] = [await open(), await open()];
      expect(await reserve(a, one)).toBe(1);
      for (const seconds of [8, 11]) {
        await silence(a, seconds);
        await a.usage.reserve([ask({ places: 3 }, { pending: one })]);
        const heard =
          "SELECT 1 FROM holders WHERE seen > now() - interval '1 second' AND gateway = $1";
        expect(await query(heard, [a.cluster.id])).toHaveLength(1);
      }
      expect(await reserve(b, all)).toBe(2);
    });
  });

  it("runs that ask at the same moment share requests, and their starts add up in one row of each counter and minute", async () => {
    const handle = await open();
    const reserve = vi.spyOn(handle.usage, "reserve");
    const budgets = createBudgets(
      { runsPerHour: 1000 },
      { settings: () => undefined, budgets: [], mappings: [{ id: "shop" }] },
    );
    const snapshot = () => ({ budgets, agents: { default: { id: "main" } } });
    const admission = new Admission({ ...handle, clock: systemClock, log: silent, snapshot });
    const runs = Array.from({ length: 100 }, (_, n) => run(`run_${n}`));
    await handle.store.commit((tx) => runs.forEach((one) => tx.runs.add(one)));
    const start = async (one: RunRecord): Promise<void> => {
      expect(await admission.start(one, Date.now())).toBeUndefined();
      await begin(handle, one.id);
      admission.started(one.id);
    };
    await Promise.all(runs.map(start));
    expect(reserve.mock.calls.length).toBeLessThan(20);
    const [counted] = await query(
      "SELECT count(*)::int AS n, sum(starts)::int AS starts FROM usage WHERE width = 60000",
    );
    // Two counters, and a minute may end meanwhile.
    expect(counted).toEqual({ n: expect.toSatisfy((n: number) => n <= 4) as number, starts: 200 });
  });

  it("room of a run that did not start after all is free again for other gateways", async () => {
    const [a, b] = [await open(), await open()];
    const budgets = createBudgets(
      { concurrent: 1 },
      { settings: () => undefined, budgets: [], mappings: [{ id: "shop" }] },
    );
    const snapshot = () => ({ budgets, agents: { default: { id: "main" } } });
    const admission = new Admission({ ...a, clock: systemClock, log: silent, snapshot });
    const one = run("run_1");
    await a.store.commit((tx) => tx.runs.add(one));
    const wanted = { ...noStart(), places: 1 };
    const reserve = async () =>
      (await b.usage.reserve([ask({ places: 1 }, { wanted })]))[0]?.reserved.places;
    expect(await admission.start(one, Date.now())).toBeUndefined();
    expect(await reserve()).toBe(0);
    admission.release(one, { again: true });
    const ended = new AbortController();
    const running = admission.run(ended.signal);
    for (let n = 0; n < 100 && (await reserve()) !== 1; n++)
      await new Promise((done) => setTimeout(done, 50));
    expect(await reserve()).toBe(1);
    ended.abort();
    await running;
  });

  it("counts of gateways that are gone stay", async () => {
    const [a, b] = [await open(), await open()];
    await a.usage.reserve([ask({ places: 3 })]);
    await a.store.commit((tx) => tx.runs.add(run("run_1")));
    await begin(a, "run_1");
    await database.close(a);
    await b.usage.tidy();
    const count = async () =>
      (await b.usage.count([{ scope: "hooks", counters: ["hooks"] }])).get("hooks");
    expect(await count()).toMatchObject({ running: 1, waiting: 0 });
  });
});
