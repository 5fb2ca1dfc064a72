import { z } from "zod";
import {
  channelConfig,
  htmlText,
  httpUrl,
  recipients,
  secret,
  streamingSetting,
  typingSetting,
} from "#channel-kit";
import { definePlugin } from "#plugin";
import { createFileFetcher } from "./files.ts";
import { toHtml } from "./format.ts";
import { createWebhook, poll, registerForWebhook, takesPresses } from "./receive.ts";
import { createChannel, createClient } from "./send.ts";
import { createFilePost } from "./send-file.ts";

/** Longest text, in UTF-16 units after the entities are parsed. */
const LIMIT = 4096;

const parseRecipient = recipients({
  like: 'a chat id such as 123456789 or -1001234567890, or "@name"; a topic follows as ":12"',
  pattern: /^((?:-?[1-9]\d{0,15}|@[a-z]\w{3,31})(?::[1-9]\d{0,15})?)$/i,
  to: (chat) => chat?.toLowerCase(),
});

const config = channelConfig(
  {
    token: secret("Token of the bot, from @BotFather."),
    apiUrl: httpUrl(
      "Address of the Bot API: change it to use your own Bot API server.",
      "https://api.telegram.org",
    ),
    mode: z
      .enum(["polling", "webhook"])
      .default("polling")
      .describe(
        "How messages arrive: `polling` asks Telegram and needs no public address, `webhook` waits at `/channels/telegram`.",
      ),
    typing: typingSetting(),
    streaming: streamingSetting(),
    webhookSecret: z
      .string()
      .regex(/^[\w-]{1,256}$/, "must be 1 to 256 letters, digits, `_` and `-`")
      .optional()
      .describe(
        'What Telegram sends with each update: the `secret_token` given to `setWebhook`. Needed for `mode: "webhook"`.',
      ),
  },
  { person: { like: "a user's numeric id", pattern: /^\d+$/ }, parseRecipient },
).refine(({ mode, webhookSecret }) => mode === "polling" || webhookSecret !== undefined, {
  path: ["webhookSecret"],
  message: 'is needed where mode is "webhook"',
});

/** Replies to Telegram, and messages from there. */
export default definePlugin({
  id: "telegram",
  aliases: ["tg"],
  setupQuestions: {
    name: "Telegram",
    where: "write /newbot to https://t.me/BotFather",
    fields: [{ name: "token", ask: "Bot token", env: "TELEGRAM_BOT_TOKEN" }],
    owner: "your numeric user id (https://t.me/userinfobot tells it)",
  },
  config,
  channel(context) {
    const { mode, webhookSecret = "" } = context.config;
    const client = createClient(context);
    return {
      ...createChannel(
        client,
        context.log,
        mode === "polling" ? undefined : async (signal) => takesPresses(await client(signal)),
        createFilePost(context),
      ),
      fetchFile: createFileFetcher(client, context),
      limit: LIMIT,
      lengthOf: (text) => htmlText(toHtml(text)).length,
      parseRecipient,
      ...(mode === "polling"
        ? { listen: (signal, host) => poll(client, signal, host) }
        : {
            listen: (signal, host) => registerForWebhook(client, signal, host),
            request: createWebhook(client, webhookSecret),
          }),
    };
  },
});
