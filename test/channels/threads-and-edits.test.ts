import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import type { World } from "../e2e/world.ts";
import { ask, lastText, openWorld, pass } from "./contents.ts";
import { VENDORS } from "./vendors.ts";

const events = async (world: World, id: string): Promise<{ outcome: string; reason: string | null; bodyBytes: number | null }[]> =>
  (await world.admin(`/admin/v1/events?path=channels/${id}`)).body.events;

for (const vendor of VENDORS) {
  it(`${vendor.id}: an edit replaces the text of a message whose turn has not begun, and no other`, async () => {
    const { far, world, provider } = await openWorld(vendor);
    const { edit } = far.sends;
    if (edit === null) return expect(vendor.id).toBe("whatsapp");
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

    if (vendor.id !== "slack") return undefined;
    await pass(world, await far.speak("answered"));
    await world.until(async () => far.arrived().length === 3);
    await pass(world, await edit("changed too late"));
    await world.until(async () => (await events(world, vendor.id)).length === 5);
    expect((await events(world, vendor.id))[0]).toMatchObject({
      outcome: "skipped",
      reason: "an edit of an earlier message: the turn of that message has begun, so it keeps its text",
      bodyBytes: null,
    });
    expect(provider.requests).toHaveLength(3);
    return undefined;
  });
}

for (const vendor of VENDORS.filter(({ id }) => id === "slack" || id === "mattermost")) {
  it(`${vendor.id}: a thread goes on without a mention once the agent has answered in it, after a restart too`, async () => {
    const dir = mkdtempSync(join(tmpdir(), "rouse-thread-"));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    let opened = await openWorld(vendor, {}, { dir });
    const { far } = opened;
    const { inThread, before } = far.sends;
    if (!inThread || !before || !far.writes.thread) throw new Error("the channel follows no threads");
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
    if (vendor.id === "slack") await skipped(inThread, "canary-before-the-call");
    // What was written in the thread comes along with the first call into it, as outside text.
    if (vendor.id === "slack") before("the server room is too warm");
    await ask(opened, far.writes.thread("what do you say?"));
    if (vendor.id === "slack")
      expect(lastText(opened.provider)).toMatch(/What was written in this thread before:\nU0VERA0001: the server room is too warm/);
    expect(await ask(opened, inThread("and now?"))).toBe("I was given: text alone");
    expect(lastText(opened.provider)).toContain("and now?");
    // What the model has seen already does not come again.
    expect(lastText(opened.provider)).not.toContain("too warm");
    await skipped(far.writes.chatter, "canary-outside-the-thread");

    await opened.world.stop();
    opened = await openWorld(vendor, {}, { dir, again: far });
    await ask(opened, inThread("after the restart"));
    expect(lastText(opened.provider)).toContain("after the restart");

    await opened.world.stop();
    opened = await openWorld(vendor, { threads: { follow: false } }, { dir, again: far });
    await skipped(inThread, "canary-not-followed");
  });
}

it("mattermost: what others wrote in a thread comes along when the agent is called into it, and nothing else of the channel", async () => {
  const vendor = VENDORS.find(({ id }) => id === "mattermost");
  if (!vendor) throw new Error("mattermost is not there");
  const opened = await openWorld(vendor);
  const { far, provider, world } = opened;
  await pass(world, await far.writes.chatter("unrelated words"));
  far.sends.before?.("the pump is loud");
  await ask(opened, far.writes.thread?.("what now?") ?? Promise.resolve(undefined));
  expect(lastText(provider)).toMatch(/<<<EXTERNAL_CONTENT \w+>>>[^]*What was written in this thread before:\nother: the pump is loud/);
  expect(lastText(provider)).not.toContain("unrelated words");
});
