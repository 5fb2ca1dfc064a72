import { expect, it } from "vitest";
import type { EventRecord, StoreHandle } from "../../src/store/types.ts";
import { until } from "../../src/testing/harness.ts";
import { DAY, dedupe, event, runAction } from "./suite/make.ts";
import { createDatabase, describePostgres } from "./postgres.ts";
import { postgresAddress } from "./postgres-client.ts";
import { createProxy } from "./proxy.ts";

/** The number of members that a group needs to begin while another group is being committed. */
const GROUP = 8;

/** Hooks that are committed in groups, several of which are under way at the same time. */
describePostgres("groups of hooks on PostgreSQL", () => {
  const database = createDatabase();
  const rows = database.query;
  const open = (port?: number): Promise<StoreHandle> =>
    database.open((url) => {
      if (port !== undefined) url.port = String(port);
      url.searchParams.set("application_name", `groups_${database.schema.name}`);
    });
  /** Has the database wait, or fail, while it adds an event with a certain path. */
  const disturb = (): Promise<unknown> =>
    rows(`
      CREATE FUNCTION disturb() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.path = 'slow' THEN PERFORM pg_sleep(0.8); END IF;
        IF NEW.path = 'brief' THEN PERFORM pg_sleep(0.004); END IF;
        IF NEW.path = 'broken' THEN RAISE EXCEPTION 'on purpose' USING ERRCODE = 'XX000'; END IF;
        RETURN NEW;
      END $$;
      CREATE TRIGGER disturb BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION disturb()`);
  const hook = (path: string, session = "hook:one"): EventRecord =>
    event({ path, actions: [runAction(session)] });
  const hooks = (path: string): EventRecord[] => Array.from({ length: GROUP }, () => hook(path));
  /** Hands a group in, and returns once it has begun. */
  const send = async (
    to: StoreHandle,
    group: readonly EventRecord[],
  ): Promise<Promise<string>[]> => {
    const sent = group.map((one) =>
      to.store.accept(one, [dedupe({ key: one.id, expiresAt: Date.now() + DAY })]).then(
        ({ kind }) => kind as string,
        (error: { code?: string }) => String(error.code),
      ),
    );
    await until(() => false, 20);
    return sent;
  };
  const cut = (): Promise<unknown[]> =>
    rows(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'groups_${database.schema.name}'`,
    );

  it("fail alone if one of them fails between other groups in progress", async () => {
    const a = await open();
    await disturb();
    const [first, second, third] = [[hook("slow")], [...hooks("x"), hook("broken")], hooks("y")];
    const answers = [await send(a, first), await send(a, second), await send(a, third)];
    const [ofFirst, ofSecond, ofThird] = await Promise.all(
      answers.map((group) => Promise.all(group)),
    );
    expect(ofFirst).toEqual(["accepted"]);
    expect(new Set(ofSecond)).toEqual(new Set(["store_unavailable"]));
    expect(new Set(ofThird)).toEqual(new Set(["accepted"]));
    const kept = await rows<{ id: string }>("SELECT id FROM events ORDER BY seq");
    expect(kept.map(({ id }) => id)).toEqual([...first, ...third].map(({ id }) => id));
    expect(await rows("SELECT key FROM dedupe")).toHaveLength(1 + GROUP);
    expect(await a.store.counts()).toMatchObject({
      "events.accepted": 1 + GROUP,
      "runs.queued": 1 + GROUP,
      "jobs.turn": 1 + GROUP,
    });
  });

  it("all fail that are in progress when their connection is lost, and a repeat is accepted", async () => {
    const a = await open();
    await disturb();
    const slow = [hook("slow")];
    const sent = [await send(a, slow), await send(a, hooks("x")), await send(a, hooks("y"))];
    expect(await cut()).not.toEqual([]);
    expect(new Set(await Promise.all(sent.flat()))).toEqual(new Set(["store_unavailable"]));
    expect(await rows("SELECT id FROM events")).toEqual([]);
    expect(await Promise.all(await send(a, hooks("x")))).toEqual(
      Array.from({ length: GROUP }, () => "accepted"),
    );
  });

  it("keep each hook once whose sender repeats it until it is answered, while connections are cut and answers are lost", async () => {
    const a = await open();
    await disturb();
    const proxy = await createProxy(postgresAddress());
    const sender = await open(proxy.port);
    let keys = 0;
    const answers = { accepted: 0, duplicate: 0, failed: 0 };
    /** Until something was committed whose answer was lost, however few cuts hit that moment. */
    const goesOn = (): boolean =>
      keys < 30 * GROUP || (answers.duplicate === 0 && keys < 1000 * GROUP);
    const deliver = async (key: string): Promise<void> => {
      for (;;) {
        const answer = await sender.store
          .accept(hook("brief", `hook:${key}`), [dedupe({ key, expiresAt: Date.now() + DAY })])
          .catch(() => ({ kind: "failed" as const }));
        if (answer.kind === "closed") throw new Error("no window was asked for");
        answers[answer.kind]++;
        if (answer.kind !== "failed") return;
        await until(() => false, 5);
      }
    };
    let isOver = false;
    const cutting = (async () => {
      for (let n = 0; !isOver && (n < 25 || goesOn()); n++) {
        // A cut at every connection, before it was used once, would go on for ever on a slow machine.
        const before = answers.accepted;
        await until(() => answers.accepted > before || isOver, 60_000);
        await until(() => false, 7 * (n % 9));
        // A group that PostgreSQL has begun is committed, but its answer is lost.
        proxy.set("hanging");
        await until(() => false, 10);
        proxy.set("refusing");
        proxy.set("open");
      }
    })();
    const senders = Array.from({ length: 3 * GROUP }, async () => {
      while (goesOn()) await deliver(`k${keys++}`);
    });
    await Promise.all(senders);
    isOver = true;
    await cutting;
    await database.close(sender);
    proxy.close();
    expect(answers.failed).toBeGreaterThan(GROUP);
    expect(answers.accepted + answers.duplicate).toBe(keys);
    // Those that were committed and not answered are duplicates when they are repeated.
    expect(answers.duplicate).toBeGreaterThan(0);
    expect(await rows("SELECT key FROM dedupe")).toHaveLength(keys);
    expect(await rows("SELECT DISTINCT name FROM jobs")).toHaveLength(keys);
    expect(await a.store.counts()).toMatchObject({
      "events.accepted": keys,
      "runs.queued": keys,
      "jobs.turn": keys,
    });
  });

  it("keep the order in which the hooks of one session came, over all groups in progress", async () => {
    const a = await open();
    await disturb();
    const groups = [[hook("slow")], hooks("x"), hooks("brief"), hooks("y"), hooks("z")];
    const runs = groups
      .flat()
      .flatMap(({ actions }) =>
        actions.flatMap((action) => (action.kind === "run" ? [action.runId] : [])),
      );
    const taken: string[] = [];
    // A worker takes what it sees, also while the first group is under way.
    const work = async (): Promise<void> => {
      for (const end = Date.now() + 20_000; taken.length < runs.length && Date.now() < end;) {
        const [one] = await a.queue.fetch("turn", 1);
        if (one) {
          taken.push(one.id);
          await a.store.commit((tx) => tx.jobs.settle(one), one);
        } else await until(() => false, 5);
      }
    };
    // The gateway is known, and its connections are there.
    expect(await a.queue.fetch("turn", 1)).toEqual([]);
    const working = work();
    const sent = [];
    for (const group of groups) sent.push(await send(a, group));
    expect(new Set(await Promise.all(sent.flat()))).toEqual(new Set(["accepted"]));
    await working;
    expect(taken).toEqual(runs);
  });

  it("ask the database for a key that many repeat at the same moment a few times, not once for each", async () => {
    const [a, b] = [await open(), await open()];
    // A sequence keeps its count if the statement fails.
    await rows(`
      CREATE SEQUENCE asked;
      CREATE FUNCTION ask() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('asked'); RETURN NULL; END $$;
      CREATE TRIGGER ask BEFORE INSERT ON dedupe FOR EACH STATEMENT EXECUTE FUNCTION ask()`);
    const keys = [dedupe({ key: "storm", expiresAt: Date.now() + DAY })];
    const events = Array.from({ length: 400 }, () => event({ actions: [runAction()] }));
    const answers = await Promise.all(
      events.map((one, n) => (n % 2 ? a : b).store.accept(one, keys)),
    );
    const winner = events[answers.findIndex(({ kind }) => kind === "accepted")];
    expect(winner).toBeDefined();
    expect(answers.filter(({ kind }) => kind === "accepted")).toHaveLength(1);
    const repeats = answers.filter((answer) => answer.kind === "duplicate");
    expect(repeats).toHaveLength(399);
    for (const repeat of repeats)
      expect(repeat).toMatchObject({ record: { ...keys[0], eventId: winner?.id } });
    const [asked] = await rows<{ n: string }>("SELECT last_value AS n FROM asked");
    expect(Number(asked?.n)).toBeLessThanOrEqual(6);
    expect(await a.store.counts()).toMatchObject({
      "events.accepted": 1,
      "runs.queued": 1,
      "jobs.turn": 1,
    });
  });
});
