import { z } from "zod";
import { channelConfig, httpUrl, typingSetting } from "#channel-kit";
import { definePlugin } from "#plugin";
import { createContentReader } from "./files.ts";
import { createReceiver } from "./receive.ts";
import { createChannel, render } from "./send.ts";
import { createServer, parseRecipient, PERSON } from "./server.ts";

/** By custom; Messages takes more, and says nowhere how much. */
const LONGEST_MESSAGE = 4_000;
const SECRET =
  "Last part of the address of the server's webhook, /channels/imessage/<secret>. Without it the server is asked every 3 seconds.";

const config = channelConfig(
  {
    url: httpUrl("Address of the BlueBubbles server, like http://192.168.1.20:1234."),
    password: z.string().min(1).describe("The server's password."),
    webhookSecret: z
      .string()
      .regex(/^[\w.~-]{16,200}$/, { error: "must be 16 to 200 letters, digits or any of . _ ~ -" })
      .optional()
      .describe(SECRET),
    mentions: z
      .array(z.string().trim().min(2))
      .default([])
      .describe(
        "Words by which a group calls the agent. None: the agent gets no messages of groups.",
      ),
    privateApi: z
      .boolean()
      .default(false)
      .describe(
        "Whether the server's Private API is on: then answers quote what they answer, and people see that the agent is typing.",
      ),
    typing: typingSetting(" With `privateApi` alone."),
  },
  { person: PERSON, parseRecipient },
);

/** iMessage, by a BlueBubbles server on a Mac. */
export default definePlugin({
  id: "imessage",
  aliases: ["imsg"],
  setupQuestions: {
    name: "iMessage (BlueBubbles)",
    where: "https://bluebubbles.app: a Mac runs the server; its password is in Connection settings",
    fields: [
      { name: "url", ask: "Address of the BlueBubbles server" },
      { name: "password", ask: "Server password", env: "BLUEBUBBLES_PASSWORD" },
      {
        name: "webhookSecret",
        ask: "Secret part of the webhook's address (make one up)",
        env: "BLUEBUBBLES_WEBHOOK_SECRET",
      },
    ],
    owner: "your own number or e-mail address",
  },
  config,
  channel({
    config: { url, password, webhookSecret, mentions, privateApi, allowFrom },
    fetch,
    clock,
  }) {
    const server = createServer({ fetch, clock }, url, password);
    return {
      ...createChannel(server, privateApi),
      ...createReceiver(server, webhookSecret, { mentions, allowFrom }),
      ...createContentReader(server),
      limit: LONGEST_MESSAGE,
      lengthOf: (text) => render(text).length,
      parseRecipient,
    };
  },
});
