import { z } from "zod";
import { definePlugin, type Channel } from "#plugin";
import { toHtml, visibleText } from "./format.ts";
import { createWebhook, poll } from "./receive.ts";
import { asSdkSignal, createClient, createSend, describeError, LIMIT } from "./send.ts";

const schema = z
  .strictObject({
    token: z.string().trim().min(1).describe("Token of the bot, from @BotFather."),
    apiUrl: z.url().default("https://api.telegram.org").describe("Address of the Bot API; another one for a Bot API server of your own."),
    mode: z
      .enum(["polling", "webhook"])
      .default("polling")
      .describe("How messages arrive: `polling` asks Telegram and needs no public address, `webhook` waits at `/channels/telegram`."),
    allowFrom: z
      .array(z.union([z.string().regex(/^\d+$/, "must be a user's numeric id"), z.int().positive()]).transform(String))
      .default([])
      .describe("Numeric user ids of those who may speak to the agent. Empty: nobody."),
    defaultTo: z.string().trim().min(1).optional().describe("The recipient where none is named: a chat id or `@name`."),
    webhookSecret: z
      .string()
      .regex(/^[\w-]{1,256}$/, "must be 1 to 256 letters, digits, `_` and `-`")
      .optional()
      .describe('What Telegram sends with each update: the `secret_token` given to `setWebhook`. Needed for `mode: "webhook"`.'),
  })
  .refine((config) => config.mode === "polling" || config.webhookSecret !== undefined, {
    path: ["webhookSecret"],
    message: 'is needed where mode is "webhook"',
  });

/** The section `channels.telegram`. */
export type Config = z.output<typeof schema>;

/** `-100…`, `123…` or `@name`, each with `:topic` where a topic of the chat is meant. */
const RECIPIENT = /^(-?[1-9]\d{0,15}|@[a-z]\w{3,31})(:[1-9]\d{0,15})?$/i;

const parseRecipient: NonNullable<Channel["parseRecipient"]> = (to) => {
  const match = RECIPIENT.exec(to.trim());
  if (!match) return { ok: false, message: 'must be a chat id such as 123456789 or -1001234567890, or "@name"; a topic follows as ":12"' };
  return { ok: true, to: `${match[1]?.toLowerCase() ?? ""}${match[2] ?? ""}` };
};

/** Replies to Telegram, and messages from there. */
export default definePlugin({
  id: "telegram",
  aliases: ["tg"],
  config: schema,
  channel(context) {
    const { config, log } = context;
    const client = createClient(context);
    return {
      limit: LIMIT,
      measure: (text) => visibleText(toHtml(text)).length,
      allowFrom: config.allowFrom,
      ...(config.defaultTo === undefined ? {} : { defaultTo: config.defaultTo }),
      parseRecipient,
      send: createSend(client, log),
      async probe(signal) {
        try {
          await (await client()).getMe(asSdkSignal(signal));
          return { ok: true };
        } catch (error) {
          return { ok: false, message: describeError(error) };
        }
      },
      ...(config.mode === "polling"
        ? { listen: (signal, host) => poll(client, signal, host) }
        : { request: createWebhook(client, config.webhookSecret ?? "") }),
    };
  },
});
