import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Channel, OutgoingMessage, SendResult } from "../../src/plugin/api.ts";
import { channelContract } from "../contract/channel.ts";
import { load, userFolder } from "../plugin/support.ts";
import { APP_TOKEN, BOT_TOKEN, RETRY_AFTER_S, SIGNING_SECRET, startSlack, type SlackServer } from "./slack-server.ts";

async function open(apiUrl: string, section: Record<string, unknown> = {}): Promise<Channel> {
  const { channels, issues } = await load(userFolder({}).dir, { channels: { slack: { botToken: BOT_TOKEN, apiUrl, ...section } } });
  expect(issues).toEqual([]);
  const channel = channels.get("slack")?.channel;
  if (!channel) throw new Error("the channel is not there");
  return channel;
}

channelContract("slack", async () => {
  const server = await startSlack();
  return {
    channel: await open(server.url, { defaultTo: "#general" }),
    to: "C0123ABC",
    malformed: ["general", "c0123abc", "@rosa", "user:rosa", "#", "#two words", "https://example.com"],
    sent: () => server.posts.map(({ channel, text }) => ({ to: channel, text })),
    fail: (fault) => server.fail(fault),
    retryAfterMs: RETRY_AFTER_S * 1000,
    secrets: [BOT_TOKEN, APP_TOKEN, SIGNING_SECRET],
    close: () => server.close(),
  };
});
