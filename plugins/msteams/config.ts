import { z } from "zod";
import {
  channelConfig,
  httpUrl,
  normalForm,
  recipients,
  secret,
  streamingSetting,
  typingSetting,
} from "#channel-kit";

export const parseRecipient = recipients(
  {
    like: "a conversation's id (`19:…@thread.tacv2`, `a:…`)",
    pattern: /^(?:19:[\w.@:+-]{1,250}@(?:thread\.\w{1,20}|unq\.gbl\.spaces)|a:[\w-]{1,300})$/,
  },
  {
    like: "`user:` with a user's id (`29:…` or the id in Entra, such as user:00000000-0000-0000-0000-000000000000)",
    pattern: /^user:\s*(29:[\w-]{1,300}|[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})$/i,
    // The ids of Teams tell small letters from capitals, those of Entra do not.
    to: (user = "") => `user:${user.startsWith("29:") ? user : user.toLowerCase()}`,
  },
);

const OPEN_ID = "https://login.botframework.com/v1/.well-known/openidconfiguration";

export const config = channelConfig(
  {
    appId: z
      .string()
      .regex(/^[\w-]{1,100}$/, "must be the app's id")
      .describe("The bot's Microsoft app id."),
    appSecret: secret("A client secret of the app."),
    tenantId: secret("The app's tenant; `botframework.com` for a bot of many tenants.").default(
      "botframework.com",
    ),
    typing: typingSetting(),
    streaming: streamingSetting(),
    loginUrl: httpUrl("Where the bot's token comes from.", "https://login.microsoftonline.com"),
    serviceUrl: httpUrl(
      "The Bot Connector for conversations without an earlier message.",
      "https://smba.trafficmanager.net/teams",
    ),
    openIdUrl: httpUrl("Metadata of the keys that sign what comes in.", OPEN_ID),
  },
  {
    parseRecipient,
    person: {
      like: "the object id in Entra, else `29:…`",
      pattern: /^(?:user:)?(.+)$/,
      to: (id = "") => (normalForm(parseRecipient, `user:${id}`) ?? id).replace(/^user:/, ""),
    },
  },
);

/** The checked section. */
export type TeamsConfig = z.output<typeof config>;
