import {
  channelConfig,
  httpUrl,
  recipients,
  secret,
  streamingSetting,
  typingSetting,
} from "#channel-kit";
import { definePlugin } from "#plugin";
import { createContentReader } from "./files.ts";
import { toDiscord } from "./format.ts";
import { listen } from "./receive.ts";
import { createChannel, createClient, LIMIT } from "./send.ts";

const parseRecipient = recipients(
  {
    like: "a channel's id such as 1099999999999999999",
    pattern: /^(?:channel:(\d{15,20})|<#(\d{15,20})>|(\d{15,20}))$/,
  },
  {
    like: '"user:" and a user\'s id',
    pattern: /^(?:user:(\d{15,20})|<@!?(\d{15,20})>)$/,
    to: (...ids) => `user:${ids.find(Boolean)}`,
  },
);

const config = channelConfig(
  {
    token: secret("Token of the bot, from the Discord Developer Portal."),
    apiUrl: httpUrl("Address of the HTTP API, without its version.", "https://discord.com/api"),
    typing: typingSetting(),
    streaming: streamingSetting(),
  },
  {
    person: {
      like: "a user's id, a number of 15 to 20 digits in quotes",
      pattern: /^(?:user:)?(\d{15,20})$/,
    },
    parseRecipient,
  },
);

/** Replies to Discord, and messages from there. */
export default definePlugin({
  id: "discord",
  setupQuestions: {
    name: "Discord",
    where: "https://discord.com/developers/applications → your application → Bot",
    fields: [{ name: "token", ask: "Bot token", env: "DISCORD_BOT_TOKEN" }],
    owner: "your user id (Settings → Advanced → Developer mode, then right-click your name)",
  },
  config,
  channel(context) {
    const client = createClient(context);
    return {
      ...createChannel(client, () => context.clock.now()),
      ...createContentReader(context, client),
      limit: LIMIT,
      lengthOf: (text) => toDiscord(text).length,
      parseRecipient,
      directRecipient: (person) => `user:${person}`,
      listen: (signal, host) => listen(context.config.token, client, signal, host),
    };
  },
});
