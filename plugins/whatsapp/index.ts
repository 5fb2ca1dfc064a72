import { definePlugin } from "#plugin";
import { config, parseRecipient } from "./config.ts";
import { createFileFetcher } from "./files.ts";
import { toWhatsApp } from "./format.ts";
import { answerRequest } from "./receive.ts";
import { createChannel } from "./send.ts";

/** Characters of one message, as they are after they are put into WhatsApp's dialect. */
const TEXT_LIMIT = 4096;

/** Sends and receives by WhatsApp's Cloud API. */
export default definePlugin({
  id: "whatsapp",
  aliases: ["wa"],
  setupQuestions: {
    name: "WhatsApp (Cloud API)",
    where:
      "https://developers.facebook.com/apps → your app → WhatsApp → API setup; a token that lasts comes from a system user",
    fields: [
      { name: "phoneNumberId", ask: "Phone number id" },
      { name: "accessToken", ask: "Access token", env: "WHATSAPP_ACCESS_TOKEN" },
      { name: "appSecret", ask: "App secret", env: "WHATSAPP_APP_SECRET" },
      {
        name: "verifyToken",
        ask: "Verify token (make one up; you give it to Meta with the webhook)",
        env: "WHATSAPP_VERIFY_TOKEN",
      },
    ],
    owner: "your phone number, digits with the country code",
  },
  config,
  channel: (context) => ({
    ...createChannel(context),
    fetchFile: createFileFetcher(context),
    limit: TEXT_LIMIT,
    fallback: true,
    lengthOf: (text) => toWhatsApp(text).length,
    parseRecipient,
    request: (request, host) => answerRequest(context, request, host),
  }),
});
