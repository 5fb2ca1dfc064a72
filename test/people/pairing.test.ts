import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Clock } from "../../src/core/clock.ts";
import { createPersonCode, parsePersonDecision } from "../../src/people/pairings.ts";
import { parseDecision } from "../../src/vocabulary/decision.ts";
import { renderPhrase } from "../../src/vocabulary/phrases.ts";
import { createProvider, modelConfig, type Provider } from "../e2e/provider.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { REAL } from "../gateway.ts";
import { message, PIPE, sayOn, sentOn } from "../channels/pipe.ts";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";

const HOUR = 3_600_000;

it("pairing codes: none is a code of a tool call, and no two characters look alike", () => {
  const codes = Array.from({ length: 500 }, createPersonCode);
  expect(new Set(codes).size).toBe(500);
  for (const code of codes) {
    expect(code).toMatch(/^[HJKMNPQRTVWXY][HJKMNPQRTVWXY34789]{7}$/);
    expect(parseDecision(`approve ${code}`)).toBeUndefined();
    expect(parsePersonDecision(`@rouse /approve@rouse_bot ${code.toLowerCase()}.`)).toEqual({
      verdict: "approve",
      code,
    });
  }
  expect(parsePersonDecision("approve 7f3")).toBeUndefined();
  expect(parsePersonDecision("please approve HK7X3PTW")).toBeUndefined();
});

let provider: Provider;
let worlds: World[];
/** Milliseconds by which the gateways' clock is ahead. */
let ahead = 0;
const clock: Clock = { ...REAL.clock, now: () => REAL.clock.now() + ahead };
beforeEach(async () => {
  provider = await createProvider();
  worlds = [];
  ahead = 0;
});
afterEach(async () => {
  for (const world of worlds) await world.stop();
  await provider.close();
});

const eve = (text: string, more: object = {}) =>
  message(text, { from: "eve", to: "dm-eve", name: "Eve <b>", ...more });
const codeIn = (text: unknown): string =>
  /[HJKMNPQRTVWXY][HJKMNPQRTVWXY34789]{7}/.exec(String(text))?.[0] ?? "no code";

const start = async (pipe: object = {}, more: object = {}, dir?: string): Promise<World> => {
  const world = await createWorld({
    files: { "plugins/pipe.ts": PIPE },
    config: {
      ...modelConfig(provider),
      owner: { pipe: "ann" },
      tools: { approvers: ["operator", "pipe:ann"] },
      channels: { pipe: { allowFrom: ["ann", "bob"], dmPolicy: "pairing", ...pipe } },
      ...more,
    },
    clock,
    ...(dir === undefined ? {} : { dir }),
  });
  worlds.push(world);
  return world;
};

describe("pairing", () => {
  const list = async (world: World): Promise<Record<string, unknown>[]> =>
    (await world.admin("/admin/v1/pairings")).body.pairings;
  const whenSent = (world: World, count: number) =>
    world.until(async () => sentOn(world).length >= count);
  const settled = (world: World) =>
    world.until(async () => {
      const { counts } = (await world.admin("/admin/v1/status")).body.status;
      return !counts["deliveries.pending"] && !counts["jobs.turn"] && !counts["jobs.command"];
    });

  it("sends a stranger one code, shows the text to no model, and answers after the approval", async () => {
    const world = await start();
    await sayOn(world, eve("secret words", { language: "de-AT" }));
    await whenSent(world, 1);
    await sayOn(world, eve("more secret words"));
    await sayOn(world, eve("and more"));
    await sayOn(world, eve("/status"));
    await settled(world);
    expect(sentOn(world)).toHaveLength(1);
    expect(sentOn(world)[0]).toMatchObject({
      to: "dm-eve",
      text: expect.stringContaining("Gib dem Betreiber") as unknown,
    });
    expect(provider.requests).toEqual([]);
    const { events } = (await world.admin("/admin/v1/events")).body;
    expect(events).toHaveLength(4);
    for (const event of events) {
      expect(event).toMatchObject({
        outcome: "skipped",
        reason: expect.stringMatching(/^pairing: /) as unknown,
      });
      expect(JSON.stringify((await world.admin(`/admin/v1/events/${event.id}`)).body)).not.toMatch(
        /secret|and more/,
      );
    }
    const code = codeIn(sentOn(world)[0]?.["text"]);
    const waiting = await list(world);
    expect(waiting).toMatchObject([
      { channel: "pipe", person: "eve", name: "Eve <b>", state: "waiting", code, by: null },
    ]);
    const post = (body: object, id = code) =>
      world.admin(`/admin/v1/pairings/${id}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      });
    expect((await post({ verdict: "approve" }, code.toLowerCase())).body.pairing).toMatchObject({
      state: "approved",
      by: "operator",
      code: null,
    });
    // A code is used once.
    expect((await post({ verdict: "approve" })).body.error.code).toBe("not_found");
    await whenSent(world, 2);
    expect(sentOn(world)[1]).toMatchObject({
      to: "dm-eve",
      text: renderPhrase("de", "paired"),
    });
    await sayOn(world, eve("may I?"));
    await whenSent(world, 3);
    expect(sentOn(world)[2]).toMatchObject({ to: "dm-eve", text: "fine" });
    expect(provider.requests).toHaveLength(1);
    expect(provider.text(provider.requests[0] as never)).toContain("may I?");
    expect(provider.text(provider.requests[0] as never)).not.toMatch(/secret|and more/);
    // An approval is for direct messages.
    await sayOn(world, eve("in a group", { direct: false, to: "lounge" }));
    expect((await world.admin("/admin/v1/events")).body.events[0]).toMatchObject({
      outcome: "skipped",
      reason: expect.stringContaining("allowFrom") as unknown,
    });
  });

  it("an approver approves and denies by a message; other people cannot", async () => {
    const world = await start();
    await sayOn(world, eve("hello"));
    await whenSent(world, 1);
    const code = codeIn(sentOn(world)[0]?.["text"]);
    await sayOn(world, message(`/approve ${code}`, { from: "bob", to: "dm-bob" }));
    await whenSent(world, 2);
    expect(sentOn(world)[1]).toMatchObject({
      to: "dm-bob",
      text: expect.stringContaining("not one of the approvers") as unknown,
    });
    // Nor the stranger itself.
    await sayOn(world, eve(`/approve ${code}`));
    expect(await list(world)).toMatchObject([{ state: "waiting" }]);
    await sayOn(world, message(`/deny ${code}`, { to: "dm-ann" }));
    await whenSent(world, 3);
    expect(sentOn(world)[2]).toMatchObject({
      to: "dm-ann",
      text: 'Denied: "eve" is not answered on pipe.',
    });
    expect(await list(world)).toMatchObject([{ state: "denied", by: "pipe:ann" }]);
    ahead += 2 * HOUR;
    await sayOn(world, eve("hello?"));
    await settled(world);
    expect(sentOn(world)).toHaveLength(3);
    // After a revocation the person is a stranger again.
    expect((await world.admin("/admin/v1/pairings/pipe:eve", { method: "DELETE" })).status).toBe(
      200,
    );
    await sayOn(world, eve("hello!"));
    await whenSent(world, 4);
    await sayOn(world, message(`approve ${codeIn(sentOn(world)[3]?.["text"])}`, { to: "dm-ann" }));
    await world.until(async () => (await list(world))[0]?.["state"] === "approved");
    expect(provider.requests).toEqual([]);
  });

  it("codes expire, and the person then gets another one", async () => {
    const world = await start();
    await sayOn(world, eve("one"));
    await whenSent(world, 1);
    ahead += HOUR - 60_000;
    await sayOn(world, eve("one more"));
    await settled(world);
    expect(sentOn(world)).toHaveLength(1);
    ahead += 60_001;
    const first = codeIn(sentOn(world)[0]?.["text"]);
    await sayOn(world, message(`/approve ${first}`));
    await whenSent(world, 2);
    expect(sentOn(world)[1]?.["text"]).toMatch(/expired/);
    expect(await list(world)).toEqual([]);
    await sayOn(world, eve("two"));
    await whenSent(world, 3);
    expect(codeIn(sentOn(world)[2]?.["text"])).not.toBe(first);
  });

  it("a flood of strangers gets 20 codes an hour, and leaves 100 events", async () => {
    const world = await start();
    for (let at = 0; at < 130; at++)
      await sayOn(world, eve("x", { from: `eve-${at}`, to: `dm-${at}` }));
    await whenSent(world, 20);
    await settled(world);
    expect(sentOn(world)).toHaveLength(20);
    expect(await list(world)).toHaveLength(20);
    expect((await world.admin("/admin/v1/status")).body.status.counts).toMatchObject({
      "events.skipped": 100,
    });
    // The people in allowFrom are answered as ever.
    await sayOn(world, message("hello", { from: "bob", to: "dm-bob" }));
    await whenSent(world, 21);
    expect(provider.requests).toHaveLength(1);
    ahead += HOUR + 1;
    await sayOn(world, eve("x", { from: "eve-129", to: "dm-129" }));
    await whenSent(world, 22);
  });

  it('"open" answers everybody in direct messages and warns, "closed" answers no person there', async () => {
    const world = await start({ dmPolicy: "open" });
    expect(world.gateway.status().warnings).toContainEqual({
      path: "channels.pipe.dmPolicy",
      message: expect.stringContaining("everybody") as unknown,
    });
    await sayOn(world, eve("hello"));
    await whenSent(world, 1);
    await sayOn(world, eve("hello", { direct: false, to: "lounge" }));
    expect((await world.admin("/admin/v1/events")).body.events[0]).toMatchObject({
      outcome: "skipped",
    });
    expect(provider.requests).toHaveLength(1);
    await world.gateway.stop();
    const closed = await start({ dmPolicy: "closed" }, {}, world.dir);
    await sayOn(closed, message("hello"));
    await sayOn(closed, eve("hello"));
    expect((await closed.admin("/admin/v1/events?limit=2")).body.events).toMatchObject([
      { outcome: "skipped" },
      { outcome: "skipped" },
    ]);
    await sayOn(closed, message("hello", { direct: false, to: "lounge" }));
    await whenSent(closed, 1);
    expect(provider.requests).toHaveLength(2);
  });

  it("is listed, approved and revoked at the command line", async () => {
    const world = await createWorld({
      files: { "plugins/pipe.ts": PIPE },
      config: {
        ...modelConfig(provider),
        channels: { pipe: { allowFrom: ["ann"], dmPolicy: "pairing" } },
      },
    });
    worlds.push(world);
    await sayOn(world, eve("hello"));
    await world.until(async () => sentOn(world).length === 1);
    const code = codeIn(sentOn(world)[0]?.["text"]);
    expect((await world.rouse("people")).out).toMatch(
      new RegExp(`${code} +pipe +eve +Eve <b> .*waiting`),
    );
    expect((await world.rouse("people", "decide", "HHHHHHHH", "approve")).code).toBe(1);
    expect((await world.rouse("people", "decide", code, "approve")).out).toContain(
      "pipe:eve  approved",
    );
    expect(JSON.parse((await world.rouse("people", "--json")).out).pairings).toMatchObject([
      { state: "approved", by: "operator" },
    ]);
    expect((await world.rouse("channels")).out).toMatch(
      /pipe .*from 1 allowed sender, and approved people/,
    );
    expect((await world.rouse("people", "decide", "pipe:eve", "revoke")).out).toContain(
      "a stranger again",
    );
    expect(JSON.parse((await world.rouse("people", "--json")).out).pairings).toEqual([]);
    await sayOn(world, eve("hello again"));
    const again = JSON.parse((await world.rouse("people", "--json")).out).pairings[0].code;
    expect((await world.rouse("people", "decide", again, "deny")).out).toContain(
      "pipe:eve  denied",
    );
    expect(JSON.parse((await world.rouse("people", "--json")).out).pairings).toMatchObject([
      { state: "denied", by: "operator" },
    ]);
  });
});

describePostgres("pairing on PostgreSQL", () => {
  let schema: Schema;
  beforeEach(() => void (schema = newSchema()));
  afterEach(async () => {
    for (const world of worlds.splice(0)) await world.stop();
    await schema.drop();
  });

  it("an approval and a revocation count immediately at another gateway", async () => {
    const one = await start({}, { store: { url: schema.url } });
    const two = await start({}, { store: { url: schema.url } });
    await sayOn(one, eve("hello"));
    await one.until(async () => sentOn(one).length + sentOn(two).length === 1);
    // The other gateway has read the list, and knows of the code.
    await sayOn(two, eve("hello"));
    const code = codeIn([...sentOn(one), ...sentOn(two)][0]?.["text"]);
    const json = {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: '{"verdict":"approve"}',
    };
    expect((await one.admin(`/admin/v1/pairings/${code}`, json)).status).toBe(200);
    await sayOn(two, eve("approved"));
    expect((await two.admin("/admin/v1/events")).body.events[0]).toMatchObject({
      outcome: "accepted",
    });
    expect((await one.admin("/admin/v1/pairings/pipe:eve", { method: "DELETE" })).status).toBe(200);
    await sayOn(two, eve("revoked"));
    expect((await two.admin("/admin/v1/events")).body.events[0]).toMatchObject({
      outcome: "skipped",
    });
  });
});
