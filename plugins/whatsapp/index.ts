import { z } from "zod";
import { channelConfig, definePlugin, httpUrl, phoneNumber, recipients, secret } from "#plugin";
import { toWhatsApp } from "./format.ts";
import { answer } from "./receive.ts";
import { createChannel } from "./send.ts";

/** Characters of one message, as they are after they are put into WhatsApp's dialect. */
const TEXT_LIMIT = 4096;

/** A phone number as `+` and digits, also from one that Meta writes without the `+`; undefined where it is none. */
export function parseNumber(text: string): string | undefined {
  return phoneNumber(`+${text.trim().replace(/^(?:\+|00)/, "")}`);
}

const NUMBER = { like: "a phone number with its country code, such as +15551234567", pattern: /^(.+)$/, to: parseNumber };
const parseRecipient = recipients(NUMBER);

const config = channelConfig(
  {
    phoneNumberId: z
      .string()
      .regex(/^\d+$/, "must be the number's id: digits alone")
      .describe("The id of the phone number that sends, not the number itself."),
    accessToken: secret("A system user's token with `whatsapp_business_messaging`."),
    appSecret: secret("The app's secret, with which Meta signs its webhooks. Without it nothing is received.").optional(),
    verifyToken: secret("Any text of your own: Meta repeats it when the webhook is set up.").optional(),
    apiUrl: httpUrl("Address of the Graph API.", "https://graph.facebook.com"),
  },
  { person: NUMBER, parseRecipient },
);

/** The checked section. */
export type WhatsAppConfig = z.output<typeof config>;

/** Sends and receives by WhatsApp's Cloud API. */
export default definePlugin({
  id: "whatsapp",
  aliases: ["wa"],
  config,
  channel: (context) => ({
    ...createChannel(context),
    limit: TEXT_LIMIT,
    fallback: true,
    measure: (text) => toWhatsApp(text).length,
    parseRecipient,
    request: (request, host) => answer(context, request, host),
  }),
});
