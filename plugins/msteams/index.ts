import { definePlugin } from "#plugin";
import { config, parseRecipient } from "./config.ts";
import { createFileFetcher } from "./files.ts";
import { createReceiver } from "./receive.ts";
import { createReferences } from "./references.ts";
import { countBytes, createChannel, createTokens } from "./send.ts";

/** Bytes of a text. Teams takes 28 KB an activity; the rest is for what is around the text. */
const TEXT_LIMIT = 24 * 1024;

/** Sends and receives by the Bot Connector of Microsoft Teams. */
export default definePlugin({
  id: "msteams",
  aliases: ["teams"],
  setupQuestions: {
    name: "Microsoft Teams",
    where:
      "https://portal.azure.com → Azure Bot → Configuration; the secret is under Manage password",
    fields: [
      { name: "appId", ask: "Application (client) id" },
      { name: "appSecret", ask: "Client secret", env: "MSTEAMS_APP_SECRET" },
      { name: "tenantId", ask: "Directory (tenant) id" },
    ],
    owner: "your Entra object id",
  },
  config,
  channel(context) {
    const references = createReferences(context);
    const tokens = createTokens(context);
    return {
      ...createChannel(context, references, tokens),
      fetchFile: createFileFetcher(context, tokens),
      limit: TEXT_LIMIT,
      lengthOf: countBytes,
      parseRecipient,
      directRecipient: (person) => `user:${person}`,
      request: createReceiver(context, references),
    };
  },
});
