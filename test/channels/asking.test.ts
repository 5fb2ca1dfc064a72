import { Api } from "grammy/web";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { ApprovalQuestion, Channel, SendResult } from "../../src/plugin/api.ts";
import { CHANNEL, startDiscord, USER } from "./discord-server.ts";
import { listening, testHost } from "./gateway.ts";
import slack from "../../plugins/slack/index.ts";
import { openChannel, openPlugin } from "./open.ts";
import { APP_TOKEN, BOT_TOKEN, pressRequest, SIGNING_SECRET, startSlack } from "./slack-server.ts";
import { startTelegram } from "./telegram-server.ts";
import { openWhatsApp, TO } from "./whatsapp-world.ts";

const question = (to: string, more: Partial<ApprovalQuestion> = {}): ApprovalQuestion => ({
  to,
  code: "7f3",
  text: "**Approval 7f3**: the agent `main` wants to call `bank.transfer`.",
  instruction: 'Reply "approve 7f3" or "deny 7f3".',
  verdicts: [
    { verdict: "approve", label: "Approve" },
    { verdict: "deny", label: "Deny" },
  ],
  expiresAt: 4_102_444_800_000,
  idempotencyKey: "dlv_q0.0",
  ...more,
});
const ask = async (channel: Channel, asked: ApprovalQuestion): Promise<SendResult> => {
  const result = await channel.ask?.(asked, AbortSignal.timeout(5_000));
  if (!result) throw new Error("the channel does not ask");
  return result;
};
const until = (check: () => void): Promise<void> => vi.waitFor(check, { interval: 10 });

describe("telegram", () => {
  const open = async (more: object = {}) => {
    const server = await startTelegram();
    onTestFinished(() => server.close());
    const { channel } = await openChannel("telegram", {
      token: server.token,
      apiUrl: server.url,
      ...more,
    });
    return { server, channel };
  };

  it("shows the answer to whoever pressed, by the id of the account", async () => {
    const { server, channel } = await open();
    const host = testHost();
    listening(channel, host);
    await ask(channel, question("42"));
    host.answer = `${"a".repeat(199)}👍`;
    server.press("Approve", 42);
    server.press("Deny", 43);
    await until(() => expect(server.notices).toHaveLength(2));
    expect(host.presses).toMatchObject([
      { from: "42", verdict: "approve", code: "7f3" },
      { from: "43", verdict: "deny", code: "7f3" },
    ]);
    expect(new Set(host.presses.map(({ id }) => id)).size).toBe(2);
    // It is cut between two characters.
    expect(server.notices[0]).toBe("a".repeat(199));
  });

  it("passes a press on again that could not be written down, and answers one that is no decision with nothing", async () => {
    const { server, channel } = await open();
    const host = testHost();
    host.refuse(1);
    listening(channel, host);
    await ask(channel, question("42"));
    server.press("Approve", 42);
    await until(() => expect(server.notices).toEqual(["Approved."]));
    expect(host.presses).toHaveLength(1);
    server.press("Gone", 42);
    await until(() => expect(server.notices).toEqual(["Approved.", ""]));
    expect(host.presses).toHaveLength(1);
  });

  it("asks in text if the webhook does not get presses, and accepts those that arrive", async () => {
    const { server, channel } = await open({ mode: "webhook", webhookSecret: "s3cret" });
    server.allowed = ["message"];
    await ask(channel, question("42"));
    expect(server.messages[0]).toMatchObject({
      text: expect.stringContaining('Reply "approve 7f3"') as unknown,
      buttons: [],
    });
    server.allowed = ["message", "callback_query"];
    await ask(channel, question("42"));
    expect(server.messages[1]?.buttons).toHaveLength(2);
    expect(server.messages[1]?.text).not.toContain("Reply");
    server.press("Approve", 42);
    const [update] = await new Api(server.token, { apiRoot: server.url }).getUpdates();
    const host = testHost();
    const headers = { "x-telegram-bot-api-secret-token": "s3cret" };
    const request = new Request("http://rouse.test/channels/telegram", {
      method: "POST",
      headers,
      body: JSON.stringify(update),
    });
    expect((await channel.request?.(request, host))?.status).toBe(200);
    expect([host.presses.length, server.notices]).toEqual([1, ["Approved."]]);
  });
});

describe("discord", () => {
  const open = async () => {
    const server = await startDiscord();
    onTestFinished(() => server.close());
    const { channel } = await openChannel("discord", {
      token: server.token,
      apiUrl: server.url,
    });
    return { server, channel };
  };

  it("answers a press so that only its person sees it, in a guild and in direct messages", async () => {
    const { server, channel } = await open();
    const host = testHost();
    listening(channel, host);
    await until(() => expect(host.states.at(-1)?.ok).toBe(true));
    await ask(channel, question(CHANNEL));
    server.press("Approve", USER);
    server.press("Deny", "600000000000000002", "guild", "pt-BR");
    await until(() => expect(server.notices).toEqual(["Approved.", "Approved."]));
    expect(host.presses.map(({ from }) => from)).toEqual([USER, "600000000000000002"]);
    expect(host.presses[1]?.language).toBe("pt-BR");
  });

  it("asks in text if presses go to an address of the application", async () => {
    const { server, channel } = await open();
    server.interactionsUrl = "https://elsewhere.example.com";
    expect(await ask(channel, question(CHANNEL))).toMatchObject({ status: "sent" });
    expect(server.messages).toMatchObject([
      { content: expect.stringContaining('Reply "approve 7f3"') as unknown, buttons: [] },
    ]);
  });
});

describe("slack", () => {
  const open = async (more: object) => {
    const server = await startSlack();
    onTestFinished(() => server.close());
    const { channel } = openPlugin(slack, { botToken: BOT_TOKEN, apiUrl: server.url, ...more });
    return { server, channel };
  };

  it("answers a press of the socket so that only its person sees it", async () => {
    const { server, channel } = await open({ appToken: APP_TOKEN });
    const host = testHost();
    listening(channel, host);
    await until(() => expect(server.sockets()).toBe(1));
    await ask(channel, question("C0123ABC"));
    // In text for notifications, and for who cannot press.
    expect(server.posts[0]?.fields["blocks"]).toContain('Reply \\"approve 7f3\\"');
    server.press("Approve", "U0ANN00001");
    await until(() => expect(server.notices).toEqual([{ user: "U0ANN00001", text: "Approved." }]));
    expect([host.presses, server.acknowledged]).toMatchObject([
      [{ from: "U0ANN00001", verdict: "approve", code: "7f3" }],
      1,
    ]);
  });

  it("takes signed presses at its public address, and no others", async () => {
    const { server, channel } = await open({ signingSecret: SIGNING_SECRET });
    const host = testHost();
    await ask(channel, question("C0123ABC"));
    const request = server.press("Deny", "U0ANN00001");
    expect((await channel.request?.(request as Request, host))?.status).toBe(200);
    await until(() => expect(server.notices).toHaveLength(1));
    expect(host.presses).toMatchObject([{ from: "U0ANN00001", verdict: "deny" }]);
    const payload = {
      type: "block_actions",
      user: { id: "U0ANN00001" },
      actions: [{ value: "approve 7f3" }],
    };
    const now = Math.floor(Date.now() / 1000);
    for (const forged of [pressRequest(payload, now, "another"), pressRequest(payload, now - 3600)])
      expect((await channel.request?.(forged, host))?.headers.get("www-authenticate")).toBe(
        'Signature realm="rouse"',
      );
    expect(host.presses).toHaveLength(1);
  });

  it("has no buttons if no press can reach it", async () => {
    const { channel } = await open({});
    expect(channel.ask).toBeUndefined();
  });
});

describe("whatsapp", () => {
  it("asks in text if the text is too long for buttons", async () => {
    const { channel, server } = await openWhatsApp();
    await ask(channel, question(TO, { text: "x".repeat(1100) }));
    expect(server.arrived).toMatchObject([
      { buttons: [], text: expect.stringContaining('Reply "approve 7f3"') as unknown },
    ]);
  });
});

it("mattermost has no buttons, which need a public address, and asks a person directly", async () => {
  const { channel } = await openChannel("mattermost", { url: "http://127.0.0.1:1", token: "t" });
  expect([channel.ask, channel.directRecipient?.("rosa")]).toEqual([undefined, "user:rosa"]);
});
