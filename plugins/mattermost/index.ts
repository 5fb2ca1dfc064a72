import { z } from "zod";
import { definePlugin } from "#plugin";
import { toMattermost } from "./format.ts";
import { createListener } from "./receive.ts";
import { createSender } from "./send.ts";

/** The longest message, in characters. Servers of before version 5 may take 4,000 only. */
const LIMIT = 16_383;
const ID = "[a-z0-9]{26}";

/** Ids are 26 small letters and digits; names of members carry an `@`. */
function parseRecipient(to: string): { ok: true; to: string } | { ok: false; message: string } {
  const text = to.toLowerCase();
  if (new RegExp(`^(?:user:)?${ID}$`).test(text) || /^@[a-z0-9][a-z0-9._-]{0,63}$/.test(text)) return { ok: true, to: text };
  return { ok: false, message: "must be a channel's id (26 letters and digits), user:<a member's id> or @<a member's name>" };
}

/** Replies to Mattermost; direct messages and mentions from it. */
export default definePlugin({
  id: "mattermost",
  config: z.strictObject({
    url: z.url({ protocol: /^https?$/ }).describe("The address of the server, as https://chat.example.com."),
    token: z.string().min(1).describe("The access token of a bot account, from Integrations, Bot Accounts."),
    allowFrom: z
      .array(z.string().regex(new RegExp(`^${ID}$`), "must be a member's id: 26 small letters and digits"))
      .default([])
      .describe("Ids of the members who may speak to the agent. Empty: nobody."),
    defaultTo: z.string().trim().min(1).optional().describe("The recipient where none is named."),
  }),
  channel: (context) => {
    const { allowFrom, defaultTo } = context.config;
    return {
      ...createSender(context),
      ...createListener(context),
      limit: LIMIT,
      measure: (text) => [...toMattermost(text)].length,
      parseRecipient,
      allowFrom,
      ...(defaultTo === undefined ? {} : { defaultTo }),
    };
  },
});
