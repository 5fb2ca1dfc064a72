import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { getPriority } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { whenIdle } from "../channels/pipe.ts";
import { createProvider, modelConfig } from "../e2e/provider.ts";
import { createWorld } from "../e2e/world.ts";
import { describePostgres, newSchema, plainly, type Schema } from "../store/postgres.ts";
import { createDiffWorld, ORDER, type DiffWorld, type Kept } from "./hooks-diff-world.ts";

const order = (id: unknown, more: object = {}): Kept => ({
  body: { type: "order", id, customer: { name: "Ann" }, ...more },
});
const refund = (id: unknown): Kept => ({ body: { type: "refund", id } });
const REFUND = {
  id: "shop.refund",
  match: { path: "shop", payload: { type: "refund" } },
  messageTemplate: "Refund {{id}}",
};
const changed = (change: object): object[] => [{ ...ORDER, ...change }];

/** The tests that read from a store. */
function storeTests(world: () => DiffWorld, before: () => Promise<void>): void {
  describe("groups", () => {
    beforeAll(async () => {
      await before();
      await world().keep(order(1), refund(4), order(2), refund(5), order(3));
    });

    it("have one mapping and one kind of change each, with the values before and after", async () => {
      const change = {
        messageTemplate: ORDER.messageTemplate.replace("Order", "Sale"),
        sessionKey: "hook:till:{{id}}",
        to: "room-2",
      };
      const { code, out, err } = await world().diff([{ ...ORDER, ...change }, REFUND]);
      expect([code, err]).toEqual([0, ""]);
      expect(out).toMatch(/^5 events of \d+ minutes?: 5 change\. 2 would run that did not\.$/m);
      for (const text of [
        "\ntext changes  shop.order  3\n",
        "[-Order-]{+Sale+} 3",
        "\nsession changes  shop.order  3\n",
        "hook:shop:3 → hook:till:3",
        "\nrecipient changes  shop.order  3\n",
        "to        room-1 → room-2",
        "\nstarts a run  shop.refund  2\n",
        "was       unmatched: no mapping matched",
        "would be  agent by shop.refund",
        "\nnot simulated: duplicates, limits and windows of `coalesce`\n",
      ])
        expect(out).toContain(text);
      const strict = changed({ strict: true, messageTemplate: "Order {{absent}}" });
      const { out: rejected } = await world().diff(strict);
      expect(rejected).toMatch(/3 would not run\.\n\nis rejected {2}shop\.order {2}3\n/);
      expect(rejected).toContain("missing: absent");
    });

    it("takes events by number, by time and by path", async () => {
      await world().keep(
        { ...order(8), receivedAt: Date.now() - 3_600_000 * 50 },
        { ...order(9), path: "other" },
      );
      const next = [{ ...ORDER, to: "room-2" }];
      expect((await world().report(next, "--last", "4")).events).toBe(4);
      expect(await world().report(next, "--since", "1h", "--path", "other")).toMatchObject({
        events: 1,
        changed: 0,
      });
      expect((await world().report(next, "--since", "1h")).events).toBe(6);
      expect((await world().report(next, "--since", "3d")).events).toBe(7);
    });
  });
}

describe("rouse hooks diff", () => {
  let world: DiffWorld;
  const fresh = async (): Promise<void> => {
    if (world) await world.close();
    world = await createDiffWorld();
  };
  afterAll(() => world.close());
  storeTests(() => world, fresh);

  describe("events", () => {
    beforeEach(fresh);

    it("counts those whose body is gone, that are repeats, or cannot be read, each with its reason", async () => {
      const [first] = await world.keep(
        order(1),
        { body: null },
        { ...order(1), outcome: "duplicate" },
        { body: "{" },
      );
      await world.keep(
        { ...order(1), replayOf: first as string },
        { path: "elsewhere", body: null },
      );
      const { skipped, skippedFor, changed: count } = await world.report([ORDER, REFUND]);
      expect([skipped, count]).toEqual([4, 0]);
      expect(Object.entries(skippedFor).toSorted(([a], [b]) => a.localeCompare(b))).toEqual([
        ["a repeat or a replay of another event", 2],
        [expect.stringMatching(/^the body cannot be read/), 1],
        ["the body of this event is no longer kept (hooks.retention)", 1],
      ]);
      expect((await world.diff([ORDER, REFUND])).out).toContain(
        "not compared: 1 (the body of this event is no longer kept (hooks.retention))\n",
      );
    });

    it("says what time the events cover", async () => {
      const at = Date.now() - 7 * 86_400_000 + 60_000;
      await world.keep(
        ...Array.from({ length: 14 }, (_, index) => ({
          ...refund(index),
          receivedAt: at + index * 1000,
        })),
      );
      const { out } = await world.diff([ORDER, REFUND], "--since", "7d");
      expect(out.split("\n")[0]).toBe("14 events of 7 days: 14 change. 14 would run that did not.");
    });

    it("says that nothing changes, also if the session of a run is its own", async () => {
      await world.keep(order(1), refund(4), order(2), refund(5), order(3));
      const { sessionKey: _, ...own } = ORDER;
      await world.cli.write("rouse.json5", world.config([own]));
      expect((await world.report([{ ...own, name: "Shop" }])).groups).toMatchObject([
        { kind: "text", examples: [{ after: { name: "Shop" } }, {}, {}] },
      ]);
      const { code, out } = await world.diff([own], "--expect-same");
      expect([code, out.split("\n")[0]?.replace(/of .*:/, "of:")]).toEqual([
        0,
        "5 events of: none changes.",
      ]);
    });

    it("ends with 1 under --expect-same if anything differs, or if nothing was compared", async () => {
      await world.keep(order(1), refund(2));
      expect((await world.diff([ORDER, REFUND], "--expect-same")).code).toBe(1);
      expect((await world.diff([ORDER, REFUND], "--path", "shop")).code).toBe(0);
      const none = await world.diff([ORDER], "--expect-same", "--path", "other");
      expect([none.code, none.err]).toEqual([
        1,
        "rouse: --expect-same: no event could be compared\n",
      ]);
    });

    it("sees no change in what a module makes by chance, if its mapping is as it was", async () => {
      mkdirSync(join(world.cli.dir, "transforms"));
      writeFileSync(
        join(world.cli.dir, "transforms", "dice.js"),
        "export default () => ({ message: String(Math.random()) });",
      );
      const dice = {
        id: "dice",
        match: { path: "shop", payload: { type: "order" } },
        transform: { module: "dice.js" },
      };
      await world.cli.write("rouse.json5", world.config([dice]));
      await world.keep(order(1), refund(2));
      expect((await world.report([dice, REFUND])).groups.map(({ kind }) => kind)).toEqual([
        "starts",
      ]);
      expect(
        (await world.report([{ ...dice, to: "room-2" }])).groups.map(({ kind }) => kind),
      ).toContain("text");
    });

    it("compares the built-in paths if more than the mappings changes", async () => {
      await world.keep(
        { path: "agent", body: { message: "Hello", name: "Me" } },
        { path: "wake", body: { text: "Hello" } },
      );
      expect((await world.report([ORDER, REFUND])).groups).toEqual([]);
      await world.cli.write(
        "next.json5",
        world.config([ORDER], { agents: { list: [{ id: "other" }, { id: "main" }] } }),
      );
      const { out } = await world.cli.rouse("hooks diff --config next.json5");
      expect(out).toContain("agent     main → other");
    });
  });

  describe("the proposed config", () => {
    beforeEach(fresh);

    it("is compared with nothing if nothing was stored, and no file is made", async () => {
      await world.cli.write("next.json5", world.config([ORDER]));
      const files = readdirSync(world.cli.dir).toSorted();
      const { code, err } = await world.diff([ORDER]);
      expect([code, err]).toEqual([1, expect.stringContaining("no events are recorded yet")]);
      expect(readdirSync(world.cli.dir).toSorted()).toEqual(files);
    });

    it("is reported with all its problems, and so is today's, with exit code 3", async () => {
      await world.keep(order(1));
      const broken = await world.diff([
        { ...ORDER, agentId: "absent" },
        { ...REFUND, messageTemplate: "{{ (" },
      ]);
      expect(broken).toMatchObject({ code: 3, out: "" });
      expect(broken.err).toContain("the proposed config has problems");
      expect(broken.err).toMatch(
        /hooks\.mappings\[0\]\.agentId[^]*hooks\.mappings\[1\]\.messageTemplate/,
      );
      expect((await world.cli.rouse("hooks diff --config none.json5")).code).toBe(3);
      await world.cli.write("rouse.json5", "{ hooks: ");
      expect(await world.diff([ORDER])).toMatchObject({
        code: 3,
        err: expect.stringContaining("today's config has problems"),
      });
    });

    it.each([
      [[], "name the proposed config with --config"],
      [["--config", "x", "--since", "soon"], "--since soon: write an age"],
      [["--config", "x", "--last", "0"], "--last 0: write a number of events"],
    ])("needs its options right: %j", async (args, said) => {
      expect(await world.cli.rouse(["hooks", "diff", ...args])).toMatchObject({
        code: 2,
        out: "",
        err: expect.stringContaining(said),
      });
    });
  });

  const hash = (): string =>
    createHash("sha256")
      .update(readFileSync(join(world.cli.dir, ".rouse", "rouse.db")))
      .digest("hex");

  it("changes nothing in the state folder, over 300 events", async () => {
    await fresh();
    await world.keep(
      ...Array.from({ length: 300 }, (_, index) =>
        index % 2 === 0 ? order(index) : refund(index),
      ),
    );
    const [before, files] = [hash(), readdirSync(join(world.cli.dir, ".rouse"))];
    const report = await world.report([{ ...ORDER, to: "room-2" }, REFUND]);
    expect(report).toMatchObject({ events: 300, changed: 300, wouldRun: 150 });
    expect(hash()).toBe(before);
    // A reader of a log of SQLite shares an index of it.
    const companions = new Set(["rouse.db-shm", "rouse.db-wal"]);
    expect(
      readdirSync(join(world.cli.dir, ".rouse")).filter((name) => !companions.has(name)),
    ).toEqual(files.filter((name) => !companions.has(name)));
    expect(await world.sent()).toBe(0);
  });

  it("starts no run and sends nothing beside a gateway", async () => {
    await fresh();
    const provider = await createProvider();
    // Without summaries no heartbeat follows a run: nothing happens by itself while the test counts.
    const config = (...mappings: object[]): object =>
      world.config(mappings, {
        hooks: { summary: "quiet" },
        ...modelConfig(provider, { list: [{ id: "main" }, { id: "other" }] }),
      });
    const gateway = await createWorld({ dir: world.cli.dir, config: config(ORDER) });
    onTestFinished(async () => {
      await gateway.stop();
      await provider.close();
    });
    for (let id = 0; id < 19; id++)
      await gateway.post("/hooks/shop", order(id, { type: id < 5 ? "order" : "refund" }).body);
    await gateway.until(async () => (await world.sent()) === 5);
    await whenIdle(gateway);
    const look = async (): Promise<unknown[]> => [
      ...(await Promise.all(
        ["events", "runs", "deliveries"].map(
          async (what) => (await gateway.admin(`/admin/v1/${what}?limit=500`)).body,
        ),
      )),
      provider.requests.length,
      await world.sent(),
    ];
    const before = await look();
    const any = { path: "shop", payload: { type: { $in: ["order", "refund"] } } };
    for (const mappings of [[{ ...ORDER, match: any }], [ORDER, REFUND]]) {
      await world.cli.write("next.json5", config(...mappings));
      const { code, out } = await world.cli.rouse("hooks diff --config next.json5 --since 7d");
      expect([code, out.split("\n")[0]]).toEqual([
        0,
        "19 events of 7 days: 14 change. 14 would run that did not.",
      ]);
    }
    expect(await look()).toEqual(before);
  });

  it("refuses a store with the schema of a newer version, and says what to do", async () => {
    await fresh();
    await world.keep(order(1));
    const db = new DatabaseSync(join(world.cli.dir, ".rouse", "rouse.db"));
    db.exec("INSERT INTO migrations (version, at) SELECT max(version) + 1, 0 FROM migrations");
    db.close();
    expect(await world.diff([ORDER])).toMatchObject({
      code: 3,
      err: expect.stringContaining("of a newer version of the program"),
    });
  });

  it("runs at the lowest priority, and Ctrl-C ends it immediately", async () => {
    await fresh();
    mkdirSync(join(world.cli.dir, "transforms"));
    writeFileSync(
      join(world.cli.dir, "transforms", "slow.js"),
      "export default () => new Promise(() => undefined);",
    );
    await world.keep(...Array.from({ length: 60 }, (_, index) => order(index)));
    await world.cli.write(
      "next.json5",
      world.config([{ ...ORDER, transform: { module: "slow.js" } }]),
    );
    const program = fileURLToPath(new URL("../../bin/rouse.js", import.meta.url));
    const child = spawn(process.execPath, [program, "hooks", "diff", "--config", "next.json5"], {
      cwd: world.cli.dir,
      stdio: "ignore",
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    const ended = once(child, "exit");
    while (getPriority(child.pid) !== 19) await new Promise((done) => setTimeout(done, 20));
    await new Promise((done) => setTimeout(done, 300));
    child.kill("SIGINT");
    expect(await ended).toEqual([null, "SIGINT"]);
  });
});

describePostgres("rouse hooks diff, on PostgreSQL", () => {
  let schema: Schema | undefined;
  let world: DiffWorld;
  const clear = async (): Promise<void> => {
    await world?.close();
    await schema?.drop();
  };
  const fresh = async (): Promise<void> => {
    await clear();
    schema = newSchema();
    world = await createDiffWorld(schema.url);
  };
  afterAll(clear);
  storeTests(() => world, fresh);

  it("changes no row, over 300 events", async () => {
    await fresh();
    await world.keep(
      ...Array.from({ length: 300 }, (_, index) =>
        index % 2 === 0 ? order(index) : refund(index),
      ),
    );
    const rows = () =>
      plainly(async (client) => {
        const name = schema?.name ?? "";
        const { rows: tables } = await client.query<{ name: string }>(
          "SELECT relname AS name FROM pg_class WHERE relkind = 'r' AND relnamespace = $1::regnamespace ORDER BY 1",
          [name],
        );
        const hashes: string[] = [];
        for (const { name: table } of tables) {
          const { rows: found } = await client.query<{ hash: string }>(
            `SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) AS hash FROM "${name}"."${table}" t`,
          );
          hashes.push(`${table} ${found[0]?.hash}`);
        }
        return hashes;
      });
    const before = await rows();
    expect(await world.report([{ ...ORDER, to: "room-2" }, REFUND])).toMatchObject({
      events: 300,
      changed: 300,
      wouldRun: 150,
    });
    expect(await rows()).toEqual(before);
    expect(await world.sent()).toBe(0);
  });
});
