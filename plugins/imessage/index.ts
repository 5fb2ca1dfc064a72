import { z } from "zod";
import { definePlugin } from "#plugin";
import { render } from "./format.ts";
import { listen, request } from "./receive.ts";
import { addressOf, parseRecipient } from "./recipient.ts";
import { send } from "./send.ts";
import { probe } from "./server.ts";

/** By custom; Messages takes more, and says nowhere how much. */
const LONGEST_MESSAGE = 4_000;

/** iMessage, by a BlueBubbles server on a Mac. */
export default definePlugin({
  id: "imessage",
  aliases: ["imsg"],
  config: z.strictObject({
    url: z.url({ protocol: /^https?$/ }).describe("Address of the BlueBubbles server, like http://192.168.1.20:1234."),
    password: z.string().min(1).describe("The server's password."),
    allowFrom: z
      .array(
        z.string().refine((from) => addressOf(from) !== undefined, { error: "must be a number like +15551234567 or an e-mail address" }),
      )
      .default([])
      .describe("Who may speak to the agent: numbers or e-mail addresses. Empty: nobody."),
    defaultTo: z
      .string()
      .refine((to) => parseRecipient(to).ok, { error: "must be +15551234567, an e-mail address or chat:<guid>" })
      .optional()
      .describe("The recipient where none is named: +15551234567, an e-mail address or chat:<guid>."),
    webhookSecret: z
      .string()
      .regex(/^[\w.~-]{16,200}$/, { error: "must be 16 to 200 letters, digits or any of . _ ~ -" })
      .optional()
      .describe(
        "Last part of the address of the server's webhook, /channels/imessage/<secret>. Without it the server is asked every 3 seconds.",
      ),
    mentions: z.array(z.string().trim().min(2)).default([]).describe("Words by which a group calls the agent. None: groups are not heard."),
    privateApi: z.boolean().default(false).describe("Whether the server's Private API is on: then answers quote what they answer."),
  }),
  channel({ config, fetch, clock }) {
    const { password, webhookSecret, mentions, privateApi, defaultTo } = config;
    const server = { url: config.url.replace(/\/+$/, ""), password, fetch, now: () => clock.now() };
    const sender = { ...server, privateApi, chats: new Map<string, string>(), sent: new Set<string>() };
    const receiver = { ...server, webhookSecret, mentions };
    const normal = defaultTo === undefined ? undefined : parseRecipient(defaultTo);
    return {
      limit: LONGEST_MESSAGE,
      measure: (text) => render(text).length,
      allowFrom: config.allowFrom.map((from) => addressOf(from) ?? from),
      parseRecipient,
      ...(normal?.ok ? { defaultTo: normal.to } : {}),
      send: (message, signal) => send(sender, message, signal),
      probe: (signal) => probe(server, signal),
      listen: (signal, host) => listen(receiver, signal, host),
      request: (incoming, host) => request(receiver, incoming, host),
    };
  },
});
