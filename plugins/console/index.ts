import { z } from "zod";
import { definePlugin } from "#plugin";

/** Replies appear in the terminal of the gateway. */
export default definePlugin({
  id: "console",
  always: true,
  config: z
    .strictObject({
      enabled: z.boolean().default(true),
      defaultTo: z.string().min(1).default("terminal").describe("The recipient where none is named."),
    })
    .prefault({}),
  channel: ({ config, print }) => ({
    defaultTo: config.defaultTo,
    fallback: true,
    send: async ({ to, text }) => {
      print(`\n── reply to ${to} ──\n${text}\n`);
      return { status: "sent" };
    },
  }),
});
