import { z } from "zod";
import { channelConfig, httpUrl, phoneNumber, recipients, secret } from "#channel-kit";

/** A phone number as `+` and digits, also from one that Meta writes without the `+`; undefined where it is none. */
export function parseNumber(text: string): string | undefined {
  return phoneNumber(`+${text.trim().replace(/^(?:\+|00)/, "")}`);
}

const NUMBER = { like: "a phone number with its country code, such as +15551234567", pattern: /^(.+)$/, to: parseNumber };
export const parseRecipient = recipients(NUMBER);

export const config = channelConfig(
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
