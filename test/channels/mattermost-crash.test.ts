import { expect, it, onTestFinished } from "vitest";
import mattermost from "../../plugins/mattermost/index.ts";
import { startMattermost, TOKEN, TOWN } from "./mattermost-server.ts";
import { openPlugin } from "./open.ts";

it.each([
  ["finds a post of a killed process behind newer ones", 900, "sent"],
  [
    "does not know what became of a post if the server does not list all newer ones",
    1_000,
    "unknown",
  ],
])("mattermost: %s", async (_, newer, status) => {
  const server = await startMattermost();
  onTestFinished(() => server.close());
  const { channel, clock } = openPlugin(mattermost, { url: server.url, token: TOKEN });
  const message = { to: TOWN, text: "reply", idempotencyKey: "dlv_1.0" };
  await channel.send(message, AbortSignal.timeout(60_000));
  for (let index = 0; index < newer; index++) server.write({ message: "newer", channel_id: TOWN });
  // The server has forgotten what it would know a repeat by.
  server.forgetPending();
  expect(
    await channel.resend?.(message, clock.time - 40_000, AbortSignal.timeout(60_000)),
  ).toMatchObject({ status });
  expect(server.posts).toHaveLength(1);
});
