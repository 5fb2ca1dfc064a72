import { Api } from "grammy";
import type { Message, Update } from "grammy/types";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Channel, SendResult } from "../../src/plugin/api.ts";
import { splitText } from "../../src/delivery/split.ts";
import { load, userFolder } from "../plugin/support.ts";
import { RETRY_AFTER, startTelegram, type TelegramServer } from "./telegram-server.ts";
import { listening, testHost, type TestHost } from "./gateway.ts";
import { openChannel } from "./open.ts";

const SECRET = "s3cret-of-the-webhook";

const open = (
  server: TelegramServer,
  settings: object = {},
): Promise<{ channel: Channel; logged: string[] }> =>
  openChannel("telegram", { token: server.token, apiUrl: `${server.url}/`, ...settings });

const signal = (): AbortSignal => AbortSignal.timeout(5_000);

describe("telegram", () => {
  let server: TelegramServer;
  beforeEach(async () => {
    server = await startTelegram();
  });
  afterEach(() => server.close());

  describe("its dialect", () => {
    it("measures what a reader sees", async () => {
      const { channel } = await open(server);
      const measure = (given: string): number => channel.lengthOf?.(given) ?? -1;
      expect(measure("**a** & [b](https://x.example/long)")).toBe(5);
      expect(measure("<".repeat(4096))).toBe(4096);
      const long = Array.from(
        { length: 150 },
        (_, i) => `- <${i}> & **bold** "[x](https://x.example/${i})"`,
      ).join("\n");
      for (const piece of splitText(long, 3000)) {
        expect(
          await channel.send({ to: "42", text: piece, idempotencyKey: "k" }, signal()),
        ).toMatchObject({ status: "sent" });
        expect(measure(piece)).toBe(server.messages.at(-1)?.text.length);
      }
    });
  });

  describe("sending", () => {
    const send = async (to: string, more: object = {}, message = "**hi**"): Promise<SendResult> =>
      (await open(server)).channel.send(
        { to, text: message, idempotencyKey: "k", ...more },
        signal(),
      );

    it("answers in the topic and as a reply, and shows no preview", async () => {
      expect(await send("-1001234567890:7")).toEqual({ status: "sent", messageIds: ["1"] });
      await send("-1001234567890", { thread: "9", replyTo: "-1001234567890:55" });
      await send("-1001234567890", { thread: "1" });
      const [first, second, third] = server.messages.map(({ request }) => request);
      expect(first).toMatchObject({
        message_thread_id: 7,
        parse_mode: "HTML",
        link_preview_options: { is_disabled: true },
      });
      expect(second).toMatchObject({
        message_thread_id: 9,
        reply_parameters: { message_id: 55, allow_sending_without_reply: true },
      });
      expect(third).not.toHaveProperty("message_thread_id");
      expect(third).not.toHaveProperty("reply_parameters");
    });

    it("sends plain text if Telegram does not take the HTML, and gives up if it takes neither", async () => {
      server.fail("parse");
      expect(await send("42", {}, "**a** <b>")).toMatchObject({ status: "sent" });
      expect(server.messages).toMatchObject([{ raw: "a <b>" }]);
      expect(server.messages[0]?.request).not.toHaveProperty("parse_mode");
      server.fail("parse", { times: 2 });
      const refused = await send("42", {}, "secret words");
      expect(refused).toEqual({ status: "failed", reason: "telegram answered 400" });
    });

    it("sends a text that no reader would see as it is", async () => {
      expect(await send("42", {}, "```\n```")).toMatchObject({ status: "sent" });
      expect(server.messages[0]?.text).toBe("```\n```");
    });

    it("follows a group that has become a supergroup, once, and says so", async () => {
      server.moved.set("-500", -1009);
      const { channel, logged } = await open(server);
      expect(
        await channel.send({ to: "-500", text: "hi", idempotencyKey: "k" }, signal()),
      ).toMatchObject({ status: "sent" });
      expect(server.messages[0]?.chat).toBe("-1009");
      expect(logged.join("\n")).toContain(
        "the telegram group -500 is now -1009: change the recipient",
      );
      server.moved.set("-1009", -1010);
      expect(
        await channel.send({ to: "-500", text: "hi", idempotencyKey: "k" }, signal()),
      ).toMatchObject({ status: "failed" });
    });

    it("tells what was surely not sent from what may have been", async () => {
      server.fail("unavailable");
      expect(await send("42")).toEqual({ status: "retry", reason: "telegram answered 503" });
      server.fail("cut-after-taking");
      expect(await send("42")).toMatchObject({ status: "unknown" });
      expect(server.messages).toHaveLength(1);
      for (const fault of ["blocked", "deleted", "too long"] as const) {
        server.fail(fault);
        expect(await send("42")).toMatchObject({
          status: "failed",
          reason: expect.stringMatching(/blocked|deleted|too long/) as unknown,
        });
      }
    });

    it("asks no more than the number of tries that the gateway makes", async () => {
      server.fail("rate-limited", { times: 2 });
      expect(await send("42")).toMatchObject({ status: "retry", afterMs: RETRY_AFTER * 1000 });
      expect(server.calls.filter(({ method }) => method === "sendMessage")).toHaveLength(1);
    });
  });

  describe("polling", () => {
    const listen = async (host: TestHost) => listening((await open(server)).channel, host);

    it("takes a webhook away that stands in its way, and names another poller", async () => {
      const api = new Api(server.token, { apiRoot: server.url });
      await api.setWebhook("https://a.example");
      const host = testHost();
      await listen(host);
      server.push(text("kept"));
      await vi.waitFor(() => expect(host.received).toHaveLength(1), 8000);
      expect(
        server.calls.find(({ method }) => method === "deleteWebhook")?.body,
      ).not.toHaveProperty("drop_pending_updates");
      await vi.waitFor(() => expect(server.pending()).toBe(0), 5000);
      await api.getUpdates({ timeout: 0, offset: 1 });
      await vi.waitFor(
        () =>
          expect(host.states.at(-1)?.message).toMatch(
            /409 \(terminated by other getUpdates request\)/,
          ),
        5000,
      );
    });
  });

  describe("the webhook", () => {
    const post = (body: unknown, secret?: string, method = "POST"): Request =>
      new Request("http://gateway/channels/telegram", {
        method,
        headers: secret === undefined ? {} : { "x-telegram-bot-api-secret-token": secret },
        ...(method === "POST"
          ? { body: typeof body === "string" ? body : JSON.stringify(body) }
          : {}),
      });
    const update = { update_id: 1, message: message("hello") };
    const ask = async (
      request: Request,
      host = testHost(),
    ): Promise<{ status: number | undefined; host: TestHost }> => {
      const { channel } = await open(server, { mode: "webhook", webhookSecret: SECRET });
      return { status: (await channel.request?.(request, host))?.status, host };
    };

    it("takes nothing else", async () => {
      for (const secret of [undefined, "", "wrong", `${SECRET}x`]) {
        const { status, host } = await ask(post(update, secret));
        expect([status, host.received]).toEqual([401, []]);
      }
      expect((await ask(post("{", SECRET))).status).toBe(400);
      expect((await ask(post("null", SECRET))).status).toBe(400);
      expect((await ask(post(undefined, SECRET, "GET"))).status).toBe(405);
    });

    it("takes a place that is shared live once, and not again with each movement", async () => {
      const location = { latitude: 52.5, longitude: 13.4, live_period: 900 };
      const shared = { ...message(""), text: undefined, location };
      const moved = {
        ...shared,
        edit_date: 1_700_000_060,
        location: { ...location, longitude: 13.5 },
      };
      const host = testHost();
      await ask(post({ update_id: 1, message: shared }, SECRET), host);
      await ask(post({ update_id: 2, edited_message: moved }, SECRET), host);
      expect(host.received.map(({ parts }) => parts)).toMatchObject([
        [{ text: "[location: 52.5, 13.4]" }],
      ]);
      expect(host.skipped).toEqual([]);
    });

    it("needs a secret", async () => {
      const channels = { telegram: { token: server.token, mode: "webhook" } };
      const { issues } = await load(userFolder({}).dir, { channels });
      expect(JSON.stringify(issues)).toContain("webhookSecret");
    });
  });
});

let lastId = 100;

function message(body: string): Message.TextMessage {
  return {
    message_id: lastId++,
    date: 1_700_000_000,
    chat: { id: 42, type: "private", first_name: "Ada" },
    from: { id: 42, is_bot: false, first_name: "Ada" },
    text: body,
  };
}

/** An update with a text of the owner to the bot. */
function text(body: string, more: Partial<Message> = {}): Omit<Update, "update_id"> {
  return { message: { ...message(body), ...more } as NonNullable<Update["message"]> };
}
