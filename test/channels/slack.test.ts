import { createEmulator } from "emulate";
import { WebClient } from "@slack/web-api";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { createSocket } from "../../plugins/slack/receive.ts";
import { createChannel } from "../../plugins/slack/send.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Channel, SendResult } from "../../src/plugin/api.ts";
import { listening, testHost, said } from "./gateway.ts";
import { openChannel } from "./open.ts";
import {
  APP_TOKEN,
  BOT_TOKEN,
  BOT_USER,
  RETRY_AFTER_S,
  startSlack,
  type SlackFault,
  type SlackServer,
} from "./slack-server.ts";

const open = (apiUrl: string, section: Record<string, unknown> = {}) =>
  openChannel("slack", { botToken: BOT_TOKEN, apiUrl, ...section });

async function world(
  section: Record<string, unknown> = {},
): Promise<{ server: SlackServer; channel: Channel; logged: string[] }> {
  const server = await startSlack();
  onTestFinished(() => server.close());
  return { server, ...(await open(server.url, section)) };
}

const send = (
  channel: Channel,
  text: string,
  more: { to?: string; thread?: string; idempotencyKey?: string } = {},
): Promise<SendResult> =>
  channel.send(
    { to: "C0123ABC", text, idempotencyKey: "dlv_1.0", ...more },
    AbortSignal.timeout(5_000),
  );

/** A channel with Socket Mode that waits for less long than the default. */
function openSocket(
  { url: apiUrl }: SlackServer,
  waits: NonNullable<Parameters<typeof createSocket>[3]>,
): Channel {
  const config = { botToken: BOT_TOKEN, apiUrl };
  const context = { config, fetch, clock: systemClock, log: console };
  return {
    send: createChannel(context).send,
    ...createSocket(context, APP_TOKEN, undefined, waits),
  };
}

const until = (check: () => void): Promise<void> => vi.waitFor(check, { interval: 10 });

describe("recipients", () => {
  it("says what to write instead of a name", async () => {
    const { channel } = await world();
    expect(channel.parseRecipient?.("@rosa")).toMatchObject({
      ok: false,
      message: expect.stringContaining("member ID") as unknown,
    });
  });
});

describe("sending to Slack", () => {
  it("opens a conversation with a member, and answers in a thread", async () => {
    const { server, channel } = await world();
    const result = await send(channel, "hello", { to: "user:U0ROSA", thread: "1700000000.000001" });
    expect(result).toEqual({ status: "sent", messageIds: ["D0U0ROSA:1700000000.000001"] });
    await send(channel, "more", { to: "user:U0ROSA" });
    expect(server.calls).toEqual(["conversations.open", "chat.postMessage", "chat.postMessage"]);
    expect(server.posts).toMatchObject([
      { channel: "D0U0ROSA", thread_ts: "1700000000.000001", kind: "markdown_text" },
      { channel: "D0U0ROSA" },
    ]);
  });

  it("has no address looked up for a preview", async () => {
    const { server, channel } = await world();
    await send(channel, "https://evil.example/?q=secret");
    expect(server.posts[0]?.fields).toMatchObject({ unfurl_links: "false", unfurl_media: "false" });
  });

  it("falls back to mrkdwn where markdown_text is not known, and where escaping makes it too long", async () => {
    const { server, channel } = await world();
    const growing = "<".repeat(9_000);
    expect(await send(channel, growing)).toMatchObject({ status: "sent" });
    expect(server.posts).toMatchObject([
      { kind: "text", text: expect.stringMatching(/^\u2060?(?:&lt;){9000}$/) as unknown },
    ]);
    server.withoutMarkdown();
    expect(await send(channel, "**bold**")).toMatchObject({ status: "sent" });
    expect(server.posts[1]).toMatchObject({ kind: "text", text: "*bold*" });
    // Nothing is cut: what would be is not sent.
    expect(await send(channel, "<".repeat(11_999))).toEqual({
      status: "failed",
      reason: "the text is too long for slack",
    });
    expect(server.posts).toHaveLength(2);
  });

  it.each([
    [{ error: "not_in_channel" }, { status: "failed", reason: "slack answered not_in_channel" }],
    [{ error: "msg_too_long" }, { status: "failed", reason: "slack answered msg_too_long" }],
    [
      { error: "account_inactive" },
      { status: "failed", reason: "slack answered account_inactive" },
    ],
    [
      { error: "ratelimited" },
      { status: "retry", reason: "slack answered ratelimited", afterMs: 1000 },
    ],
    [{ error: "internal_error" }, { status: "unknown", reason: "slack answered internal_error" }],
    [
      { error: "<p>body-mark-7f3a</p>" },
      { status: "unknown", reason: "slack answered what is not its format" },
    ],
    [
      "rate-limited",
      { status: "retry", reason: "slack answered 429", afterMs: RETRY_AFTER_S * 1000 },
    ],
    ["rate-limited-bare", { status: "retry", reason: "slack answered 429", afterMs: 1000 }],
    ["unavailable", { status: "retry", reason: "slack answered 503" }],
    [
      "cut-after-taking",
      {
        status: "unknown",
        reason: expect.stringContaining("ended before slack answered") as unknown,
      },
    ],
  ] as [SlackFault, object][])("sorts %o", async (fault, expected) => {
    const { server, channel } = await world();
    server.fail(fault);
    expect(await send(channel, "text")).toEqual(expected);
    expect(server.calls.filter((call) => call === "chat.postMessage")).toHaveLength(1);
  });

  it.each([undefined, "1700000000.000009"])(
    "finds out whether a post was made where the connection was cut (thread: %s)",
    async (thread) => {
      const { server, channel } = await world();
      const more = thread === undefined ? {} : { thread };
      await send(channel, "before", more);
      server.fail("cut-after-taking", 1);
      const result = await send(channel, "taken", { ...more, idempotencyKey: "dlv_2.0" });
      expect(result).toEqual({ status: "sent", messageIds: ["C0123ABC:1700000000.000002"] });
      server.fail("cut-connection", 1);
      const cut = { ...more, idempotencyKey: "dlv_3.0" };
      expect(await send(channel, "not taken", cut)).toMatchObject({ status: "retry" });
      expect(await send(channel, "not taken", cut)).toMatchObject({ status: "sent" });
      expect(server.posts.map(({ text }) => text)).toEqual(["before", "taken", "not taken"]);
    },
  );

  it("looks again before it repeats a post, since it may have come late", async () => {
    const { server, channel } = await world();
    server.fail("cut-connection", 1);
    expect(await send(channel, "late")).toMatchObject({ status: "retry" });
    // The first post arrives late, after the channel had looked for it.
    const late = new WebClient(BOT_TOKEN, { slackApiUrl: server.url });
    const metadata = { event_type: "rouse_reply", event_payload: { key: "dlv_1.0" } };
    await late.apiCall("chat.postMessage", { channel: "C0123ABC", text: "late", metadata });
    expect(await send(channel, "late")).toEqual({
      status: "sent",
      messageIds: ["C0123ABC:1700000000.000001"],
    });
    expect(server.posts).toHaveLength(1);
  });

  it("finds a post before the next try where looking for it was put off", async () => {
    const { server, channel } = await world();
    server.fail("cut-after-taking", 1);
    const first = send(channel, "taken");
    await until(() => expect(server.posts).toHaveLength(1));
    server.fail("rate-limited", 3);
    expect(await first).toMatchObject({
      status: "retry",
      reason: "the connection ended before slack answered (UND_ERR_SOCKET)",
    });
    expect(await send(channel, "taken")).toEqual({
      status: "sent",
      messageIds: ["C0123ABC:1700000000.000001"],
    });
    expect(server.posts).toHaveLength(1);
  });

  it("does not know what became of a cut post where the app may not read the conversation", async () => {
    const { server, channel } = await world();
    server.withoutHistory();
    for (const fault of ["cut-connection", "cut-after-taking"] as const) {
      server.fail(fault, 1);
      expect(await send(channel, "text")).toMatchObject({ status: "unknown" });
    }
  });

  it("knows that nothing was sent where only the conversation was asked for", async () => {
    const { server, channel } = await world();
    server.fail("cut-connection", 1);
    expect(await send(channel, "text", { to: "user:U0ROSA" })).toMatchObject({ status: "retry" });
  });
});

describe("Socket Mode", () => {
  const dm = (text: string, ts = "1700000001.000001") => ({
    type: "message",
    channel_type: "im",
    channel: "D0ROSA",
    user: "U0ROSA",
    text,
    ts,
  });

  it("takes a message, and acknowledges it once it is stored", async () => {
    const { server, channel } = await world({ appToken: APP_TOKEN });
    const gateway = testHost();
    listening(channel, gateway);
    await until(() => expect(gateway.states).toEqual([{ ok: true, message: "connected" }]));
    gateway.refuse(1);
    server.emit(dm("hello"));
    await until(() => expect(gateway.states.at(-1)?.ok).toBe(false));
    expect(server.acknowledged).toBe(0);
    expect(JSON.stringify(gateway.states)).not.toContain("hello");
    server.redeliver();
    await until(() => expect(server.acknowledged).toBe(1));
    expect(gateway.received).toEqual([
      {
        id: "D0ROSA:1700000001.000001",
        from: "U0ROSA",
        to: "D0ROSA",
        direct: true,
        ...said("hello"),
      },
    ]);
    expect(gateway.states.at(-1)).toEqual({ ok: true, message: "connected" });
  });

  it("acknowledges what is not for the agent, and hands nothing of it on", async () => {
    const { server, channel } = await world({ appToken: APP_TOKEN });
    const gateway = testHost();
    listening(channel, gateway);
    await until(() => expect(server.sockets()).toBe(1));
    server.emit({ type: "reaction_added", user: "U0ROSA" });
    server.emit({ ...dm("from a bot"), bot_id: "B1" });
    server.emit({ ...dm("my own"), user: BOT_USER });
    server.emit({ ...dm("edited"), subtype: "message_changed" });
    server.emit({ ...dm("chatter"), channel_type: "channel", channel: "C0TOWN" });
    await until(() => expect(server.acknowledged).toBe(5));
    expect(gateway.received).toEqual([]);
  });

  it("frames: what happens when they lack what they should hold", async () => {
    const { server, channel } = await world({ appToken: APP_TOKEN });
    const gateway = testHost();
    listening(channel, gateway);
    await until(() => expect(gateway.states).toHaveLength(1));
    for (const payload of [undefined, {}, { type: "app_rate_limited", minute_rate_limited: 1 }])
      server.say(JSON.stringify({ type: "events_api", envelope_id: "e", payload }));
    for (const frame of ["null", "{"]) server.say(frame);
    server.emit(dm("hello"));
    await until(() => expect(gateway.received.map(({ text }) => text)).toEqual(["hello"]));
    expect(gateway.states).toEqual([{ ok: true, message: "connected" }]);
  });

  it("keeps the order of messages", async () => {
    const { server, channel } = await world({ appToken: APP_TOKEN });
    const gateway = testHost();
    const slow = {
      ...gateway,
      receive: async (message: Parameters<typeof gateway.receive>[0]) => {
        await new Promise((resolve) =>
          setTimeout(resolve, "text" in message && message.text === "0" ? 50 : 0),
        );
        await gateway.receive(message);
      },
    };
    listening(channel, slow);
    await until(() => expect(server.sockets()).toBe(1));
    for (let index = 0; index < 5; index++)
      server.emit(dm(String(index), `1700000001.00000${index}`));
    await until(() => expect(server.acknowledged).toBe(5));
    expect(gateway.received.map(({ text }) => text)).toEqual(["0", "1", "2", "3", "4"]);
  });

  it("connects again after a cut and says so, and loses nothing meanwhile", async () => {
    const { server, channel } = await world({ appToken: APP_TOKEN });
    const gateway = testHost();
    listening(channel, gateway);
    await until(() => expect(server.sockets()).toBe(1));
    server.dropSockets("cut");
    await until(() => expect(gateway.states.some(({ ok }) => !ok)).toBe(true));
    server.emit(dm("while away"));
    await until(() => expect(gateway.received.map(({ text }) => text)).toEqual(["while away"]));
    expect(gateway.states.at(-1)).toEqual({ ok: true, message: "connected" });
  });

  it("connects again immediately when the vendor asks for it after a good while", async () => {
    const { server } = await world();
    const channel = openSocket(server, { stableMs: 50 });
    const gateway = testHost();
    listening(channel, gateway);
    await until(() => expect(gateway.states).toHaveLength(1));
    await new Promise((resolve) => setTimeout(resolve, 100));
    server.dropSockets("refresh");
    await until(() => expect(gateway.states).toHaveLength(2));
    expect(gateway.states.map(({ ok }) => ok)).toEqual([true, true]);
    expect(server.linked).toBe(2);
  });

  it("notices a connection without a greeting, and waits as long as the vendor says", async () => {
    const { server } = await world();
    const channel = openSocket(server, { helloMs: 200 });
    server.mute();
    const gateway = testHost();
    const { stop } = listening(channel, gateway);
    await until(() =>
      expect(gateway.states).toEqual([{ ok: false, message: "the socket cannot be opened" }]),
    );
    await stop();
    server.calls.length = 0;
    server.fail("rate-limited");
    listening(channel, gateway);
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect(server.calls).toEqual(["apps.connections.open"]);
    expect(gateway.states.at(-1)).toEqual({ ok: false, message: "slack answered 429" });
  });

  it("stops although the vendor no longer answers", async () => {
    const { server, channel } = await world({ appToken: APP_TOKEN });
    const { stop } = listening(channel, testHost());
    await until(() => expect(server.sockets()).toBe(1));
    server.mute();
    await stop();
  });

  it("leaves no connection behind that comes about too late", async () => {
    const { server, channel } = await world({ appToken: APP_TOKEN });
    server.fail("slow");
    const { stop } = listening(channel, testHost());
    await until(() => expect(server.calls).toHaveLength(1));
    await stop();
    const hasty = openSocket(server, { helloMs: 100 });
    const { stop: stopHasty } = listening(hasty, testHost());
    await new Promise((resolve) => setTimeout(resolve, 700));
    await stopHasty();
    expect([server.calls.length, server.linked]).toEqual([2, 0]);
  });
});

describe("an emulator that others wrote", () => {
  it("takes what is sent to a channel, to a member and into a thread", async () => {
    const token = "xoxb-emulate";
    const seed = {
      users: [{ name: "rosa" }],
      channels: [{ name: "ops" }],
      tokens: [{ token, user: "admin" }],
    };
    const emulator = await createEmulator({ service: "slack", port: 0, seed: { slack: seed } });
    onTestFinished(() => emulator.close());
    const client = new WebClient(token, {
      slackApiUrl: `${emulator.url}/api/`,
      retryConfig: { retries: 0 },
    });
    const { members = [] } = await client.users.list({});
    const { channels = [] } = await client.conversations.list({});
    const rosa = members.find(({ name }) => name === "rosa")?.id ?? "";
    const ops = channels.find(({ name }) => name === "ops")?.id ?? "";
    const { channel } = await open(`${emulator.url}/api/`, { botToken: token });
    const [, ts = ""] = await idsOf(send(channel, "**Hello** <!channel> & all", { to: ops }));
    await idsOf(send(channel, "in the thread", { to: ops, thread: ts }));
    const [direct = ""] = await idsOf(send(channel, "to you", { to: `user:${rosa}` }));
    const { messages = [] } = await client.conversations.replies({ channel: ops, ts });
    expect(messages.map(({ text }) => text)).toEqual([
      "*Hello* &lt;!channel&gt; &amp; all",
      "in the thread",
    ]);
    const own = await client.conversations.history({ channel: direct });
    expect(own.messages?.map(({ text }) => text)).toEqual(["to you"]);
    expect(await send(channel, "x", { to: "C0NOWHERE" })).toEqual({
      status: "failed",
      reason: "slack answered channel_not_found",
    });
    expect(await channel.probe?.(AbortSignal.timeout(5_000))).toEqual({ ok: true });
  });

  async function idsOf(sending: Promise<SendResult>): Promise<string[]> {
    const result = await sending;
    expect(result).toMatchObject({ status: "sent" });
    return result.status === "sent" ? (result.messageIds?.[0] ?? "").split(":") : [];
  }
});
