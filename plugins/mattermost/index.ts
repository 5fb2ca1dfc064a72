import { channelConfig, definePlugin, httpUrl, recipients, secret } from "#plugin";
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
  config: channelConfig(
    {
      url: httpUrl("The address of the server, as https://chat.example.com."),
      token: secret("The access token of a bot account, from Integrations, Bot Accounts."),
    },
    { person: { like: "a member's id: 26 small letters and digits", pattern: /^[a-z0-9]{26}$/ }, parseRecipient },
  ),
  channel: (context) => ({
    ...createChannel(context),
    ...createListener(context),
    limit: LIMIT,
    measure: (text) => [...toMattermost(text)].length,
    parseRecipient,
  }),
});
