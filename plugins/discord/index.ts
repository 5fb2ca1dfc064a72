import { z } from "zod";
import { definePlugin, type Channel } from "#plugin";
import { createClient, problemOf } from "./client.ts";
import { toDiscord } from "./format.ts";
import { listen } from "./receive.ts";
import { createSend, LIMIT } from "./send.ts";

const SNOWFLAKE = /^\d{15,20}$/;

const schema = z.strictObject({
  token: z.string().trim().min(1).describe("Token of the bot, from the Discord Developer Portal."),
  apiUrl: z.url().default("https://discord.com/api").describe("Address of the HTTP API, without its version."),
  gatewayUrl: z
    .url({ protocol: /^wss?$/ })
    .optional()
    .describe("Address of the gateway. Default: what the API says."),
  allowFrom: z
    .array(z.string().regex(SNOWFLAKE, "must be a user's id, a number of 15 to 20 digits in quotes"))
    .default([])
    .describe("User ids of those who may speak to the agent, in quotes. Empty: nobody."),
  defaultTo: z.string().trim().min(1).optional().describe("The recipient where none is named: a channel's id, or `user:` and a user's id."),
});

/** The section `channels.discord`. */
export type Config = z.output<typeof schema>;

const parseRecipient: NonNullable<Channel["parseRecipient"]> = (to) => {
  const given = to.trim();
  const channel = /^(?:channel:(\d{15,20})|<#(\d{15,20})>|(\d{15,20}))$/.exec(given)?.slice(1).find(Boolean);
  if (channel !== undefined) return { ok: true, to: channel };
  const user = /^(?:user:(\d{15,20})|<@!?(\d{15,20})>)$/.exec(given)?.slice(1).find(Boolean);
  if (user !== undefined) return { ok: true, to: `user:${user}` };
  return { ok: false, message: "must be a channel's id such as 1099999999999999999, or \"user:\" and a user's id" };
};

/** Replies to Discord, and messages from there. */
export default definePlugin({
  id: "discord",
  config: schema,
  channel(context) {
    const { config } = context;
    const client = createClient(context);
    return {
      limit: LIMIT,
      measure: (text) => toDiscord(text).length,
      allowFrom: config.allowFrom,
      ...(config.defaultTo === undefined ? {} : { defaultTo: config.defaultTo }),
      parseRecipient,
      send: createSend(client),
      async probe(signal) {
        try {
          await (await client()).get("/users/@me", { signal });
          return { ok: true };
        } catch (error) {
          return { ok: false, message: problemOf(error).reason };
        }
      },
      listen: (signal, host) => listen(context, client, signal, host),
    };
  },
});
