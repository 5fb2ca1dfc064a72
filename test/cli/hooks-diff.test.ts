import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { getPriority } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { CHANGE_TEXTS, type ChangeKind } from "../../src/operate/what-if/changes.ts";
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
const STRICT = { ...REFUND, strict: true, messageTemplate: "Refund {{id}} of {{absent.there}}" };
const changed = (change: object): object[] => [{ ...ORDER, ...change }];

interface Case {
  kind: ChangeKind;
  before?: object[];
  after: object[];
  /** The mapping that the events are counted for, and how many there are. */
  mapping?: string;
  count?: number;
  said?: string[];
}
const MESSAGE = "Order {{id}} of {{customer.name}}";

/** Changes of the one mapping, and the text that reports each. */
const CHANGES: [name: string, kind: ChangeKind, change: object, said: string][] = [
  ["a text", "text", { messageTemplate: MESSAGE.replace("Order", "Sale") }, "[-Order-]{+Sale+} 3"],
  ["the boundary", "text", { allowUnsafeExternalContent: true }, "boundary  true → false"],
  ["a session", "session", { sessionKey: "hook:till:{{id}}" }, "hook:shop:3 → hook:till:3"],
  ["a recipient", "recipient", { to: "room-2" }, "to        room-1 → room-2"],
  ["no recipient", "recipient", { deliver: false }, "channel   own → none"],
  ["an agent", "agent", { agentId: "other" }, "agent     main → other"],
  ["a model", "model", { thinking: "high" }, "thinking  none → high"],
  ["a key", "key", { dedupeKey: "{{id}}" }, "dedupeKey  none → 3"],
  ["a missing field", "missing", { messageTemplate: `${MESSAGE}{{discount}}` }, '→ ["discount"]'],
];

/** Each over three orders and two refunds. */
const CASES: [name: string, Case][] = [
  [
    "a mapping that starts",
    {
      kind: "starts",
      after: [ORDER, REFUND],
      mapping: "shop.refund",
      count: 2,
      said: [
        "2 would run that did not.",
        "was       unmatched: no mapping matched",
        "would be  agent by shop.refund",
      ],
    },
  ],
  [
    "a mapping that stops",
    {
      kind: "stops",
      after: changed({ match: { path: "shop", payload: { type: "sale" } } }),
      said: ["3 would not run."],
    },
  ],
  [
    "another mapping",
    {
      kind: "other-mapping",
      after: [{ ...ORDER, id: "shop.vip", to: "room-9" }, ORDER],
      mapping: "shop.vip",
      said: ["agent by shop.order", "agent by shop.vip"],
    },
  ],
  [
    "another mapping without a run",
    {
      kind: "other-mapping",
      after: [ORDER, { ...REFUND, shadow: true }],
      mapping: "shop.refund",
      count: 2,
      said: ["skipped by shop.refund: shadow: 1 action would have been done"],
    },
  ],
  [
    "what is rejected",
    {
      kind: "rejected",
      after: changed({ strict: true, messageTemplate: "Order {{absent}}" }),
      said: ["missing: absent", "3 would not run."],
    },
  ],
  [
    "what is rejected before it ran",
    { kind: "rejected", after: [ORDER, STRICT], mapping: "shop.refund", count: 2 },
  ],
  [
    "an outcome without a run",
    {
      kind: "outcome",
      before: [ORDER, STRICT],
      after: [ORDER, { ...REFUND, shadow: true }],
      mapping: "shop.refund",
      count: 2,
    },
  ],
  ...CHANGES.map(([name, kind, change, said]): [string, Case] => [
    name,
    { kind, after: changed(change), said: [said] },
  ]),
];

/** The tests that read from a store. */
function storeTests(
  world: () => DiffWorld,
  before: () => Promise<void>,
  cases: typeof CASES,
): void {
  describe("groups", () => {
    beforeAll(async () => {
      await before();
      await world().keep(order(1), refund(4), order(2), refund(5), order(3));
    });
    it.each(cases)("%s", async (_name, given) => {
      const { kind, before: today = [ORDER], after: next } = given;
      const { mapping = ORDER.id, count = 3, said = [] } = given;
      await world().cli.write("rouse.json5", world().config(today));
      const { code, out, err } = await world().diff(next);
      expect([code, err]).toEqual([0, ""]);
      expect(out.replaceAll(/ +/g, " ")).toContain(`\n${CHANGE_TEXTS[kind]} ${mapping} ${count}\n`);
      expect(out.split("\n")[0]).toMatch(
        new RegExp(`^5 events of \\d+ minutes?: ${count} change\\.`),
      );
      for (const text of said) expect(out).toContain(text);
      expect(out.trimEnd().split("\n").at(-1)).toMatch(
        /^not simulated: duplicates, limits and windows of `coalesce`/,
      );
    });

    it("lists every event of a group, and names the command that does", async () => {
      await world().cli.write("rouse.json5", world().config([ORDER]));
      const most = await world().diff(
        [{ id: "any", match: { path: "shop" }, messageTemplate: "any" }],
        "--last",
        "4",
      );
      expect(most.out).toMatch(/^4 events/);
      const { out } = await world().diff([
        { ...ORDER, to: "room-2" },
        REFUND,
        { id: "any", match: {}, messageTemplate: "any" },
      ]);
      expect(out).not.toContain("--group");
      await world().keep(order(6));
      const next = [{ ...ORDER, to: "room-2" }];
      expect((await world().diff(next)).out).toContain(
        "  all: rouse hooks diff --config next.json5 --group recipient:shop.order\n",
      );
      const all = await world().diff(next, "--group", "recipient:shop.order");
      expect(all.out.match(/room-1 → room-2/g)).toHaveLength(4);
      const { out: json } = await world().diff(
        [...next, REFUND],
        "--json",
        "--group",
        "recipient:shop.order",
      );
      const lines = json
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line) as { type: string; kind?: string; eventId?: string });
      const events = lines.filter(({ type }) => type === "event");
      expect(events.map(({ kind }) => kind)).toEqual(Array(4).fill("recipient"));
      expect(new Set(events.map(({ eventId }) => eventId)).size).toBe(4);
      expect(lines.at(-1)).toMatchObject({
        type: "end",
        groups: [{ kind: "recipient", count: 4 }],
      });
    });

    it("takes events by their ids, by time and by path", async () => {
      const [old = "", other = ""] = await world().keep(
        { ...order(8), receivedAt: Date.now() - 3_600_000 * 50 },
        { ...order(9), path: "other" },
      );
      const next = [{ ...ORDER, to: "room-2" }];
      const ids = (
        await world().report(next, "--events", `${old},${other.slice(0, 30)}`)
      ).groups.flatMap(({ examples }) => examples);
      expect(ids.map(({ eventId }) => eventId)).toEqual([old]);
      expect(await world().report(next, "--since", "1h", "--path", "other")).toMatchObject({
        events: 1,
        changed: 0,
      });
      expect((await world().report(next, "--since", "1h")).events).toBe(7);
      expect((await world().report(next, "--since", "3d")).events).toBe(8);
    });
  });

  describe("events", () => {
    beforeEach(before);

    it("counts those whose body is gone, that are repeats, or cannot be read, each with its reason", async () => {
      const [first] = await world().keep(
        order(1),
        { body: null },
        { ...order(1), outcome: "duplicate" },
        { body: "{" },
      );
      await world().keep(
        { ...order(1), replayOf: first as string },
        { path: "elsewhere", body: null },
      );
      const { skipped, skippedFor, changed: count } = await world().report([ORDER, REFUND]);
      expect([skipped, count]).toEqual([4, 0]);
      expect(Object.entries(skippedFor).toSorted(([a], [b]) => a.localeCompare(b))).toEqual([
        ["a repeat or a replay of another event", 2],
        [expect.stringMatching(/^the body cannot be read/), 1],
        ["the body of this event is no longer kept (hooks.retention)", 1],
      ]);
      expect((await world().diff([ORDER, REFUND])).out).toContain(
        "not compared: 1 (the body of this event is no longer kept (hooks.retention))\n",
      );
    });

    it("says how much more a day would take", async () => {
      const at = Date.now() - 7 * 86_400_000 + 60_000;
      await world().keep(
        ...Array.from({ length: 14 }, (_, index) => ({
          ...refund(index),
          receivedAt: at + index * 1000,
        })),
      );
      const { out } = await world().diff([ORDER, REFUND], "--since", "7d");
      expect(out.split("\n")[0]).toBe(
        "14 events of 7 days: 14 change. 14 would run that did not (+2 runs a day).",
      );
    });
  });

  describe("the proposed config", () => {
    beforeEach(before);

    it("is compared with nothing if nothing was stored, and no file is made", async () => {
      await world().cli.write("next.json5", world().config([ORDER]));
      const files = readdirSync(world().cli.dir).toSorted();
      const { code, err } = await world().diff([ORDER]);
      expect([code, err]).toEqual([1, expect.stringContaining("no events are recorded yet")]);
      expect(readdirSync(world().cli.dir).toSorted()).toEqual(files);
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
  storeTests(() => world, fresh, CASES);

  describe("events", () => {
    beforeEach(fresh);

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

    it("says that events would be collected, and by which key", async () => {
      await world.keep(order(1), order(2));
      const { out } = await world.diff(
        changed({ coalesce: { key: "{{customer.name}}", windowSeconds: 60 } }),
      );
      expect(out).toContain("batchKey  none → ");
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
      [
        ["--config", "x", "--events", "evt_1", "--path", "shop"],
        "leave --since, --last and --path out",
      ],
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
  // The store has no part in the comparison of events, so one case is enough.
  storeTests(() => world, fresh, CASES.slice(0, 1));

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
