import { z } from "zod";
import { channelConfig, recipients, secret, streamingSetting, typingSetting } from "#channel-kit";
import { definePlugin } from "#plugin";
import { createContentReader } from "./files.ts";
import { toMarkdown } from "./format.ts";
import { createEvents, createSocket } from "./receive.ts";
import { createChannel, MAX_MARKDOWN } from "./send.ts";

/** Conversations and members have ids in capitals; a name needs its `#`. */
const parseRecipient = recipients(
  { like: "a conversation (C0123ABC)", pattern: /^[CDG][A-Z0-9]{2,30}$/ },
  {
    like: "a public channel (#name)",
    pattern: /^(#[\p{L}\p{M}\p{N}_-]{1,80})$/u,
    to: (name) => name?.toLowerCase(),
  },
  {
    like: "a member (user:U0123ABC, with the member ID from the profile, since names change)",
    pattern: /^(?:user:|@)?([UW][A-Z0-9]{2,30})$/,
    to: (member) => `user:${member}`,
  },
);

/** Replies to Slack; direct messages and mentions from it. */
export default definePlugin({
  id: "slack",
  setupQuestions: {
    name: "Slack",
    where:
      "https://api.slack.com/apps → your app: OAuth & Permissions for the bot token, Basic information for the app token",
    fields: [
      { name: "botToken", ask: "Bot token (xoxb-…)", env: "SLACK_BOT_TOKEN" },
      { name: "appToken", ask: "App token for socket mode (xapp-…)", env: "SLACK_APP_TOKEN" },
    ],
    owner: "your member id, U… (your profile → ⋮ → Copy member ID)",
  },
  config: channelConfig(
    {
      botToken: secret("The bot's token (xoxb-…), from OAuth & Permissions."),
      appToken: secret(
        "The app-level token (xapp-…) with connections:write: messages come by Socket Mode.",
      ).optional(),
      signingSecret: secret(
        "The app's signing secret: messages come to /channels/slack/events. Not used beside `appToken`.",
      ).optional(),
      streaming: streamingSetting(),
      typing: typingSetting(
        " Outside threads, the message gets a reaction, with the scope `reactions:write`.",
      ),
      apiUrl: z.url().default("https://slack.com/api/").describe("The address of the Web API."),
    },
    {
      person: { like: "a member's ID, as U0123ABC", pattern: /^(?:user:|@)?([UW][A-Z0-9]{2,30})$/ },
      parseRecipient,
    },
  ),
  channel(context) {
    const { appToken, signingSecret } = context.config;
    return {
      ...createChannel(context, appToken !== undefined || signingSecret !== undefined),
      ...createContentReader(context),
      limit: MAX_MARKDOWN,
      lengthOf: (text) => toMarkdown(text).length,
      parseRecipient,
      directRecipient: (person) => `user:${person}`,
      ...(appToken !== undefined && createSocket(context, appToken)),
      ...(appToken === undefined &&
        signingSecret !== undefined &&
        createEvents(signingSecret, context)),
    };
  },
});
