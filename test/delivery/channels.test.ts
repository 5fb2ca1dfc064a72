import { describe, expect, it } from "vitest";
import { createChannels, resolveRoute, type Channels } from "../../src/delivery/channels.ts";
import type { LastRoute, Reads } from "../../src/store/types.ts";
import { fakeChannel } from "./support.ts";

const KNOWN = [
  { id: "alpha", aliases: ["al"] },
  { id: "beta", aliases: ["be", "al"] },
  { id: "gamma" },
];
const upper = (to: string) =>
  /^[a-z]+$/i.test(to)
    ? ({ ok: true, to: to.toUpperCase() } as const)
    : ({ ok: false, message: "must be letters" } as const);

describe("channels", () => {
  const alpha = fakeChannel({ parseRecipient: upper, fallback: true }).channel;
  const channels = createChannels(KNOWN, new Map([["alpha", alpha]]));

  it("are found by id and alias in any case, loaded or only known", () => {
    expect(channels.resolve("alpha")).toEqual({ id: "alpha", loaded: true });
    expect(channels.resolve(" AL ")).toEqual({ id: "alpha", loaded: true });
    expect(channels.resolve("be")).toEqual({ id: "beta", loaded: false });
    expect(channels.resolve("delta")).toBeUndefined();
    expect(channels.resolve("__proto__")).toBeUndefined();
    expect(channels.get("beta")).toBeUndefined();
    expect(channels.get("alpha")?.channel).toBe(alpha);
    expect(channels.names).toEqual(["al", "alpha", "be", "beta", "gamma"]);
    expect(channels.fallback?.id).toBe("alpha");
  });

  it("never take `last` for a channel", () => {
    const named = createChannels([{ id: "last" }, { id: "x", aliases: ["last"] }], new Map());
    expect(named.resolve("last")).toBeUndefined();
    expect(named.names).toEqual(["x"]);
  });

  it("check recipients by the channel, and hold a plugin's mistake", () => {
    expect(channels.checkRecipient("alpha", " bob ")).toEqual({ ok: true, to: "BOB" });
    expect(channels.checkRecipient("alpha", "b0b")).toEqual({
      ok: false,
      message: "must be letters",
    });
    expect(channels.checkRecipient("beta", "anything")).toEqual({ ok: true, to: "anything" });
    expect(channels.checkRecipient("beta", "  ")).toMatchObject({ ok: false });
    const broken = fakeChannel({
      parseRecipient: () => {
        throw new Error("secret");
      },
    }).channel;
    expect(createChannels([], new Map([["broken", broken]])).checkRecipient("broken", "x")).toEqual(
      {
        ok: false,
        message: "the channel could not read it",
      },
    );
  });
});

describe("the route of a reply", () => {
  const store = (...routes: Omit<LastRoute, "agentId" | "at">[]): Reads => {
    const listLastRoutes = async (agentId: string): Promise<LastRoute[]> =>
      routes.map((route) => ({ ...route, agentId, at: 1 }));
    return { sessions: { listLastRoutes } } as Reads;
  };
  const loaded = {
    alpha: fakeChannel({ parseRecipient: upper }).channel,
    beta: fakeChannel({ defaultTo: "room" }).channel,
    gamma: fakeChannel({ fallback: true, defaultTo: "me" }).channel,
  };
  const all = createChannels(KNOWN, new Map(Object.entries(loaded)));
  const only = (...ids: (keyof typeof loaded)[]) =>
    createChannels(KNOWN, new Map(ids.map((id) => [id, loaded[id]])));
  const ask = { agentId: "main", channels: all };
  const route = (channel: string, to: string, thread?: string) => ({
    status: "route",
    route: { channel, to, ...(thread === undefined ? {} : { thread }) },
  });

  it("`last` is the newest route whose channel is still there", async () => {
    const routes = store(
      { channel: "gone", to: "1" },
      { channel: "beta", to: "2", thread: "t" },
      { channel: "alpha", to: "3" },
    );
    expect(await resolveRoute({ ...ask, store: routes, channel: "last" })).toEqual(
      route("beta", "2", "t"),
    );
    expect(await resolveRoute({ ...ask, store: routes, channel: "last", to: "4" })).toEqual(
      route("beta", "4"),
    );
  });

  it("`last` without a route is the fallback, else there is none", async () => {
    expect(await resolveRoute({ ...ask, store: store(), channel: "last" })).toEqual(
      route("gamma", "me"),
    );
    expect(await resolveRoute({ ...ask, store: store(), channel: "last", to: "you" })).toEqual(
      route("gamma", "you"),
    );
    expect(
      await resolveRoute({
        ...ask,
        channels: only("alpha", "beta"),
        store: store(),
        channel: "last",
      }),
    ).toEqual({
      status: "no_route",
      reason: expect.stringContaining("name `channel` and `to`") as unknown,
    });
    const silent = createChannels([], new Map([["x", fakeChannel({ fallback: true }).channel]]));
    expect(
      await resolveRoute({ ...ask, channels: silent, store: store(), channel: "last" }),
    ).toMatchObject({
      status: "no_route",
      reason: expect.stringContaining('"x" has no default recipient') as unknown,
    });
  });

  it("`last` without a route is the only configured channel with a default recipient, whatever is always there", async () => {
    const terminal = fakeChannel({ fallback: true, defaultTo: "terminal" }).channel;
    const beside = (id: keyof typeof loaded) =>
      createChannels(
        KNOWN,
        new Map([
          [id, loaded[id]],
          ["console", terminal],
        ]),
        new Set(["console"]),
      );
    const last = (channels: Channels, to?: string) =>
      resolveRoute({
        ...ask,
        channels,
        store: store(),
        channel: "last",
        ...(to === undefined ? {} : { to }),
      });
    expect(await last(only("beta"))).toEqual(route("beta", "room"));
    expect(await last(beside("beta"))).toEqual(route("beta", "room"));
    expect(await last(beside("alpha"))).toEqual(route("console", "terminal"));
    expect(await last(beside("alpha"), "b0b")).toMatchObject({
      status: "no_route",
      reason: expect.stringContaining("name the `channel`") as unknown,
    });
    expect(
      await last(
        createChannels(KNOWN, new Map([["console", terminal]]), new Set(["console"])),
        "bob",
      ),
    ).toEqual(route("console", "bob"));
  });

  it("`to` without a channel is looked for on the last route's channel, then on the only one, then on the fallback", async () => {
    const last = (channels: Channels, lastOn: string | undefined, to: string) =>
      resolveRoute({
        ...ask,
        channels,
        store: lastOn === undefined ? store() : store({ channel: lastOn, to: "owner" }),
        channel: "last",
        to,
      });
    expect(await last(all, "alpha", "bob")).toEqual(route("alpha", "BOB"));
    expect(await last(all, "alpha", "b0b")).toEqual(route("gamma", "b0b"));
    expect(await last(only("alpha"), undefined, "bob")).toEqual(route("alpha", "BOB"));
    expect(await last(only("alpha", "gamma"), undefined, "bob")).toEqual(route("gamma", "bob"));
    expect(await last(only("alpha", "beta"), undefined, "bob")).toMatchObject({
      status: "no_route",
    });
    expect(await last(all, "alpha", " ")).toMatchObject({
      status: "no_route",
      reason: expect.stringContaining("`to` is empty") as unknown,
    });
  });

  it("a named channel takes `to`, else its last recipient, else its default, else there is none", async () => {
    const routes = store({ channel: "gamma", to: "1" }, { channel: "beta", to: "2", thread: "t" });
    expect(await resolveRoute({ ...ask, store: routes, channel: "be", to: " you " })).toEqual(
      route("beta", "you"),
    );
    expect(await resolveRoute({ ...ask, store: routes, channel: "beta" })).toEqual(
      route("beta", "2", "t"),
    );
    expect(await resolveRoute({ ...ask, store: store(), channel: "beta" })).toEqual(
      route("beta", "room"),
    );
    expect(await resolveRoute({ ...ask, store: routes, channel: "alpha" })).toMatchObject({
      status: "no_route",
      reason: expect.stringContaining("name `to`") as unknown,
    });
    expect(await resolveRoute({ ...ask, store: routes, channel: "al", to: "bob" })).toEqual(
      route("alpha", "BOB"),
    );
    expect(await resolveRoute({ ...ask, store: routes, channel: "alpha", to: "b0b" })).toEqual({
      status: "no_route",
      reason: 'the channel "alpha" cannot send to this recipient: must be letters',
    });
  });

  it("says what is missing where the channel is not configured or not known", async () => {
    expect(
      await resolveRoute({
        ...ask,
        channels: only("beta"),
        store: store({ channel: "alpha", to: "1" }),
        channel: "al",
      }),
    ).toMatchObject({
      status: "no_route",
      reason: expect.stringContaining("`channels.alpha`") as unknown,
    });
    const unknown = await resolveRoute({ ...ask, store: store(), channel: "quoted-from-outside" });
    expect(unknown.status).toBe("no_route");
    expect(JSON.stringify(unknown)).not.toContain("quoted");
  });
});
