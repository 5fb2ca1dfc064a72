import { z } from "zod";
import { definePlugin } from "#plugin";
import { toMarkdown } from "./format.ts";
import { createEvents, createSocket } from "./receive.ts";
import { createSender, MAX_MARKDOWN } from "./send.ts";

const RECIPIENT = "must be a conversation (C0123ABC), a public channel (#name) or a member (user:U0123ABC)";

/** Conversations and members have ids in capitals; a name needs its `#`. */
function parseRecipient(to: string): { ok: true; to: string } | { ok: false; message: string } {
  const member = /^(?:user:|@)?([UW][A-Z0-9]{2,30})$/.exec(to)?.[1];
  if (member !== undefined) return { ok: true, to: `user:${member}` };
  if (/^[CDG][A-Z0-9]{2,30}$/.test(to)) return { ok: true, to };
  if (/^#[\p{L}\p{M}\p{N}_-]{1,80}$/u.test(to)) return { ok: true, to: to.toLowerCase() };
  const hint = to.startsWith("@") ? "; names of members change, so give the member ID from the profile" : "";
  return { ok: false, message: RECIPIENT + hint };
}

/** Replies to Slack; direct messages and mentions from it. */
export default definePlugin({
  id: "slack",
  config: z.strictObject({
    botToken: z.string().min(1).describe("The bot's token (xoxb-…), from OAuth & Permissions."),
    appToken: z.string().min(1).optional().describe("The app-level token (xapp-…) with connections:write: messages come by Socket Mode."),
    signingSecret: z
      .string()
      .min(1)
      .optional()
      .describe("The app's signing secret: messages come to /channels/slack/events. Not used beside `appToken`."),
    apiUrl: z.url().default("https://slack.com/api/").describe("The address of the Web API."),
    allowFrom: z
      .array(z.string().regex(/^[UW][A-Z0-9]{2,30}$/, "must be a member's ID, as U0123ABC"))
      .default([])
      .describe("IDs of the members who may speak to the agent. Empty: nobody."),
    defaultTo: z.string().trim().min(1).optional().describe("The recipient where none is named."),
  }),
  channel: (context) => {
    const { appToken, signingSecret, allowFrom, defaultTo } = context.config;
    return {
      ...createSender(context),
      limit: MAX_MARKDOWN,
      measure: (text) => toMarkdown(text).length,
      parseRecipient,
      allowFrom,
      ...(defaultTo === undefined ? {} : { defaultTo }),
      ...(appToken === undefined ? {} : createSocket(context, appToken)),
      ...(appToken !== undefined || signingSecret === undefined ? {} : createEvents(signingSecret, context.clock)),
    };
  },
});
