import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { message, sayOn, sentOn } from "../channels/pipe.ts";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";
import { codeIn, sentTo, useLinking } from "./linking-world.ts";

type ChatRequest = Parameters<ReturnType<typeof useLinking>["provider"]["text"]>[0];

describe("linked channels", () => {
  const linking = useLinking();
  const { start, ask, link } = linking;
  /** The newest request to the model, as text. */
  const newest = (): string =>
    linking.provider.text(linking.provider.requests.at(-1) as ChatRequest);
  const sessionKeys = async (world: Awaited<ReturnType<typeof start>>): Promise<string[]> =>
    (await world.admin("/admin/v1/sessions")).body.sessions.map(
      ({ agentId, key }: Record<string, string>) => `${agentId} ${key}`,
    );

  it("direct messages of a person join one conversation from the link on, and answers go where the message came from", async () => {
    const world = await start({ people: [{ id: "bob", pipe: "bob", tube: "bob" }] });
    await ask(world, "bob", "pipe", "alpha");
    await ask(world, "bob", "tube", "beta");
    // The entry of the config alone links nothing.
    expect(newest()).not.toContain("alpha");
    await link(world);
    expect(sentTo(world, "bob", "tube").at(-1)).toMatch(
      /^Linked with pipe\..*`\/unlink` ends this/,
    );
    await world.until(async () =>
      sentTo(world, "bob", "pipe").at(-1)?.startsWith("Linked with tube."),
    );
    await ask(world, "bob", "pipe", "gamma");
    // Messages from before the link stay in their own conversations.
    expect(newest()).not.toMatch(/alpha|beta/);
    await ask(world, "bob", "tube", "delta");
    expect(newest()).toMatch(/gamma[^]*delta/);
    expect(sentOn(world).at(-1)).toMatchObject({ name: "tube", to: "dm-bob", text: "fine" });
    expect(newest()).toMatch(/Message on tube from bob \(the person bob-\w{8}\), to you alone/);
    for (const [from, channel] of [
      ["cid", "pipe"],
      ["ann", "tube"],
    ] as const) {
      await ask(world, from, channel, "hello");
      expect(newest()).not.toMatch(/gamma|delta/);
    }
    const room = { to: "lounge", direct: false };
    await sayOn(world, message("in a room", { from: "bob", ...room }), "pipe");
    await world.until(async () => sentOn(world).some(({ to }) => to === "lounge"));
    expect(newest()).not.toMatch(/gamma|delta/);
    const keys = await sessionKeys(world);
    expect(keys.filter((key) => /^main channel:person:bob-\w{8}$/.test(key))).toHaveLength(1);
    expect(keys).toEqual(
      expect.arrayContaining(["main channel:pipe:direct:bob", "main channel:tube:direct:bob"]),
    );
    const { events } = (await world.admin("/admin/v1/events?path=channels/tube")).body;
    expect(events.map(({ reason }: { reason: string | null }) => reason)).toContain(
      "the command /link",
    );
    await expectHistory(world, keys.find((key) => key.includes("person")) ?? "");
  });

  async function expectHistory(
    world: Awaited<ReturnType<typeof start>>,
    key: string,
  ): Promise<void> {
    const { turns } = (await world.admin(`/admin/v1/sessions/show?key=${key.replace("main ", "")}`))
      .body;
    expect(turns).toHaveLength(2);
  }

  it("/new, /stop, /status and /agent on one channel are for the conversation of all", async () => {
    const bindings = ["pipe", "tube"].map((channel) => ({
      channel,
      agent: "main",
      choices: ["desk"],
    }));
    const world = await start({ bindings });
    await link(world);
    await ask(world, "bob", "pipe", "alpha");
    await ask(world, "bob", "tube", "/new");
    await ask(world, "bob", "pipe", "beta");
    expect(newest()).not.toContain("alpha");
    expect(await ask(world, "bob", "tube", "/status")).toMatch(
      /Session: `channel:person:person-\w{8}`/,
    );
    await ask(world, "bob", "tube", "/agent desk");
    await ask(world, "bob", "pipe", "gamma");
    expect((await sessionKeys(world))[0]).toMatch(/^desk channel:person:/);
    expect(await ask(world, "cid", "pipe", "/agent")).toContain("conversation is main");
    // A turn that was begun by a message on the other channel.
    const { promise, resolve } = Promise.withResolvers<string>();
    linking.provider.answer = () => promise;
    const asked = linking.provider.requests.length;
    await sayOn(world, message("slow", { from: "bob", to: "dm-bob" }), "pipe");
    await world.until(async () => linking.provider.requests.length > asked);
    expect(await ask(world, "bob", "tube", "/stop")).toBe("Stopped.");
    resolve("too late");
  });

  it("turns of the person's channels follow each other in the order of the messages", async () => {
    const world = await start();
    await link(world);
    for (let at = 1; at <= 6; at++)
      await sayOn(
        world,
        message(`word-${at}`, { from: "bob", to: "dm-bob" }),
        at % 2 === 0 ? "pipe" : "tube",
      );
    await world.until(async () => linking.provider.requests.length === 6);
    for (const [index, request] of linking.provider.requests.entries()) {
      const words = linking.provider.text(request).match(/word-\d/g);
      expect(words).toEqual(Array.from({ length: index + 1 }, (_, at) => `word-${at + 1}`));
    }
  });

  it("a third channel joins, and `/unlink` takes one out; the last one alone is linked no longer", async () => {
    const world = await start();
    await link(world);
    const third = codeIn(await ask(world, "bob", "tube", "/link"));
    expect(await ask(world, "bob2", "pipe", `/link ${third}`)).toContain("Linked with tube");
    await ask(world, "bob", "pipe", "alpha");
    await ask(world, "bob2", "pipe", "beta");
    expect(newest()).toMatch(/alpha[^]*beta/);
    expect(await ask(world, "bob", "tube", "/unlink")).toMatch(/^Unlinked\./);
    await ask(world, "bob", "tube", "gamma");
    expect(newest()).not.toMatch(/alpha|beta/);
    await ask(world, "bob", "pipe", "delta");
    expect(newest()).toMatch(/alpha[^]*delta/);
    expect(newest()).not.toContain("gamma");
    await ask(world, "bob", "pipe", "/unlink");
    await ask(world, "bob2", "pipe", "epsilon");
    expect(newest()).not.toMatch(/alpha|delta/);
    expect(await ask(world, "bob2", "pipe", "/unlink")).toBe("This channel is not linked.");
    // A new link begins a new conversation, also for the same person.
    await link(world);
    await ask(world, "bob", "pipe", "zeta");
    expect(newest()).not.toMatch(/alpha|delta/);
  });

  it("links and codes survive a restart, and the config's entry that has gone", async () => {
    const world = await start({ people: [{ id: "bob", pipe: "bob", tube: "bob" }] });
    const code = codeIn(await ask(world, "bob", "pipe", "/link"));
    await world.gateway.stop();
    const again = await start({}, world.dir);
    expect(await ask(again, "bob", "tube", `/link ${code}`)).toContain("Linked with pipe");
    await ask(again, "bob", "pipe", "alpha");
    await again.gateway.stop();
    const third = await start({}, world.dir);
    await ask(third, "bob", "tube", "beta");
    expect(newest()).toMatch(/alpha[^]*beta/);
  });
});

describePostgres("linked channels on PostgreSQL", () => {
  let schema: Schema;
  beforeEach(() => void (schema = newSchema()));
  const linking = useLinking(() => ({ store: { url: schema.url } }));
  afterEach(async () => {
    await linking.stopAll();
    await schema.drop();
  });

  it("a link counts immediately at another gateway, and so does its end", async () => {
    const one = await linking.start();
    const two = await linking.start();
    const text = (): string =>
      linking.provider.text(linking.provider.requests.at(-1) as ChatRequest);
    // Both have read the list.
    await linking.ask(two, "bob", "tube", "before");
    const code = codeIn(await linking.ask(one, "bob", "pipe", "/link"));
    await linking.ask(two, "bob", "tube", `/link ${code}`);
    await linking.ask(one, "bob", "pipe", "alpha");
    await linking.ask(two, "bob", "tube", "beta");
    expect(text()).toMatch(/alpha[^]*beta/);
    expect((await one.admin("/admin/v1/people/tube:bob", { method: "DELETE" })).status).toBe(200);
    await linking.ask(two, "bob", "tube", "gamma");
    expect(text()).not.toMatch(/alpha|beta[^]*gamma/);
  });
});
