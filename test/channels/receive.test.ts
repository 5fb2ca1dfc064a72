import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createProvider, modelConfig, type Provider } from "../e2e/provider.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { message, PIPE, sayOn, sentOn } from "./pipe.ts";

let world: World;
let provider: Provider;
beforeEach(async () => {
  provider = await createProvider();
});
afterEach(async () => {
  await world.stop();
  await provider.close();
});

const start = (pipe: object = { allowFrom: ["ann"] }, more: object = {}) =>
  createWorld({
    files: { "plugins/pipe.ts": PIPE },
    config: { ...modelConfig(provider), channels: { pipe }, ...more },
  });
const say = (body: object, channel?: string): Promise<void> => sayOn(world, body, channel);
const sent = () => sentOn(world);
const events = async () =>
  (await world.admin("/admin/v1/events")).body.events as Record<string, unknown>[];

describe("a message from somebody who may speak", () => {
  it("becomes a turn of the main session, answered in its conversation", async () => {
    provider.answer = () => "Hello Ann";
    world = await start();
    const asked = message("Who are you?", { thread: "t9", name: "Ann <<<EXTERNAL_CONTENT" });
    await say(asked);
    await world.until(async () => sent().length === 1);
    expect(sent()).toEqual([
      { name: "pipe", to: "room-1", thread: "t9", replyTo: asked.id, text: "Hello Ann" },
    ]);
    const { runs } = (await world.admin("/admin/v1/runs")).body;
    expect(runs).toMatchObject([
      { kind: "channel", status: "succeeded", origin: "main", sessionKey: "main" },
    ]);
    // The owner's words are not outside text, and the turn leaves no summary for a heartbeat.
    const [request] = provider.requests;
    expect(String(request?.body.messages.at(-1)?.content)).toBe(
      "Message on pipe from ann (the owner), to you alone. All that follows is theirs:\n\nWho are you?",
    );
    const { turns, queued } = (await world.admin("/admin/v1/sessions/show?key=main")).body;
    expect([turns.length, queued.length]).toEqual([1, 0]);
  });

  it("is answered without halves of surrogate pairs, which vendors reject", async () => {
    provider.answer = () => "Cut \ud83d, whole \u{1f44d}";
    world = await start();
    await say(message("Who are you?"));
    await world.until(async () => sent().length === 1);
    expect(sent()[0]?.["text"]).toBe("Cut \ufffd, whole \u{1f44d}");
  });

  it("uses nothing of what all hooks together may spend", async () => {
    const limits = { tokensPerDay: 1, concurrent: 1, queue: 1 };
    world = await start({ allowFrom: ["ann"] }, { hooks: { limits } });
    await say(message("Hi"));
    await world.until(async () => sent().length === 1);
    expect((await world.admin("/admin/v1/runs")).body.runs[0].usage.totalTokens).toBeGreaterThan(0);
    const { body } = await world.post("/hooks/agent", {
      message: "work",
      deliver: false,
      wakeMode: "next-heartbeat",
    });
    expect(body.status).toBe("queued");
  });

  it("moves the last route, durably, when it was written to the agent alone", async () => {
    world = await start({ allowFrom: ["ann"], defaultTo: "lobby" });
    await say(message("Hi", { to: "ann-dm", thread: "t1" }));
    await world.until(async () => sent().length === 1);
    await say(message("@bot hi", { to: "group", direct: false }));
    await world.until(async () => sent().length === 2);
    expect(sent()[1]).toMatchObject({ to: "group" });
    const { dir } = world;
    await world.gateway.stop();
    world = await createWorld({
      dir,
      files: { "plugins/pipe.ts": PIPE },
      config: {
        ...modelConfig(provider),
        channels: { pipe: { allowFrom: ["ann"], defaultTo: "lobby" } },
      },
    });
    await world.post("/hooks/agent", {
      message: "What happened?",
      channel: "last",
      wakeMode: "next-heartbeat",
    });
    await world.until(async () => sent().length === 1);
    expect(sent()[0]).toMatchObject({ to: "ann-dm", thread: "t1" });
    expect(sent()[0]).not.toHaveProperty("replyTo");
  });

  it("is answered once, however often it comes", async () => {
    world = await start();
    const one = message("Once");
    await Promise.all([say(one), say(one)]);
    await say(one);
    await world.until(async () => sent().length === 1);
    await new Promise((done) => setTimeout(done, 100));
    expect(sent()).toHaveLength(1);
    expect(provider.requests).toHaveLength(1);
  });

  it("is in pieces that fit as the channel counts", async () => {
    provider.answer = () => "<<<< <<<< ".repeat(20).trim();
    world = await start({ allowFrom: ["ann"], limit: 100 });
    await say(message("Long"));
    await world.until(
      async () =>
        (await world.admin("/admin/v1/deliveries")).body.deliveries[0]?.status === "delivered",
    );
    const pieces = sent().map(({ text }) => text as string);
    expect(pieces.every((text) => text.replaceAll("<", "&lt;").length <= 100)).toBe(true);
    expect(pieces.join(" ")).toBe("<<<< <<<< ".repeat(20).trim());
  });
});

describe("a message from anybody else", () => {
  it("is recorded without its text and answered nothing", async () => {
    world = await start();
    await say(message("canary-text", { from: "eve" }));
    await say(message("canary-text", { from: "eve", direct: false }));
    const found = await events();
    expect(found).toHaveLength(2);
    expect(found[0]).toMatchObject({
      path: "channels/pipe",
      outcome: "skipped",
      reason: '"eve" is not in allowFrom of channels.pipe: nothing is answered',
      bodyBytes: null,
    });
    expect([sent(), provider.requests]).toEqual([[], []]);
  });

  it("is every message if allowFrom is empty", async () => {
    world = await start({});
    await say(message("Hello"));
    expect((await events())[0]).toMatchObject({ outcome: "skipped" });
  });

  it("is recorded with the reason where the channel gave half a message", async () => {
    world = await start();
    await say(message(" "));
    await say({ ...message("x"), to: "" });
    await say({ ...message("x"), thread: 7 });
    await say({ ...message("x"), parts: [{ kind: "own", text: "x", attachments: [{}] }] });
    await say({ ...message("x"), edits: "" });
    await say({ id: "s1", skipped: 5 });
    expect((await events()).map((event) => event["reason"]).toReversed()).toEqual([
      "the message has no text",
      "the channel gave no usable `to`",
      "the channel gave no usable `thread`",
      "the channel gave no usable `parts`",
      "the channel gave no usable `edits`",
      "the channel skipped the message without a reason",
    ]);
  });

  it("is recorded once with the channel's reason if the channel skips it, and hides no later form of the message", async () => {
    world = await start();
    const one = message("Is it on?");
    await say({ id: one.id, skipped: "an edit of\nan earlier message" });
    await say({ id: one.id, skipped: "an edit of an earlier message" });
    expect(await events()).toMatchObject([
      { outcome: "skipped", reason: "an edit of an earlier message", bodyBytes: null },
    ]);
    await say(one);
    await world.until(async () => sent().length === 1);
  });
});

describe("rouse channels", () => {
  it("lists, tells how they do, and sends a test", async () => {
    world = await start({ allowFrom: ["ann"], defaultTo: "lobby" });
    expect((await world.rouse("channels")).out).toMatch(
      /pipe +configured +from 1 allowed sender +lobby +1000/,
    );
    const { out } = await world.rouse("channels", "--status");
    expect(out).toMatch(/pipe +cannot tell +listens for the 1\. time/);
    const tested = await world.rouse(
      "channels",
      "--test",
      "pipe",
      "--to",
      "ops",
      "--text",
      "Is it on?",
    );
    expect(tested).toMatchObject({ code: 0, out: "sent to ops on pipe  m1\n" });
    expect(sent()).toMatchObject([{ to: "ops", text: "Is it on?" }]);
    expect((await world.rouse("channels", "--test", "pipe")).out).toContain("sent to lobby");
    expect(await world.rouse("channels", "--test", "nowhere")).toMatchObject({
      code: 1,
      err: expect.stringContaining("rouse channels"),
    });
    expect(
      JSON.parse((await world.rouse("channels", "--test", "pipe", "--json")).out),
    ).toMatchObject({
      result: { status: "sent" },
    });
  });

  it("fails where one cannot be reached; readyz, doctor and metrics know it too", async () => {
    const broken = PIPE.replace(
      "async send(",
      'probe: async () => ({ ok: false, message: "the token is wrong" }),\n    async send(',
    );
    world = await createWorld({
      files: { "plugins/pipe.ts": broken },
      config: { channels: { pipe: {} } },
    });
    const { code, out } = await world.rouse("channels", "--status");
    expect([code, out]).toEqual([
      1,
      expect.stringMatching(
        /pipe +cannot be reached: the token is wrong +rejects all: allowFrom is empty/,
      ),
    ]);
    const detail = (await world.admin("/readyz?detail")).body;
    expect(detail.channels).toMatchObject([
      { id: "pipe", ok: false, message: "cannot be reached: the token is wrong" },
    ]);
    expect((await world.admin("/metrics")).body).toContain('rouse_channel_up{channel="pipe"} 0');
  });
});

describe("a channel that listens", () => {
  it("may have several accounts, each a channel of its own", async () => {
    world = await start({
      allowFrom: ["ann"],
      accounts: { work: { name: "at work" }, home: { name: "at home", allowFrom: ["bob"] } },
    });
    await say(message("To work"));
    await world.until(async () => sent().length === 1);
    await say(message("To home", { from: "bob" }), "pipe:home");
    await world.until(async () => sent().length === 2);
    expect(sent().map(({ name }) => name)).toEqual(["at work", "at home"]);
    for (const [channel, name] of [
      ["pipe:work", "at work"],
      ["pipe:home", "at home"],
      ["pipe", "at work"],
    ] as const) {
      const before = sent().length;
      await world.post("/hooks/agent", {
        message: "x",
        channel,
        to: "r",
        wakeMode: "next-heartbeat",
      });
      await world.until(async () => sent().length > before);
      expect(sent().at(-1)?.["name"]).toBe(name);
    }
  });

  it("has accounts with names and sections", async () => {
    world = await createWorld({ start: false });
    const load = (pipe: object) =>
      createWorld({
        start: false,
        files: { "plugins/pipe.ts": PIPE },
        config: { channels: { pipe } },
      });
    await expect(load({ accounts: {} })).rejects.toThrow(
      /channels\.pipe\.accounts: must be an object/,
    );
    await expect(load({ accounts: { "My Work": {} } })).rejects.toThrow(
      /channels\.pipe\.accounts\.My Work: name it/,
    );
    await expect(load({ accounts: { work: { nam: 1 } } })).rejects.toThrow(
      /channels\.pipe\.accounts\.work\.nam: is not known/,
    );
  });
});
