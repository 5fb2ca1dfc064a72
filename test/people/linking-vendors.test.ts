import { afterEach, beforeEach, expect, it } from "vitest";
import {
  BOT_TOKEN,
  eventCallback,
  signedRequest,
  SIGNING_SECRET,
  startSlack,
  type SlackServer,
} from "../channels/slack-server.ts";
import { startTelegram, type TelegramServer } from "../channels/telegram-server.ts";
import { createProvider, modelConfig, type Provider } from "../e2e/provider.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { codeIn } from "./linking-world.ts";

/** Bob and Cid, neither of whom is the owner. */
const BOB = { telegram: 43, slack: "U0BOB00001" };
const CID = { telegram: 44, slack: "U0CID00001" };
type Person = typeof BOB;

let telegram: TelegramServer;
let slack: SlackServer;
let provider: Provider;
let world: World;
let count = 0;

beforeEach(async () => {
  [telegram, slack, provider] = await Promise.all([
    startTelegram(),
    startSlack(),
    createProvider(),
  ]);
  for (const chat of ["42", "43", "44"]) telegram.chats.add(chat);
  world = await createWorld({
    config: {
      ...modelConfig(provider),
      sessions: { messages: "separate" },
      owner: { telegram: 42, slack: "U0ANN00001" },
      people: [{ id: "bob", telegram: BOB.telegram, slack: BOB.slack }],
      channels: {
        telegram: { token: telegram.token, apiUrl: telegram.url, allowFrom: ["42", "43", "44"] },
        slack: {
          botToken: BOT_TOKEN,
          signingSecret: SIGNING_SECRET,
          apiUrl: slack.url,
          allowFrom: ["U0ANN00001", BOB.slack, CID.slack],
        },
      },
    },
  });
  await world.until(
    async () => (await world.admin("/admin/v1/status")).body.status.services.length === 2,
  );
});
afterEach(async () => {
  await world.stop();
  await Promise.all([telegram.close(), slack.close(), provider.close()]);
});

/** Writes to the bot on Telegram, and returns what it answers. */
async function onTelegram(
  { telegram: id }: Person,
  text: string,
  language = "en",
): Promise<string> {
  const answers = (): string[] =>
    telegram.messages.filter(({ chat }) => chat === String(id)).map((one) => one.text);
  const before = answers().length;
  const from = { id, is_bot: false, first_name: "Somebody", language_code: language };
  telegram.push({
    message: {
      message_id: ++count,
      date: 1_760_000_000,
      chat: { id, type: "private", first_name: "S" },
      from,
      text,
    },
  });
  return world.until(async () => answers()[before]);
}

/** Writes to the app in Slack, and returns what it answers. */
async function onSlack({ slack: user }: Person, text: string): Promise<string> {
  const channel = `D0${user}`;
  const answers = (): string[] =>
    slack.posts.filter((post) => post.channel === channel).map((one) => one.text);
  const before = answers().length;
  const event = {
    type: "message",
    channel_type: "im",
    channel,
    user,
    text,
    ts: `1760000000.${String(++count).padStart(6, "0")}`,
  };
  const signed = signedRequest(eventCallback(event, `Ev${count}`), {
    at: Math.floor(Date.now() / 1000),
  });
  const { method, headers } = signed;
  const request = new Request("http://127.0.0.1/channels/slack/events", {
    method,
    headers,
    body: await signed.arrayBuffer(),
  });
  expect((await world.gateway.fetch(request)).status).toBe(200);
  return world.until(async () => answers()[before]);
}

const newest = (): string => provider.text(provider.requests.at(-1) as never);

it("what a person says in Telegram is part of that person's conversation in Slack once a code has linked them, and of no other", async () => {
  await onTelegram(BOB, "the blue folder");
  await onSlack(BOB, "hello");
  expect(newest()).not.toContain("the blue folder");
  const offered = await onTelegram(BOB, "/link", "de");
  expect(offered).toMatch(/^Sende mir innerhalb von zehn Minuten/);
  expect(await onSlack(CID, "!link HHHHHHHH")).toMatch(/^This code is wrong/);
  // Slack's app keeps words that begin with `/` for itself.
  const answer = await onSlack(BOB, `!link ${codeIn(offered)}`);
  expect(answer).toMatch(/^Linked with telegram\./);
  await world.until(async () =>
    telegram.messages.some(
      ({ chat, text }) => chat === "43" && text.startsWith("Mit slack verbunden."),
    ),
  );
  await onTelegram(BOB, "the red folder");
  const posts = slack.posts.length;
  await onTelegram(BOB, "and the green one");
  expect(slack.posts).toHaveLength(posts);
  await onSlack(BOB, "which folders?");
  expect(newest()).toMatch(/the red folder[^]*and the green one[^]*which folders\?/);
  expect(newest()).not.toContain("the blue folder");
  await onSlack(CID, "which folders?");
  expect(newest()).not.toMatch(/red|green/);
  await onTelegram(CID, "which folders?");
  expect(newest()).not.toMatch(/red|green/);
  expect(await onTelegram(BOB, "/unlink")).toMatch(/^Unlinked\./);
  await onSlack(BOB, "which folders now?");
  expect(newest()).not.toMatch(/red|green/);
});
