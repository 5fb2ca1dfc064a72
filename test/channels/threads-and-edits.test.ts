import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import type { World } from "../e2e/world.ts";
import { ask, lastText, openWorld, pass } from "./contents.ts";
import { BOT_ID, CHANNEL, DIRECT, startDiscord, THREAD, USER } from "./discord-server.ts";
import { listening, testHost } from "./gateway.ts";
import { TOWN } from "./mattermost-server.ts";
import { openChannel } from "./open.ts";
import { VENDORS } from "./vendors.ts";

const events = async (
  world: World,
  id: string,
): Promise<{ outcome: string; reason: string | null; bodyBytes: number | null }[]> =>
  (await world.admin(`/admin/v1/events?path=channels/${id}`)).body.events;

for (const vendor of VENDORS) {
  it(`${vendor.id}: an edit replaces the text of a message whose turn has not begun, and no other`, async () => {
    const { far, world, provider } = await openWorld(vendor);
    const { edit } = far.sends;
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    provider.answer = async ({ body }) => {
      if (JSON.stringify(body.messages.at(-1)).includes("first")) await held;
      return "fine";
    };
    await pass(world, await far.speak("first"));
    await world.until(async () => provider.requests.length === 1);
    await pass(world, await far.speak("buy ten tons"));
    await world.until(async () => (await events(world, vendor.id)).length === 2);
    await pass(world, await edit("buy ten tins"));
    await world.until(async () => (await events(world, vendor.id)).length === 3);
    expect((await events(world, vendor.id))[0]).toMatchObject({
      outcome: "accepted",
      reason: expect.stringMatching(/^an edit: /) as unknown,
    });
    release();
    await world.until(async () => provider.requests.length === 2);
    expect(lastText(provider)).toContain("buy ten tins");
    expect(JSON.stringify(provider.requests)).not.toContain("ten tons");
    await world.until(async () => far.arrived().length === 2);
  });
}

/** A message to a group that mentions the bot and was written more than a day ago: its record is deleted. */
const FORGOTTEN = {
  discord: {
    call: `<@${BOT_ID}>`,
    more: {
      guild_id: "1",
      channel_id: CHANNEL,
      mentions: [{ id: BOT_ID }],
      timestamp: new Date(Date.now() - 90_000_000).toISOString(),
    },
  },
  mattermost: {
    call: "@rouse.bot",
    more: { channel_id: TOWN, create_at: Date.now() - 90_000_000 },
  },
};

for (const vendor of VENDORS) {
  const forgotten = FORGOTTEN[vendor.id as keyof typeof FORGOTTEN] as
    | (typeof FORGOTTEN)["discord" | "mattermost"]
    | undefined;
  if (!forgotten) continue;
  it(`${vendor.id}: an edit of a message of a group that the gateway has forgotten is recorded and makes no turn`, async () => {
    const far = await vendor.start();
    onTestFinished(async () => far.close());
    await far.sends.raw(`${forgotten.call} what is the tpic?`, forgotten.more);
    const { world, provider } = await openWorld(vendor, {}, { again: far });
    await pass(world, await far.sends.edit(`${forgotten.call} what is the topic?`));
    await world.until(async () => (await events(world, vendor.id)).length === 1);
    expect((await events(world, vendor.id))[0]).toMatchObject({
      outcome: "skipped",
      reason: "an edit of an earlier message that is not known",
    });
    expect(provider.requests).toEqual([]);
  });
}

it("signal: each further edit of a message that waits is placed, after a restart too", async () => {
  const vendor = VENDORS.find(({ id }) => id === "signal") as (typeof VENDORS)[number];
  const dir = mkdtempSync(join(tmpdir(), "rouse-edits-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const config = { sessions: { quietTime: "5s" } };
  const first = await openWorld(vendor, {}, { dir, config });
  const { far } = first;
  const edit = async ({ world }: { world: World }, text: string): Promise<void> => {
    const { length } = await events(world, vendor.id);
    await pass(world, await far.sends.edit(text));
    await world.until(async () => (await events(world, vendor.id)).length > length);
    expect((await events(world, vendor.id))[0]?.reason).toMatch(/^an edit: it replaced/);
  };
  await pass(first.world, await far.speak("buy ten tons"));
  await first.world.until(async () => (await events(first.world, vendor.id)).length === 1);
  await edit(first, "buy ten tens");
  await edit(first, "buy ten tims");
  await first.world.stop();
  const second = await openWorld(vendor, {}, { dir, config, again: far });
  await edit(second, "buy ten tins");
  await second.world.until(async () => far.arrived().length === 1);
  expect(lastText(second.provider)).toContain("buy ten tins");
  expect(JSON.stringify(second.provider.requests)).not.toMatch(/tons|tens|tims/);
});

for (const vendor of VENDORS.filter(({ id }) =>
  ["slack", "mattermost", "telegram", "discord"].includes(id),
)) {
  it(`${vendor.id}: a thread continues without a mention once the agent has answered in it, after a restart too`, async () => {
    const dir = mkdtempSync(join(tmpdir(), "rouse-thread-"));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    let opened = await openWorld(vendor, {}, { dir });
    const { far } = opened;
    const { inThread, before } = far.sends;
    if (!inThread || !far.writes.thread) throw new Error("the channel follows no threads");
    const skipped = async (say: typeof inThread, text: string): Promise<void> => {
      const { world, provider } = opened;
      const [count, asked] = [(await events(world, vendor.id)).length, provider.requests.length];
      await pass(world, await say(text));
      await world.until(async () => (await events(world, vendor.id)).length > count);
      expect((await events(world, vendor.id))[0]).toMatchObject({
        outcome: "skipped",
        reason: "the message is not addressed to the agent",
        bodyBytes: null,
      });
      expect(provider.requests).toHaveLength(asked);
    };
    // At the test server of Mattermost the call begins the thread.
    if (vendor.id !== "mattermost") await skipped(inThread, "canary-before-the-call");
    // The first call in a thread carries the thread's older posts, as outside text.
    if (vendor.id === "slack") before?.("the server room is too warm");
    await ask(opened, far.writes.thread("what do you say?"));
    if (vendor.id === "slack")
      expect(lastText(opened.provider)).toMatch(
        /what was written in this thread before"\n---\nU0VERA0001: the server room is too warm/,
      );
    expect(await ask(opened, inThread("and now?"))).toBe("I was given: text alone");
    expect(lastText(opened.provider)).toContain("and now?");
    // The model does not get posts twice.
    expect(lastText(opened.provider)).not.toContain("too warm");
    await skipped(far.writes.chatter, "canary-outside-the-thread");
    // The gateway keeps its threads alike for all.
    if (vendor.id !== "slack") return;

    await opened.world.stop();
    opened = await openWorld(vendor, {}, { dir, again: far });
    await ask(opened, inThread("after the restart"));
    expect(lastText(opened.provider)).toContain("after the restart");

    await opened.world.stop();
    opened = await openWorld(vendor, { threads: { follow: false } }, { dir, again: far });
    await skipped(inThread, "canary-not-followed");
  });
}

for (const vendor of VENDORS.filter(({ id }) => id === "slack" || id === "mattermost")) {
  it(`${vendor.id}: a reply that is still being sent is not given to the model as what others wrote in the thread`, async () => {
    const { far, provider, world } = await openWorld(vendor);
    const { inThread, loseAnswer } = far.sends;
    if (!inThread || !loseAnswer || !far.writes.thread)
      throw new Error("the channel follows no threads");
    provider.answer = () => {
      loseAnswer();
      return "canary-own-reply";
    };
    await pass(world, await far.writes.thread("what do you say?"));
    await world.until(async () => far.arrived().length === 1);
    provider.answer = () => "fine";
    await pass(world, await inThread("and now?"));
    await world.until(async () => provider.requests.length === 2);
    expect(lastText(provider)).toContain("and now?");
    // It is in the history, once.
    expect(
      JSON.stringify(provider.requests[1]?.body.messages).match(/canary-own-reply/g),
    ).toHaveLength(1);
    expect(lastText(provider)).not.toContain("canary-own-reply");
    // The end of the gateway waits for the reply no longer.
    await far.close();
  });
}

for (const vendor of VENDORS.filter(({ id }) => id === "slack" || id === "mattermost")) {
  it(`${vendor.id}: with \`threads.messages\` at 0 nothing of a thread is asked for, and with 1 the newest message comes along`, async () => {
    const called = async (messages: number): Promise<string> => {
      const opened = await openWorld(vendor, { threads: { messages } });
      const { far, provider } = opened;
      far.sends.before?.("canary-older");
      far.sends.before?.("canary-newest");
      await ask(opened, far.writes.thread?.("what now?") ?? Promise.resolve(undefined));
      expect(lastText(provider)).toContain("what now?");
      // The thread is followed all the same.
      expect(
        await ask(opened, far.sends.inThread?.("and now?") ?? Promise.resolve(undefined)),
      ).toBe("I was given: text alone");
      return JSON.stringify(provider.requests.map(({ body }) => body));
    };
    const none = await called(0);
    expect(none).not.toContain("canary");
    expect(none).not.toContain("what was written in this thread before");
    const one = await called(1);
    expect(one).toContain("canary-newest");
    expect(one).not.toContain("canary-older");
  });
}

it("discord: threads are followed if the application may have the text of messages, from the next start on", async () => {
  const server = await startDiscord();
  onTestFinished(() => server.close());
  const { channel } = await openChannel("discord", { token: server.token, apiUrl: server.url });
  const host = testHost();
  const written = {
    type: 0,
    author: { id: USER },
    mentions: [],
    attachments: [],
    guild_id: "1",
    channel_id: THREAD,
  };
  const isUp = () =>
    expect.poll(() => host.states.at(-1)).toEqual({ ok: true, message: "receiving" });

  const first = listening(channel, host);
  await isUp();
  server.push({ ...written, id: "11", content: "canary-without-the-intent" });
  await expect.poll(() => host.skipped).toEqual([{ id: "11", skipped: "the message has no text" }]);
  await first.stop();

  server.givesContent = true;
  host.states.length = 0;
  const second = listening(channel, host);
  await isUp();
  server.push({ ...written, id: "12", content: "in a thread" });
  server.push({ ...written, id: "13", channel_id: "800000000000000003", content: "in a channel" });
  server.push({ ...written, id: "14", channel_id: DIRECT, guild_id: undefined, content: "direct" });
  await expect.poll(() => host.received.length).toBe(2);
  expect(host.received).toMatchObject([
    { id: "12", to: THREAD, text: "in a thread", addressed: false },
    { id: "14", to: DIRECT, text: "direct", direct: true },
  ]);
  expect(host.received[1]).not.toHaveProperty("addressed");
  expect(host.skipped[1]).toEqual({
    id: "13",
    skipped: "the message is not addressed to the agent",
  });
  await second.stop();

  // Nothing has changed: the session goes on, and then the application may not have texts any more.
  host.states.length = 0;
  const third = listening(channel, host);
  await isUp();
  server.push({ ...written, id: "15", content: "after a restart" });
  await expect.poll(() => host.received.at(-1)).toMatchObject({ id: "15", addressed: false });
  await third.stop();
  server.givesContent = false;
  host.states.length = 0;
  listening(channel, host);
  await isUp();
  expect(server.gateway.map(({ op }) => op)).toEqual([
    "identify",
    "identify",
    "resume",
    "identify",
  ]);
  const intents = server.gateway.filter(({ op }) => op === "identify").map(({ d }) => d["intents"]);
  expect(intents).toEqual([4608, 4608 + 32_768, 4608]);
});
