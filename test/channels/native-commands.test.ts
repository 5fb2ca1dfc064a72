import { describe, expect, it, onTestFinished, vi } from "vitest";
import { createEvents } from "../../plugins/slack/receive.ts";
import { parseCommand } from "../../src/turns/channel/commands.ts";
import type { Channel } from "../../src/plugin/api.ts";
import { createWorld } from "../e2e/world.ts";
import { CHANNEL, DIRECT, startDiscord, USER } from "./discord-server.ts";
import { listening, testHost } from "./gateway.ts";
import { openChannel } from "./open.ts";
import { BOT_TOKEN } from "./slack-server.ts";
import { startTelegram } from "./telegram-server.ts";

const open = async (name: string, section: Record<string, unknown>): Promise<Channel> =>
  (await openChannel(name, section)).channel;

const NAMES = ["new", "stop", "status", "agent", "link", "unlink", "approve", "deny", "help"];

describe("telegram", () => {
  const isSet = ({ method }: { method: string }): boolean => method === "setMyCommands";
  const openTelegram = async (more: object = {}) => {
    const server = await startTelegram();
    onTestFinished(() => server.close());
    const section = { token: server.token, apiUrl: server.url, allowFrom: ["42"], ...more };
    return { server, section };
  };

  it("shows the commands, and receives also if Telegram refuses them", async () => {
    const { server, section } = await openTelegram();
    server.fail("unavailable", { method: "setMyCommands" });
    const host = testHost();
    listening(await open("telegram", section), host);
    const from = { id: 42, is_bot: false, first_name: "A", language_code: "de" };
    server.write("/help", { from });
    await vi.waitFor(
      () => expect(host.received).toMatchObject([{ from: "42", text: "/help", language: "de" }]),
      5000,
    );
    expect(host.states.every(({ ok }) => ok)).toBe(true);
    await vi.waitFor(() => expect(server.calls.filter(isSet)).toHaveLength(2), 5000);
    const commands = server.calls.find(isSet)?.body["commands"] as Record<string, string>[];
    expect(commands.map(({ command }) => command)).toEqual(NAMES);
    expect(commands[0]?.["description"]).toBe("begin a new conversation");
  });

  it("shows the commands before the first update of a webhook", async () => {
    const { server, section } = await openTelegram({ mode: "webhook", webhookSecret: "s3cret" });
    const world = await createWorld({ config: { channels: { telegram: section } } });
    onTestFinished(() => world.stop());
    await vi.waitFor(() => expect(server.calls.filter(isSet)).toHaveLength(1), 8000);
    expect(server.calls.map(({ method }) => method)).not.toContain("getUpdates");
    const { services } = (await world.admin("/admin/v1/status")).body.status;
    expect(services).toMatchObject([{ id: "telegram", ok: true, message: "waits for requests" }]);
  });
});

describe("discord", () => {
  it("registers the commands, and hands over those that people choose as if they had written them", async () => {
    const server = await startDiscord();
    onTestFinished(() => server.close());
    const host = testHost();
    listening(await open("discord", { token: server.token, apiUrl: server.url }), host);
    await vi.waitFor(() => expect(server.commands.map(({ name }) => name)).toEqual(NAMES), 5000);
    expect(server.commands.find(({ name }) => name === "approve")?.options).toMatchObject([
      { name: "code", required: true, type: 3 },
    ]);
    server.command("new", { user: USER, channel: DIRECT });
    server.command("approve", { user: USER, channel: CHANNEL, words: ["7f3"], where: "guild" });
    await vi.waitFor(() => expect(host.received).toHaveLength(2), 5000);
    expect(host.received).toMatchObject([
      { from: USER, to: DIRECT, direct: true, text: "/new", language: "de" },
      { from: USER, to: CHANNEL, direct: false, text: "/approve 7f3" },
    ]);
    await vi.waitFor(() => expect(server.notices).toEqual(["`/new`", "`/approve 7f3`"]), 5000);
  });
});

describe("slack", () => {
  /** The example of docs.slack.dev/authentication/verifying-requests-from-slack, which is a slash command. */
  const BODY =
    "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
  const context = {
    config: { botToken: BOT_TOKEN, apiUrl: "http://127.0.0.1:1/" },
    fetch,
    clock: { now: () => 1_531_420_618_000 },
  };
  const { request } = createEvents("8f742231b10e8888abcd99yyyzzz85a5", context);
  const post = async (body: string, host = testHost()) => {
    const headers = {
      "x-slack-request-timestamp": "1531420618",
      "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    };
    const response = await request(
      new Request("http://rouse.test/channels/slack/commands", { method: "POST", headers, body }),
      host,
    );
    return { status: response.status, text: await response.text(), host };
  };

  it("takes a slash command whose signature holds, and no other", async () => {
    const { status, text, host } = await post(BODY);
    expect([status, text]).toEqual([200, ""]);
    expect(host.received).toMatchObject([
      { from: "U2CERLKJA", to: "G8PSS9T3V", direct: false, text: "/webhook-collect" },
    ]);
    const forged = await post(BODY.replace("U2CERLKJA", "U0OTHER"));
    expect([forged.status, forged.host.received]).toEqual([401, []]);
    const failing = testHost();
    failing.refuse(1);
    await expect(post(BODY, failing)).rejects.toThrow();
  });

  it("takes a slash command that comes by the socket", async () => {
    const { createSocket } = await import("../../plugins/slack/receive.ts");
    const { EventEmitter } = await import("node:events");
    const acknowledged: string[] = [];
    class Client extends EventEmitter {
      async start(): Promise<void> {
        for (const [command, text] of [
          ["/new", ""],
          ["/rouse", "agent desk"],
          ["/rouse", ""],
        ]) {
          const body = {
            command,
            text,
            user_id: "U0ROSA",
            channel_id: "D0ROSA",
            trigger_id: `t${command}${text}`,
          };
          this.emit("slack_event", {
            body,
            ack: async () => void acknowledged.push(`${command} ${text}`),
          });
        }
      }
      async disconnect(): Promise<void> {
        this.emit("disconnected");
      }
    }
    const host = testHost();
    const socket = createSocket(
      context,
      "xapp-1",
      async () => ({ SocketModeClient: Client }) as never,
    );
    listening(socket as Channel, host);
    await vi.waitFor(() => expect(acknowledged).toHaveLength(3), 5000);
    expect(host.received).toMatchObject([
      { direct: true, to: "D0ROSA", text: "/new" },
      { text: "/agent desk" },
      { text: "/help" },
    ]);
    expect(host.received.every(({ text }) => parseCommand(text) !== undefined)).toBe(true);
  });
});
