import { expect } from "vitest";
import type { Channel } from "../../src/plugin/api.ts";
import { channelContract } from "../contract/channel.ts";
import { load, userFolder } from "../plugin/support.ts";
import { RATE_RESET_S, startMattermost, TOKEN, TOWN } from "./mattermost-server.ts";

async function open(url: string, section: Record<string, unknown> = {}): Promise<Channel> {
  const { channels, issues } = await load(userFolder({}).dir, { channels: { mattermost: { token: TOKEN, url, ...section } } });
  expect(issues).toEqual([]);
  const channel = channels.get("mattermost")?.channel;
  if (!channel) throw new Error("the channel is not there");
  return channel;
}

channelContract("mattermost", async () => {
  const server = await startMattermost();
  return {
    channel: await open(server.url, { defaultTo: "@rosa" }),
    to: TOWN,
    malformed: ["town-square", "#town", "user:rosa", "@", "@two words", `${TOWN}1`],
    sent: () => server.posts.map(({ channel_id, message }) => ({ to: channel_id, text: message })),
    fail: (fault) => server.fail(fault),
    retryAfterMs: RATE_RESET_S * 1000,
    secrets: [TOKEN],
    close: () => server.close(),
  };
});
