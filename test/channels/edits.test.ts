import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createProvider, modelConfig, type Provider } from "../e2e/provider.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { png } from "../platform/images.ts";
import { gate } from "../platform/model.ts";
import { message, PIPE, sayOn, sentOn } from "./pipe.ts";
import { listenOn } from "./wire.ts";

/** The channel of the other tests, with files and threads: their addresses are what it is given. */
const CHANNEL = PIPE.replace(
  "async listen(",
  `async fetchFile({ ref }) { return { status: "found", body: (await fetch(ref)).body }; },
    async listThread({ thread, before }) { return (await fetch(thread + "?before=" + before)).json(); },
    async listen(`,
);

let world: World;
let provider: Provider;
/** The vendor's data: one picture, and one thread. */
let vendor: {
  url: string;
  file: ReturnType<typeof gate>;
  asked: number;
  thread: { id: string; at: number; author: string; text: string }[];
  close(): Promise<void>;
};
beforeEach(async () => {
  provider = await createProvider();
  provider.answer = () => "done";
  const { url, close } = await listenOn((request, response) => {
    const url = new URL(request.url ?? "", "http://localhost");
    const before = vendor.thread.findIndex(({ id }) => id === url.searchParams.get("before"));
    if (url.pathname === "/thread")
      return void response.end(
        JSON.stringify(vendor.thread.slice(0, before < 0 ? undefined : before)),
      );
    vendor.asked++;
    void vendor.file.passed.then(() => response.end(png(8, 8)));
  });
  vendor = { url, file: gate(), asked: 0, thread: [], close };
});
afterEach(async () => {
  vendor.file.open();
  await world.stop();
  await provider.close();
  await vendor.close();
});

const say = (text: string, more: object = {}): Promise<void> => sayOn(world, message(text, more));
const events = async (): Promise<{ outcome: string; reason: string | null }[]> =>
  (await world.admin("/admin/v1/events")).body.events;
const texts = (): string => JSON.stringify(provider.requests.at(-1)?.body.messages.at(-1));
const whenSent = (count: number) => world.until(async () => sentOn(world).length === count);

describe("edits and threads", () => {
  beforeEach(async () => {
    const base = modelConfig(provider) as { models: { providers: { local: object } } };
    const local = { ...base.models.providers.local, images: true };
    world = await createWorld({
      files: { "plugins/pipe.ts": CHANNEL },
      config: {
        ...base,
        models: { ...base.models, providers: { local } },
        channels: { pipe: { allowFrom: ["ann", "bob"] } },
        owner: { pipe: "ann" },
        sessions: { quietTime: "300ms" },
      },
    });
  });

  it("an edit replaces one of the messages that a turn has collected, and leaves the others and their files", async () => {
    const [first, last] = [message("alpha typo"), message("gamma typo")];
    const ref = `${vendor.url}/photo`;
    const photo = { kind: "image" as const, name: "photo.png", mime: "image/png", ref };
    const parts = [{ kind: "file" as const, text: "", attachments: [photo] }];
    await sayOn(world, first);
    await say("beta with a picture", { parts });
    await sayOn(world, last);
    await world.until(async () => vendor.asked === 1);
    await say("gamma fixed", { edits: last.id });
    await say("alpha fixed and longer", { edits: first.id });
    expect((await events()).slice(0, 2)).toMatchObject([
      { outcome: "accepted", reason: expect.stringMatching(/^an edit: /) as unknown },
      { outcome: "accepted", reason: expect.stringMatching(/^an edit: /) as unknown },
    ]);
    vendor.file.open();
    await whenSent(1);
    expect(texts()).toMatch(/alpha fixed and longer.*beta with a picture.*gamma fixed/);
    expect(texts()).toContain("image_url");
    expect(texts()).not.toContain("typo");
    expect(provider.requests).toHaveLength(1);
    expect(sentOn(world)[0]).toMatchObject({ replyTo: last.id });
    const { turns } = (await world.admin("/admin/v1/sessions/show?key=main")).body;
    expect(JSON.stringify(turns)).not.toContain("typo");
  });

  it("an edit of another person's message changes nothing", async () => {
    const said = message("in the lounge", {
      to: "lounge",
      direct: false,
      parts: [
        { kind: "file", text: "", attachments: [{ kind: "image", ref: `${vendor.url}/photo` }] },
      ],
    });
    await sayOn(world, said);
    await world.until(async () => vendor.asked === 1);
    await say("not mine", { from: "bob", to: "lounge", direct: false, edits: said.id });
    expect((await events())[0]).toMatchObject({ outcome: "skipped" });
    vendor.file.open();
    await whenSent(1);
    expect(texts()).toContain("in the lounge");
    expect(texts()).not.toContain("not mine");
  });

  it("an edit replaces a message that waits for a provider that is away", async () => {
    provider.answer = (_, response) => void response.writeHead(503).end();
    const said = message("order ten tons");
    await sayOn(world, said);
    await world.until(
      async () => (await world.admin("/admin/v1/runs")).body.runs[0]?.status === "parked",
    );
    await say("order ten tins", { edits: said.id });
    expect((await events())[0]).toMatchObject({
      outcome: "accepted",
      reason: expect.stringMatching(/^an edit: /) as unknown,
    });
    provider.answer = () => "done";
    await whenSent(1);
    expect(texts()).toContain("order ten tins");
    expect(texts()).not.toContain("tons");
  });

  it("an edit that adds the mention is a message of its own, once", async () => {
    const id = "unseen-1";
    await sayOn(world, { id, skipped: "the message is not addressed to the agent" });
    const edit = { to: "lounge", direct: false, edits: id };
    await say("Rouse, what is for lunch?", edit);
    await whenSent(1);
    expect(texts()).toContain("what is for lunch?");
    expect(sentOn(world)[0]).toMatchObject({ to: "lounge", replyTo: id });
    await say("Rouse, what is for dinner?", edit);
    expect((await events())[0]).toMatchObject({
      outcome: "skipped",
      reason: expect.stringContaining("has begun") as unknown,
    });
    expect(provider.requests).toHaveLength(1);
  });

  it("an edit of a message of a group counts as a message only for as long as the gateway would know that one", async () => {
    const edit = { to: "lounge", direct: false };
    const [recent, old] = [Date.now() - 3_600_000, Date.now() - 90_000_000];
    await say("Rouse, old?", { ...edit, edits: "unseen-2", writtenAt: old });
    expect((await events())[0]).toMatchObject({
      outcome: "skipped",
      reason: "an edit of an earlier message that is not known",
    });
    await say("Rouse, recent?", { ...edit, edits: "unseen-3", writtenAt: recent });
    await whenSent(1);
    expect(texts()).toContain("recent?");
    expect(provider.requests).toHaveLength(1);
  });

  it("an edit of a direct message that is not known is no message", async () => {
    await say("from long ago", { edits: "msg-of-last-year" });
    expect((await events())[0]).toMatchObject({
      outcome: "skipped",
      reason: "an edit of an earlier message that is not known",
    });
  });

  it("what others write in a thread while a turn runs reaches the next turn, and no message comes twice", async () => {
    const reply = gate();
    provider.answer = async (request) => {
      if (!JSON.stringify(request.body.messages).includes("second question")) await reply.passed;
      return "my own answer";
    };
    const place = { to: "lounge", direct: false, thread: `${vendor.url}/thread` };
    const write = (id: string, text: string, author = "carol") =>
      vendor.thread.push({ id, at: Date.now() - 3_600_000, author, text });
    write("t1", "before the call");
    write("t2", "first question", "ann");
    await say("first question", { ...place, id: "t2" });
    await world.until(async () => provider.requests.length === 1);
    expect(texts()).toContain("before the call");
    write("t3", "the pump is loud");
    reply.open();
    await whenSent(1);
    // The channel of the tests gives this id to all that it sends.
    write("m1", "my own answer", "rouse");
    write("t4", "second question", "ann");
    await say("second question", { ...place, id: "t4" });
    await whenSent(2);
    expect(texts()).toMatch(/written in this thread before\\"\\n---\\ncarol: the pump is loud/);
    expect(texts()).not.toContain("before the call");
    expect(texts()).not.toContain("my own answer");
  });

  it("`/new` in a thread that the agent follows begins a new conversation, and the thread is followed on", async () => {
    const place = { to: "lounge", direct: false, thread: "t" };
    await say("first question", place);
    await whenSent(1);
    await say("/new", place);
    await whenSent(2);
    await say("and now?", { ...place, addressed: false });
    await whenSent(3);
    expect(texts()).toContain("and now?");
    expect(JSON.stringify(provider.requests.at(-1)?.body.messages)).not.toContain("first question");
  });
});
