import { z } from "zod";
import { definePlugin } from "#plugin";
import { createReceiver } from "./receive.ts";
import { createReferences } from "./references.ts";
import { bytesOf, createSender } from "./send.ts";
import { createTokens, TokenError } from "./token.ts";

/** Bytes of a text. Teams takes 28 KB an activity; the rest is for what is around the text. */
const TEXT_LIMIT = 24 * 1024;
const MALFORMED =
  "must be a conversation's id (`19:…@thread.tacv2`, `a:…`) or `user:` with a user's id (`29:…` or the id in Entra, such as user:00000000-0000-0000-0000-000000000000)";

/** A recipient in its one form; undefined where it is none. */
function parseRecipient(text: string): string | undefined {
  const to = text.trim();
  if (/^(?:19:[\w.@:+-]{1,250}@(?:thread\.\w{1,20}|unq\.gbl\.spaces)|a:[\w-]{1,300})$/.test(to)) return to;
  const user = /^user:\s*(29:[\w-]{1,300}|[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})$/i.exec(to)?.[1];
  if (user === undefined) return undefined;
  // The ids of Teams tell small letters from capitals, those of Entra do not.
  return `user:${user.startsWith("29:") ? user : user.toLowerCase()}`;
}

const url = (fallback: string) =>
  z
    .url({ protocol: /^https?$/ })
    .transform((text) => text.replace(/\/+$/, ""))
    .default(fallback);
const text = z.string().trim().min(1);

const config = z.strictObject({
  appId: z
    .string()
    .regex(/^[\w-]{1,100}$/, "must be the app's id")
    .describe("The bot's Microsoft app id."),
  appSecret: text.describe("A client secret of the app."),
  tenantId: text.default("botframework.com").describe("The app's tenant; `botframework.com` for a bot of many tenants."),
  loginUrl: url("https://login.microsoftonline.com").describe("Where the bot's token comes from."),
  serviceUrl: url("https://smba.trafficmanager.net/teams").describe("The Bot Connector for conversations that nobody has begun yet."),
  openIdUrl: url("https://login.botframework.com/v1/.well-known/openidconfiguration").describe(
    "Metadata of the keys that sign what comes in.",
  ),
  allowFrom: z
    .array(text.transform((id) => (parseRecipient(`user:${id.replace(/^user:/, "")}`) ?? id).replace(/^user:/, "")))
    .default([])
    .describe("Ids of those who may speak to the agent: the object id in Entra, else `29:…`; none: nobody."),
  defaultTo: text.optional().describe("The recipient where none is named."),
});

/** The checked section. */
export type TeamsConfig = z.output<typeof config>;

/** Sends and receives by the Bot Connector of Microsoft Teams. */
export default definePlugin({
  id: "msteams",
  aliases: ["teams"],
  config,
  channel(context) {
    const references = createReferences(context);
    const tokens = createTokens(context);
    const send = createSender(context, tokens, references);
    const { allowFrom, defaultTo } = context.config;
    return {
      limit: TEXT_LIMIT,
      allowFrom,
      ...(defaultTo !== undefined && { defaultTo: parseRecipient(defaultTo) ?? defaultTo }),
      // Reading markdown costs time, and what is far too long is cut in any case.
      measure: (piece) => (piece.length > 2 * TEXT_LIMIT ? piece.length : bytesOf(piece)),
      parseRecipient(to) {
        const found = parseRecipient(to);
        return found === undefined ? { ok: false, message: MALFORMED } : { ok: true, to: found };
      },
      send,
      async probe(signal) {
        try {
          await tokens.ask(signal);
          return { ok: true };
        } catch (error) {
          return { ok: false, message: error instanceof TokenError ? error.message : "Microsoft's sign-in cannot be reached" };
        }
      },
      request: createReceiver(context, references),
    };
  },
});
