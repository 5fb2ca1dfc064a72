import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { GatewayMessage } from "../../plugins/discord/content.ts";
import type { Channel, SendResult } from "../../src/plugin/api.ts";
import { openChannel } from "./open.ts";
import { CHANNEL, DIRECT, startDiscord, USER, type DiscordServer } from "./discord-server.ts";
import { listening, testHost, type TestHost } from "./gateway.ts";

const open = async (server: DiscordServer, settings: object = {}): Promise<Channel> =>
  (await openChannel("discord", { token: server.token, apiUrl: `${server.url}/`, ...settings }))
    .channel;

const signal = (ms = 5_000): AbortSignal => AbortSignal.timeout(ms);

describe("discord", () => {
  let server: DiscordServer;
  beforeEach(async () => {
    server = await startDiscord();
  });
  afterEach(() => server.close());

  describe("its dialect", () => {
    it("measures what Discord counts, and sends the agent's text where marks made it too long", async () => {
      const channel = await open(server);
      expect(channel.lengthOf?.("a _b")).toBe(5);
      const text = "a|".repeat(1000);
      expect(channel.lengthOf?.(text)).toBe(3000);
      expect(
        await channel.send({ to: CHANNEL, text, idempotencyKey: "k" }, signal()),
      ).toMatchObject({ status: "sent" });
      expect(server.messages[0]?.content).toBe(text);
    });
  });

  describe("sending", () => {
    const send = async (to: string, more: object = {}, text = "hi"): Promise<SendResult> =>
      (await open(server)).send({ to, text, idempotencyKey: "k", ...more }, signal());

    it("opens direct messages, once", async () => {
      const channel = await open(server);
      for (const idempotencyKey of ["a", "b"])
        expect(
          await channel.send({ to: `user:${USER}`, text: "hi", idempotencyKey }, signal()),
        ).toMatchObject({ status: "sent" });
      expect(server.messages.map(({ channel: where }) => where)).toEqual([DIRECT, DIRECT]);
      expect(server.calls.filter((call) => call.endsWith("/users/@me/channels"))).toHaveLength(1);
      expect(await send("user:600000000000000009")).toEqual({
        status: "failed",
        reason: "discord answered 400",
      });
      server.fail("cut-connection", { path: "/users/@me/channels" });
      expect(await send(`user:${USER}`)).toMatchObject({ status: "retry" });
    });

    it("answers in a thread and as a reply, without mentions and previews", async () => {
      expect(
        await send(
          "800000000000000005",
          { thread: CHANNEL, replyTo: "990000000000000001" },
          "@everyone look",
        ),
      ).toEqual({
        status: "sent",
        messageIds: [server.messages[0]?.id],
      });
      expect(server.messages[0]).toMatchObject({
        channel: CHANNEL,
        request: {
          message_reference: { message_id: "990000000000000001", fail_if_not_exists: false },
          allowed_mentions: { parse: [] },
          flags: 4,
        },
      });
    });

    it("answers without a reply reference if it may not read earlier messages", async () => {
      server.fail("no history");
      expect(await send(CHANNEL, { replyTo: "990000000000000001" })).toMatchObject({
        status: "sent",
      });
      expect(server.messages[0]?.request).not.toHaveProperty("message_reference");
      server.fail("no history", { times: 2 });
      expect(await send(CHANNEL, { replyTo: "990000000000000001" })).toMatchObject({
        status: "failed",
      });
    });

    it("clears up by its nonce what became of a send that was cut", async () => {
      for (const fault of ["cut-after-taking", "cut-connection"] as const) {
        server.fail(fault);
        const text = `after ${fault}`;
        expect(await send(CHANNEL, { idempotencyKey: fault }, text)).toMatchObject({
          status: "sent",
        });
        expect(server.messages.filter(({ content }) => content === text)).toHaveLength(1);
      }
      server.fail("cut-after-taking");
      server.fail("unavailable");
      server.fail("rate-limited");
      expect(await send(CHANNEL, { idempotencyKey: "mixed" }, "mixed")).toMatchObject({
        status: "sent",
      });
      expect(server.messages.filter(({ content }) => content === "mixed")).toHaveLength(1);
    });

    it("says that it does not know if that fails too", async () => {
      server.fail("cut-after-taking");
      server.fail("no access");
      expect(await send(CHANNEL)).toMatchObject({ status: "unknown" });
      server.fail("cut-connection", { times: 100 });
      const channel = await open(server);
      const result = await channel.send(
        { to: CHANNEL, text: "x", idempotencyKey: "z" },
        signal(700),
      );
      expect(result).toMatchObject({
        status: "unknown",
        reason: expect.stringMatching(/^discord gave no answer/) as unknown,
      });
    });

    it("tells what was not sent, and why", async () => {
      for (const [fault, reason] of [
        ["no access", "discord answered 403 (the bot has no access to the channel)"],
        ["AutoMod", "discord answered 400 (blocked by the server's AutoMod)"],
        ["no direct messages", "discord answered 403 (the user takes no messages from the bot)"],
      ] as const) {
        server.fail(fault);
        expect(await send(CHANNEL)).toEqual({ status: "failed", reason });
      }
    });

    it("continues after a 401 that passed, and asks no more than the number of tries that the gateway makes", async () => {
      const channel = await open(server);
      const once = (idempotencyKey: string): Promise<SendResult> =>
        channel.send({ to: CHANNEL, text: "x", idempotencyKey }, signal());
      server.fail("bad-credential");
      expect(await once("a")).toMatchObject({ status: "failed" });
      expect(await once("b")).toMatchObject({ status: "sent" });
      server.fail("rate-limited", { times: 2 });
      const before = server.calls.length;
      expect(await once("c")).toMatchObject({
        status: "retry",
        afterMs: expect.any(Number) as unknown,
      });
      expect(server.calls.length - before).toBe(1);
    });
  });

  describe("the gateway", () => {
    const listen = async (host: TestHost) => listening(await open(server), host);
    const connected = (host: TestHost): Promise<void> =>
      vi.waitFor(
        () => expect(host.states.at(-1)).toEqual({ ok: true, message: "receiving" }),
        8000,
      );
    const texts = (host: TestHost): string[] => host.received.map(({ text }) => text);

    it("asks for what it needs, and tells edits from other changes", async () => {
      const host = testHost();
      await listen(host);
      await connected(host);
      expect(server.gateway[0]).toMatchObject({ op: "identify", d: { intents: 4608 } });
      const edited = { ...message("edited"), id: "77", edited_timestamp: "2026-10-09T10:00:00Z" };
      server.push(edited, "MESSAGE_UPDATE");
      server.push({ ...message("with a preview"), edited_timestamp: null }, "MESSAGE_UPDATE");
      server.push(message("last"));
      await vi.waitFor(() => expect(texts(host)).toEqual(["edited", "last"]), 5000);
      expect(host.received[0]).toMatchObject({ id: "77 2026-10-09T10:00:00Z", edits: "77" });
    });

    it("keeps its session while nothing can be reached, and tries less and less often", async () => {
      const host = testHost();
      await listen(host);
      await connected(host);
      server.refuse(1);
      server.disconnect();
      server.push(message("meanwhile"));
      await vi.waitFor(() => expect(texts(host)).toEqual(["meanwhile"]), 8000);
      expect(server.gateway.map(({ op }) => op)).toEqual(["identify", "resume"]);
      const [, failed = 0, next = 0] = server.attempts;
      expect(next - failed).toBeGreaterThan(1400);
    });

    it("begins a new session where the old one is forgotten", async () => {
      const host = testHost({
        cursor: JSON.stringify({
          sessionId: "old",
          sequence: 3,
          resumeURL: server.gatewayUrl,
          shardId: 0,
          shardCount: 1,
        }),
      });
      await listen(host);
      await connected(host);
      expect(server.gateway.map(({ op }) => op)).toEqual(["resume", "identify"]);
      server.push(message("hello"));
      await vi.waitFor(() => expect(texts(host)).toEqual(["hello"]), 5000);
      const broken = testHost({ cursor: "{" });
      await listen(broken);
      await connected(broken);
    });

    it("begins a new session where Discord closed the old one for good", async () => {
      const host = testHost();
      await listen(host);
      await connected(host);
      server.disconnect(4007);
      await vi.waitFor(
        () => expect(server.gateway.map(({ op }) => op)).toEqual(["identify", "identify"]),
        8000,
      );
      await connected(host);
      expect(host.states).toContainEqual({
        ok: false,
        message: "not receiving: the connection was closed (4007)",
      });
    });

    it.each(['{"op":9,"d":null}', '{"op":10}', '{"op":0,"t":"READY","s":1}'])(
      "frames: what happens when one lacks its parts (%s)",
      async (frame) => {
        const host = testHost();
        await listen(host);
        await connected(host);
        server.say(frame);
        server.push(message("next"));
        await vi.waitFor(() => expect(texts(host)).toEqual(["next"]), 8000);
      },
    );

    it("says why the gateway refuses it", async () => {
      const host = testHost();
      await listen(host);
      await connected(host);
      server.disconnect(4014);
      await vi.waitFor(
        () =>
          expect(host.states).toContainEqual({
            ok: false,
            message: "not receiving: discord does not give the bot these intents",
          }),
        5000,
      );
      await connected(host);
    });
  });
});

let lastId = 990_000_000_000_000n;

/** A message of the owner to the bot, as the gateway gives it. */
function message(content: string, more: Partial<GatewayMessage> = {}): GatewayMessage {
  return {
    id: `${(lastId += 1n)}000`,
    channel_id: DIRECT,
    type: 0,
    content,
    author: { id: USER },
    mentions: [],
    attachments: [],
    ...more,
  };
}
