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
import { toMattermost } from "./format.ts";
import { createListener } from "./receive.ts";
import { createChannel } from "./send.ts";

/** The longest message, in characters. Servers of before version 5 may take 4,000 only. */
const LIMIT = 16_383;

const parseRecipient = recipients({
  like: "a channel's id (26 letters and digits), user:<a member's id> or @<a member's name>",
  pattern: /^((?:user:)?[a-z0-9]{26}|@[a-z0-9][a-z0-9._-]{0,63})$/i,
  to: (text) => text?.toLowerCase(),
});

/** Replies to Mattermost; direct messages and mentions from it. */
export default definePlugin({
  id: "mattermost",
  setupQuestions: {
    name: "Mattermost",
    where:
      "System console → Integrations → Bot accounts, then Integrations → Bot accounts → Create",
    fields: [
      { name: "url", ask: "Address of the server" },
      { name: "token", ask: "Access token of the bot", env: "MATTERMOST_TOKEN" },
    ],
    owner: "your user id (26 letters and digits)",
  },
  config: channelConfig(
    {
      url: httpUrl("The address of the server, as https://chat.example.com."),
      token: secret("The access token of a bot account, from Integrations, Bot Accounts."),
      typing: typingSetting(),
      streaming: streamingSetting(),
    },
    {
      person: {
        like: "a member's id: 26 small letters and digits",
        pattern: /^(?:user:)?([a-z0-9]{26})$/,
      },
      parseRecipient,
    },
  ),
  channel: (context) => ({
    ...createChannel(context),
    ...createListener(context),
    ...createContentReader(context),
    limit: LIMIT,
    lengthOf: (text) => [...toMattermost(text)].length,
    parseRecipient,
    directRecipient: (person) => `user:${person}`,
  }),
});
