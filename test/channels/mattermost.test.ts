import { Client4, WebSocketClient } from "@mattermost/client";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { createListener } from "../../plugins/mattermost/receive.ts";
import { createChannel } from "../../plugins/mattermost/send.ts";
import type { Channel, SendResult } from "../../src/plugin/api.ts";
import {
  DIRECT,
  ME,
  ROSA,
  startMattermost,
  TOKEN,
  TOWN,
  type MattermostServer,
} from "./mattermost-server.ts";
import { listening, testHost } from "./gateway.ts";
import { openChannel } from "./open.ts";

const open = (url: string, section: Record<string, unknown> = {}) =>
  openChannel("mattermost", { token: TOKEN, url, ...section });

async function world(
  section: Record<string, unknown> = {},
): Promise<{ server: MattermostServer; channel: Channel; logged: string[] }> {
  const server = await startMattermost();
  onTestFinished(() => server.close());
  return { server, ...(await open(server.url, section)) };
}

let count = 0;
const send = (
  channel: Channel,
  text: string,
  more: { to?: string; thread?: string; idempotencyKey?: string } = {},
): Promise<SendResult> =>
  channel.send(
    { to: TOWN, text, idempotencyKey: `dlv_${count++}.0`, ...more },
    AbortSignal.timeout(20_000),
  );

const until = (check: () => void): Promise<void> => vi.waitFor(check, { interval: 10 });

describe("recipients", () => {
  it("takes the address of a server with a path and a slash", async () => {
    const { server } = await world();
    const { channel } = await open(`${server.url}/`);
    expect(await send(channel, "hello")).toMatchObject({ status: "sent" });
  });
});

describe("sending to Mattermost", () => {
  it("finds a member by name or id, and the conversation once", async () => {
    const { server, channel } = await world();
    expect(await send(channel, "one", { to: "@rosa" })).toMatchObject({ status: "sent" });
    expect(await send(channel, "two", { to: `user:${ROSA}` })).toMatchObject({ status: "sent" });
    expect(server.posts.map((post) => [post.channel_id, post.message])).toEqual([
      [DIRECT, "one"],
      [DIRECT, "two"],
    ]);
    expect(server.calls).toEqual([
      "GET users/username/rosa",
      "GET users/me",
      "POST channels/direct",
      "POST posts",
      "POST posts",
    ]);
    expect(await send(channel, "x", { to: "@nobody" })).toEqual({
      status: "failed",
      reason: "mattermost answered 404 (app.user.missing_account.const)",
    });
  });

  it("answers in a thread, and tells of one that is not there", async () => {
    const { server, channel } = await world();
    const root = server.write({ message: "question" });
    expect(await send(channel, "answer", { thread: root.id })).toEqual({
      status: "sent",
      messageIds: [server.posts[0]?.id],
    });
    expect(server.posts[0]).toMatchObject({ root_id: root.id, message: "answer" });
    expect(await send(channel, "answer", { thread: "gone" })).toMatchObject({ status: "failed" });
  });

  it("finds out whether a post was made where the connection was cut, and makes it once", async () => {
    const { server, channel } = await world();
    server.fail("cut-after-taking", 1);
    expect(await send(channel, "taken")).toMatchObject({ status: "sent" });
    server.fail("cut-connection", 1);
    expect(await send(channel, "not taken")).toMatchObject({ status: "sent" });
    server.fail("in-flight", 1);
    expect(await send(channel, "at work")).toMatchObject({ status: "sent" });
    expect(server.posts.map(({ message }) => message)).toEqual(["taken", "not taken", "at work"]);
  });

  it("finds out whether a post was made where the server did not answer", async () => {
    const { server } = await world();
    const hasty = createChannel({ config: { url: server.url, token: TOKEN }, fetch }, 100);
    server.fail("hang-after-taking", 1);
    expect(await send(hasty, "taken")).toMatchObject({ status: "sent" });
    expect(server.posts).toHaveLength(1);
  });

  it("does not know what it cannot find out, and says so", async () => {
    const { server, channel } = await world();
    const posts = (): number => server.calls.filter((call) => call === "POST posts").length;
    server.fail("cut-after-taking");
    expect(await send(channel, "text")).toMatchObject({ status: "unknown" });
    expect([posts(), server.posts.length]).toEqual([3, 1]);
    server.fail("cut-after-taking", 1);
    const sending = send(channel, "text");
    await until(() => expect(posts()).toBe(4));
    // The answer to the repeated post says nothing about the first attempt.
    server.fail("unavailable");
    expect(await sending).toMatchObject({ status: "unknown" });
  });

  it("makes a post once where the same piece is sent again", async () => {
    const { server, channel } = await world();
    const first = await send(channel, "text", { idempotencyKey: "dlv_same.0" });
    expect(await send(channel, "text", { idempotencyKey: "dlv_same.0" })).toEqual(first);
    expect(await send(channel, "text", { idempotencyKey: "dlv_same.1" })).not.toEqual(first);
    expect(server.posts).toHaveLength(2);
  });

  it("fills a message to the last character, as the server counts", async () => {
    const { server, channel } = await world();
    expect(channel.lengthOf?.("👍".repeat(16_383))).toBe(16_383);
    expect(await send(channel, "👍".repeat(16_383))).toMatchObject({ status: "sent" });
    expect(await send(channel, "👍".repeat(16_384))).toMatchObject({ status: "failed" });
    expect(server.posts).toHaveLength(1);
  });
});

describe("receiving from Mattermost", () => {
  const texts = (gateway: ReturnType<typeof testHost>): string[] =>
    gateway.received.map(({ text }) => text);

  it("connects again after a cut and says so, and loses and doubles nothing", async () => {
    const { server, channel } = await world();
    const gateway = testHost();
    listening(channel, gateway);
    await until(() => expect(server.sockets()).toBe(1));
    server.write({ message: "before", channel_id: DIRECT });
    await until(() => expect(texts(gateway)).toEqual(["before"]));
    server.websocket("closed");
    server.dropSockets();
    await until(() => expect(gateway.states.at(-1)?.ok).toBe(false));
    server.write({ message: "@rouse.bot while away" });
    server.write({ message: "and this", channel_id: DIRECT });
    server.websocket("open");
    await until(() => expect(texts(gateway)).toEqual(["before", "while away", "and this"]));
    expect(gateway.states.at(-1)).toEqual({ ok: true, message: "connected" });
  });

  it("takes no old post that was changed, and none of the same time twice or not at all", async () => {
    const { server, channel } = await world();
    const gateway = testHost();
    const first = listening(channel, gateway);
    await until(() => expect(gateway.states).toHaveLength(1));
    const old = server.write({ message: "chatter", channel_id: TOWN });
    const one = server.write({ message: "one", channel_id: DIRECT });
    await until(() => expect(texts(gateway)).toEqual(["one"]));
    await first.stop();
    Object.assign(old, { message: "@rouse.bot look", update_at: one.create_at + 1_000 });
    server.write({
      message: "two",
      channel_id: DIRECT,
      create_at: one.create_at,
      update_at: one.create_at,
    });
    server.write({ message: "taken back", channel_id: DIRECT, delete_at: 1 });
    server.write({ message: "@rouse.bot three" });
    listening(channel, gateway);
    await until(() => expect(texts(gateway)).toEqual(["one", "two", "three"]));
  });

  it("takes a name in code for no mention, as the server does", async () => {
    const { server, channel } = await world();
    const gateway = testHost();
    listening(channel, gateway);
    await until(() => expect(gateway.states).toHaveLength(1));
    server.write({ message: "write `@rouse.bot` and a question" });
    server.write({ message: "```\n@rouse.bot help\n```" });
    server.write({ message: "@rouse.bot what does `@rouse.bot` do?" });
    await until(() => expect(texts(gateway)).toEqual(["what does `@rouse.bot` do?"]));
    expect(gateway.skipped).toHaveLength(2);
  });

  it("notices a server that says nothing any more", async () => {
    const { server } = await world();
    const channel: Channel = {
      send: async () => ({ status: "sent" }),
      ...createListener(
        { config: { url: server.url, token: TOKEN }, fetch },
        { pingMs: 100, helloMs: 200 },
      ),
    };
    const gateway = testHost();
    listening(channel, gateway);
    await until(() => expect(gateway.states).toHaveLength(1));
    await new Promise((resolve) => setTimeout(resolve, 400));
    expect(gateway.states).toHaveLength(1);
    server.websocket("mute");
    await until(() =>
      expect(gateway.states.slice(1, 3).map(({ message }) => message)).toEqual([
        "connections do not last; trying again",
        "mattermost did not greet",
      ]),
    );
  });

  it("tells of a websocket that takes no token", async () => {
    const { server, channel } = await world();
    server.websocket("refusing");
    const gateway = testHost();
    listening(channel, gateway);
    await until(() =>
      expect(gateway.states).toEqual([{ ok: false, message: "mattermost refused the token" }]),
    );
  });
});

describe("the test server", () => {
  it("is one to the vendor's own client", async () => {
    const { server } = await world();
    const client = new Client4();
    client.setUrl(server.url);
    client.setToken(TOKEN);
    const me = await client.getMe();
    expect(me).toMatchObject({ id: ME, username: "rouse.bot" });
    const rosa = await client.getUserByUsername("rosa");
    expect(await client.createDirectChannel([me.id, rosa.id])).toMatchObject({ id: DIRECT });
    const post = { channel_id: TOWN, message: "hi", pending_post_id: "same" };
    const made = await client.createPost(post);
    expect(await client.createPost(post)).toMatchObject({ id: made.id, message: "hi" });
    expect(server.posts).toHaveLength(1);
    expect((await client.getPostsSince(TOWN, made.create_at - 1)).order).toEqual([made.id]);
    expect(await client.patchPost({ id: made.id, message: "changed" })).toMatchObject({
      id: made.id,
      message: "changed",
    });
    expect(await client.deletePost(made.id)).toEqual({ status: "OK" });
    await expect(client.deletePost(made.id)).rejects.toMatchObject({ status_code: 404 });
    await expect(client.createPost({ channel_id: "nowhere", message: "hi" })).rejects.toMatchObject(
      {
        status_code: 403,
        server_error_id: "api.context.permissions.app_error",
      },
    );
    await expect(
      client.createPost({ channel_id: TOWN, message: "x".repeat(16_384) }),
    ).rejects.toMatchObject({ status_code: 400 });
  });

  it("tells the vendor's own client of posts through the websocket", async () => {
    const { server } = await world();
    vi.spyOn(console, "log").mockReturnValue();
    const socket = new WebSocketClient();
    const heard: unknown[] = [];
    socket.addMessageListener((message) => void heard.push(message));
    socket.initialize(`${server.url.replace("http", "ws")}/api/v4/websocket`, TOKEN);
    await until(() => expect(server.sockets()).toBe(1));
    server.write({ message: "hello", channel_id: DIRECT });
    await until(() =>
      expect(heard).toMatchObject([
        { event: "hello" },
        { event: "posted", data: { channel_type: "D" } },
      ]),
    );
    socket.close();
    await until(() => expect(server.sockets()).toBe(0));
    vi.restoreAllMocks();
  });
});
