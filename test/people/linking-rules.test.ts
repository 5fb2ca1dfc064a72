import { channelSession, personSession } from "../../src/store/types.ts";
import { describe, expect, it, onTestFinished } from "vitest";
import { createPeople } from "../../src/people/links.ts";
import { parseCommand } from "../../src/turns/channel/commands.ts";
import { message, sayOn, sentOn } from "../channels/pipe.ts";
import { REAL } from "../gateway.ts";
import { sqliteHome } from "../store/home.ts";
import type { World } from "../e2e/world.ts";
import { codeIn, sentTo, useLinking } from "./linking-world.ts";

const linking = useLinking();
const { start, ask, link } = linking;
const MINUTE = 60_000;
const WRONG = /^This code is wrong, has expired, or was used\./;

const newest = (): string => linking.provider.text(linking.provider.requests.at(-1) as never);
type Row = Record<"channel" | "person" | "entry" | "state" | "personId", string | null>;
const addresses = async (world: World): Promise<Row[]> =>
  (await world.admin("/admin/v1/people")).body.addresses;
const linked = async (world: World): Promise<(string | null)[]> =>
  (await addresses(world))
    .filter(({ personId }) => personId !== null)
    .map(({ channel, person }) => `${channel}:${person}`);

describe("a code", () => {
  it("is valid for ten minutes, once, on another channel, and an earlier one no longer", async () => {
    const world = await start();
    const first = codeIn(await ask(world, "bob", "pipe", "/link"));
    const second = codeIn(await ask(world, "bob", "pipe", "!LINK"));
    expect(await ask(world, "bob", "tube", `/link ${first}`)).toMatch(WRONG);
    expect(await ask(world, "bob", "pipe", `/link ${second}`)).toMatch(
      /^This code is for your other channel/,
    );
    linking.ahead += 10 * MINUTE + 1;
    expect(await ask(world, "bob", "tube", `/link ${second}`)).toMatch(WRONG);
    const third = codeIn(await ask(world, "bob", "pipe", "/link"));
    linking.ahead += 9 * MINUTE;
    expect(
      await ask(
        world,
        "bob",
        "tube",
        `/link@rouse_bot ${third.slice(0, 4)}-${third.slice(4).toLowerCase()}`,
      ),
    ).toContain("Linked with pipe");
    expect(await ask(world, "cid", "tube", `/link ${third}`)).toMatch(WRONG);
    expect(await linked(world)).toEqual(["pipe:bob", "tube:bob"]);
    const again = codeIn(await ask(world, "bob", "pipe", "/link"));
    expect(await ask(world, "bob", "tube", `/link ${again}`)).toBe(
      "These channels are linked already.",
    );
    expect(linking.provider.requests).toEqual([]);
  });

  it("can be guessed five times an hour by one sender, then not even the right one counts", async () => {
    const world = await start();
    const code = codeIn(await ask(world, "bob", "pipe", "/link"));
    for (let at = 0; at < 5; at++)
      expect(await ask(world, "cid", "tube", "/link HHHHHHHH")).toMatch(WRONG);
    await world.gateway.stop();
    const again = await start({}, world.dir);
    expect(await ask(again, "cid", "tube", `/link ${code}`)).toMatch(/^Too many attempts/);
    // Other senders are not held up, nor is this one on another channel.
    expect(await ask(again, "bob", "tube", `/link ${code}`)).toContain("Linked with pipe");
    linking.ahead += 60 * MINUTE + 1;
    const own = codeIn(await ask(again, "cid", "pipe", "/link"));
    expect(await ask(again, "cid", "tube", `/link ${own}`)).toContain("Linked with pipe");
  });

  it("that was sent in a group links nothing and ends, and none is given out there", async () => {
    const world = await start();
    const code = codeIn(await ask(world, "bob", "pipe", "/link"));
    const inRoom = async (text: string): Promise<unknown> => {
      const before = sentOn(world).length;
      await sayOn(world, message(text, { from: "bob", to: "lounge", direct: false }), "tube");
      await world.until(async () => sentOn(world).length > before);
      return sentOn(world).at(-1)?.["text"];
    };
    expect(await inRoom("/link")).toMatch(/works in direct messages only/);
    expect(await inRoom(`/link ${code}`)).toMatch(/works in direct messages only/);
    expect(await ask(world, "cid", "tube", `/link ${code}`)).toMatch(WRONG);
    await link(world);
    expect(await inRoom("/unlink")).toMatch(/works in direct messages only/);
    expect(await linked(world)).toHaveLength(2);
  });

  it("is nothing in the hands of a stranger, who gets no answer", async () => {
    const world = await start();
    const code = codeIn(await ask(world, "bob", "pipe", "/link"));
    await sayOn(world, message(`/link ${code}`, { from: "eve", to: "dm-eve" }), "tube");
    expect((await world.admin("/admin/v1/events?path=channels/tube")).body.events[0]).toMatchObject(
      { outcome: "skipped" },
    );
    expect(await ask(world, "bob", "tube", `/link ${code}`)).toContain("Linked with pipe");
    expect(sentTo(world, "eve", "tube")).toEqual([]);
  });

  it("links again without a second message if the gateway ended before the command did", async () => {
    const home = await sqliteHome();
    onTestFinished(() => home.remove());
    const handle = await home.open();
    onTestFinished(() => handle.store.close());
    const { links } = createPeople({
      ...handle,
      clock: REAL.clock,
      channels: () => ({ get: () => undefined }) as never,
    });
    const rules = { isOwner: () => false, findEntry: () => undefined };
    const code = (await links.createCode({ channel: "pipe", person: "bob", to: "dm-bob" })) ?? "";
    const by = { channel: "tube", person: "bob", runId: "run_1" };
    expect(await links.redeem(code, by, rules)).toEqual({ ok: true, channel: "pipe" });
    expect(await links.redeem(code, by, rules)).toEqual({ ok: true, channel: "pipe" });
    expect(await links.redeem(code, { ...by, runId: "run_2" }, rules)).toEqual({
      ok: false,
      problem: "wrong",
    });
    expect(await handle.store.deliveries.list({ limit: 10 })).toHaveLength(1);
  });
});

describe("the owner", () => {
  it("is linked with no person, in neither direction, and a link makes no owner", async () => {
    const world = await start();
    expect(await ask(world, "ann", "pipe", "/link")).toMatch(/main conversation of the agent/);
    const code = codeIn(await ask(world, "bob", "pipe", "/link"));
    expect(await ask(world, "ann", "tube", `/link ${code}`)).toMatch(
      /main conversation of the agent/,
    );
    await ask(world, "ann", "pipe", "the owner's words");
    await link(world);
    await ask(world, "bob", "tube", "hello");
    expect(newest()).not.toMatch(/the owner/);
    await world.gateway.stop();
    // The owner of one channel is another person now: the link has no effect on that one.
    const bindings = ["pipe", "tube"].map((channel) => ({
      channel,
      agent: "main",
      choices: ["desk"],
    }));
    const again = await start({ owner: { pipe: "bob", tube: "ann" }, bindings }, world.dir);
    await ask(again, "bob", "pipe", "as the owner");
    await ask(again, "bob", "tube", "as before");
    expect(newest()).toMatch(/hello[^]*as before/);
    expect(newest()).not.toMatch(/as the owner|the owner's words/);
    expect(await addresses(again)).toMatchObject([{ state: "owner" }, { state: "linked" }]);
    await ask(again, "bob", "tube", "/agent desk");
    expect(await ask(again, "bob", "pipe", "/agent")).toContain("conversation is main");
  });

  it("who has asked for a code as somebody else is not linked by it", async () => {
    const world = await start();
    const code = codeIn(await ask(world, "bob", "pipe", "/link"));
    await world.gateway.stop();
    const again = await start({ owner: { pipe: "bob" } }, world.dir);
    expect(await ask(again, "cid", "tube", `/link ${code}`)).toMatch(WRONG);
  });

  it('shares the main session with those in allowFrom if dmScope is "shared"; no link lets anyone else into it', async () => {
    const channels = {
      pipe: { name: "pipe", allowFrom: ["ann", "bob"] },
      tube: { name: "tube", allowFrom: ["ann"], dmPolicy: "open" },
    };
    const world = await start({ channels });
    await link(world);
    await world.gateway.stop();
    const again = await start(
      { channels, sessions: { messages: "separate", dmScope: "shared" } },
      world.dir,
    );
    await ask(again, "ann", "pipe", "alpha");
    await ask(again, "bob", "pipe", "beta");
    expect(newest()).toMatch(/alpha[^]*beta/);
    await ask(again, "bob", "tube", "gamma");
    expect(newest()).not.toMatch(/alpha|beta/);
    expect(await ask(again, "bob", "pipe", "/link")).toMatch(/main conversation of the agent/);
  });
});

describe("people of the config", () => {
  const PEOPLE = [
    { id: "bob", pipe: "bob", tube: ["bob", "bob2"] },
    { id: "cid", pipe: "cid" },
  ];

  it("have their own names, and are not linked with another person", async () => {
    const world = await start({ people: PEOPLE });
    expect(await addresses(world)).toMatchObject(
      ["pipe:bob", "tube:bob", "tube:bob2", "pipe:cid"].map((name) => ({
        channel: name.split(":")[0],
        person: name.split(":")[1],
        state: "unlinked",
        personId: null,
      })),
    );
    const code = codeIn(await ask(world, "bob", "pipe", "/link"));
    expect(await ask(world, "cid", "pipe", `/link ${code}`)).toMatch(
      /belong to different people by the config/,
    );
    // The code has been seen by somebody else.
    expect(await ask(world, "bob", "tube", `/link ${code}`)).toMatch(WRONG);
    await link(world);
    // An address that the config does not name may join.
    const third = codeIn(await ask(world, "cid", "tube", "/link"));
    expect(await ask(world, "bob", "pipe", `/link ${third}`)).toContain("Linked with tube");
    // But not bring the other person's.
    const fourth = codeIn(await ask(world, "cid", "pipe", "/link"));
    expect(await ask(world, "cid", "tube", `/link ${fourth}`)).toMatch(/different people/);
    const rows = await addresses(world);
    expect(rows.filter(({ personId }) => /^bob-\w{8}$/.test(personId ?? ""))).toHaveLength(3);
    expect(
      rows
        .filter(({ state }) => state === "unlinked")
        .map(({ entry, person }) => `${entry} ${person}`),
    ).toEqual(["bob bob2", "cid cid"]);
  });

  it("two who were linked apart become one, with the conversation of the one who asked for the code", async () => {
    const world = await start();
    await link(world, "bob");
    await link(world, "cid");
    await ask(world, "bob", "pipe", "alpha");
    await ask(world, "cid", "pipe", "beta");
    const code = codeIn(await ask(world, "cid", "tube", "/link"));
    expect(await ask(world, "bob", "tube", `/link ${code}`)).toContain("Linked with tube");
    await ask(world, "bob", "pipe", "gamma");
    expect(newest()).toMatch(/beta[^]*gamma/);
    expect(newest()).not.toContain("alpha");
    expect(new Set((await addresses(world)).map(({ personId }) => personId)).size).toBe(1);
  });

  it.each([
    [[{ id: "bob", pipes: "bob" }], /people\[0\]\.pipes: names no channel\. Did you mean "pipe"/],
    [
      [
        { id: "bob", pipe: "x" },
        { id: "eve", pipe: ["y", "x"] },
      ],
      /people\[1\]\.pipe: "x" belongs to the person "bob" already/,
    ],
    [
      [
        { id: "bob", pipe: "bob" },
        { id: "bob", tube: "bob" },
      ],
      /people\[1\]\.id: there is another person "bob"/,
    ],
    [[{ id: "bob\nx: y", pipe: "bob" }], /people\[0\]\.id: use letters, digits/],
    [[{ pipe: "bob" }], /people\[0\]\.id/],
    [[{ id: "bob", pipe: { id: "bob" } }], /people\[0\]\.pipe: must be an id or a list of ids/],
  ])("that are wrong are refused: %j", async (people, expected) => {
    await expect(start({ people })).rejects.toThrow(expected);
  });

  it("whose channel is not configured are warned about", async () => {
    const world = await start({ people: [{ id: "eve", pipe: "eve", telegram: 12345 }] });
    expect(
      world.gateway.status().warnings.filter(({ path }) => path.startsWith("people")),
    ).toMatchObject([
      { path: "people[0].telegram", message: expect.stringContaining("not configured") as unknown },
    ]);
  });
});

it("links: they are listed and ended at the command line and over HTTP, whatever ids look like", async () => {
  const odd = "eve\nbob  linked\u001b[31m";
  const channels = Object.fromEntries(
    ["pipe", "tube"].map((name) => [name, { name, allowFrom: ["ann", "bob", odd] }]),
  );
  const world = await start({ channels, people: [{ id: "bob", pipe: "bob" }] });
  expect((await world.rouse("people")).out).toMatch(/– +bob +pipe +bob +not linked/);
  const code = codeIn(await ask(world, odd, "pipe", "/link"));
  await ask(world, odd, "tube", `/link ${code}`);
  await ask(world, odd, "tube", "hello");
  expect(newest()).toContain("Message on tube from eve_bob__linked__31m (the person person-");
  const { out } = await world.rouse("people");
  expect(out.trim().split("\n")).toHaveLength(4);
  expect(out).toMatch(/person-\w{8} +– +pipe +eve bob linked \[31m +linked/);
  const rows = JSON.parse((await world.rouse("people", "--json")).out).addresses as Row[];
  expect(rows).toMatchObject([
    { person: odd, runId: expect.stringMatching(/^run_/) as unknown },
    { person: odd },
    { person: "bob" },
  ]);
  expect((await world.rouse("people", "decide", "person-nobody", "unlink")).code).toBe(1);
  const id = rows[0]?.personId ?? "";
  expect((await world.rouse("people", "decide", id, "unlink")).out.trim().split("\n")).toHaveLength(
    2,
  );
  expect(await linked(world)).toEqual([]);
  expect(
    (await world.admin(`/admin/v1/people/${id}`, { method: "DELETE" })).body.error,
  ).toMatchObject({
    code: "not_found",
    message: expect.stringContaining("rouse people") as unknown,
  });
  expect((await world.rouse("people", "--help")).out).toMatch(
    /\/link in a direct message[^]*An entry alone links nothing/,
  );
});

it("`/link` may have a word behind it, `/unlink` may not", () => {
  expect(parseCommand("@rouse /link")).toEqual({ name: "link" });
  expect(parseCommand("/LINK hk7x3ptw")).toEqual({ name: "link", argument: "hk7x3ptw" });
  expect(parseCommand("!unlink")).toEqual({ name: "unlink" });
  expect(parseCommand("/unlink me")).toBeUndefined();
  expect(parseCommand("/link the two pages")).toBeUndefined();
});

it("links: no session of a channel has the key of a person's session", () => {
  const ids = ["direct", "room", "bob-hk7x3ptw", "direct:bob", "x".repeat(300)];
  const keys = ids.map((id) => personSession("main", id).key);
  for (const channel of ["person", "person:direct", "person:room", "person:bob-hk7x3ptw"])
    for (const from of [...ids, ""])
      for (const direct of [true, false])
        expect(keys).not.toContain(channelSession("main", channel, { from, to: from, direct }).key);
  expect(new Set(keys).size).toBe(keys.length);
});
