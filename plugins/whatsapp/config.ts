import { z } from "zod";
import {
  channelConfig,
  httpUrl,
  phoneNumber,
  recipients,
  secret,
  typingSetting,
} from "#channel-kit";

/** A phone number as `+` and digits, also from one that Meta writes without the `+`; undefined where it is none. */
export function parseNumber(text: string): string | undefined {
  return phoneNumber(`+${text.trim().replace(/^(?:\+|00)/, "")}`);
}

const NUMBER = {
  like: "a phone number with its country code, such as +15551234567",
  pattern: /^(.+)$/,
  to: parseNumber,
};
const USER_ID = /^[A-Z]{2}\.(?:ENT\.)?[A-Za-z0-9]{1,128}$/;
const BUSINESS_SCOPED = {
  like: "a business-scoped user id, such as US.13491208655302741918",
  pattern: USER_ID,
};
export const parseRecipient = recipients(NUMBER, BUSINESS_SCOPED);

/** Returns whether a text is a business-scoped user id: people with a username need not show their number. */
export const isUserId = (text: unknown): text is string =>
  typeof text === "string" && USER_ID.test(text);

export const config = channelConfig(
  {
    phoneNumberId: z
      .string()
      .regex(/^\d+$/, "must be the number's id: digits alone")
      .describe("The id of the phone number that sends, not the number itself."),
    accessToken: secret("A system user's token with `whatsapp_business_messaging`."),
    appSecret: secret(
      "The app's secret, with which Meta signs its webhooks. Without it nothing is received.",
    ).optional(),
    verifyToken: secret(
      "Any text of your own: Meta repeats it when the webhook is set up.",
    ).optional(),
    typing: typingSetting(" It marks the message as read, too."),
    template: z
      .strictObject({
        name: z
          .string()
          .regex(
            /^[a-z0-9_]{1,512}$/,
            "must be the name of a template: small letters, digits and `_`",
          )
          .describe("The name of the template."),
        language: z
          .string()
          .regex(/^[a-z]{2,3}(?:_[A-Za-z]{2,4})?$/, "must be a language code, such as en_US")
          .describe("The language of the template, such as `en_US`."),
      })
      .optional()
      .describe(
        "An approved template whose body has one parameter. It carries the text if WhatsApp refuses free text, since the recipient last wrote more than 24 hours ago.",
      ),
    apiUrl: httpUrl("Address of the Graph API.", "https://graph.facebook.com"),
  },
  { person: [NUMBER, BUSINESS_SCOPED], parseRecipient },
);

/** The checked section. */
export type WhatsAppConfig = z.output<typeof config>;
