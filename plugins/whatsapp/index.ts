import { z } from "zod";
import { definePlugin } from "#plugin";
import { toWhatsApp } from "./format.ts";
import { answer } from "./receive.ts";
import { MALFORMED, parseNumber } from "./recipient.ts";
import { probe, sendText } from "./send.ts";

/** Characters of one message, as they are after they are put into WhatsApp's dialect. */
const TEXT_LIMIT = 4096;

const number = z
  .string()
  .refine((text) => parseNumber(text) !== undefined, MALFORMED)
  .transform((text) => parseNumber(text) ?? text);
const secret = z.string().trim().min(1);

const config = z.strictObject({
  phoneNumberId: z
    .string()
    .regex(/^\d+$/, "must be the number's id: digits alone")
    .describe("The id of the phone number that sends, not the number itself."),
  accessToken: secret.describe("A system user's token with `whatsapp_business_messaging`."),
  appSecret: secret.optional().describe("The app's secret, with which Meta signs its webhooks. Without it nothing is received."),
  verifyToken: secret.optional().describe("Any text of your own: Meta repeats it when the webhook is set up."),
  apiUrl: z
    .url({ protocol: /^https?$/ })
    .transform((url) => url.replace(/\/+$/, ""))
    .default("https://graph.facebook.com")
    .describe("Address of the Graph API."),
  allowFrom: z.array(number).default([]).describe("Phone numbers of those who may speak to the agent; none: nobody."),
  defaultTo: number.optional().describe("The recipient where none is named."),
});

/** The checked section. */
export type WhatsAppConfig = z.output<typeof config>;

/** Sends and receives by WhatsApp's Cloud API. */
export default definePlugin({
  id: "whatsapp",
  aliases: ["wa"],
  config,
  channel: (context) => ({
    limit: TEXT_LIMIT,
    fallback: true,
    allowFrom: context.config.allowFrom,
    ...(context.config.defaultTo !== undefined && { defaultTo: context.config.defaultTo }),
    // Reading markdown costs time, and what is far too long is cut in any case.
    measure: (text) => (text.length > 2 * TEXT_LIMIT ? text.length : toWhatsApp(text).length),
    parseRecipient(to) {
      const found = parseNumber(to);
      return found === undefined ? { ok: false, message: MALFORMED } : { ok: true, to: found };
    },
    send: (message, signal) => sendText(context, message, signal),
    probe: (signal) => probe(context, signal),
    request: (request, host) => answer(context, request, host),
  }),
});
