import { z } from "zod";
import { definePlugin, type SendResult } from "rouse/plugin";

/** Sends replies to the rooms of Acme. */
export default definePlugin({
  id: "acme",
  config: z.strictObject({
    token: z.string().min(1).describe("The bot's token."),
    apiUrl: z.url().default("https://api.acme.example").describe("The address of the API."),
    defaultTo: z.string().optional().describe("The room if a reply names none."),
  }),
  channel: ({ config, fetch }) => ({
    limit: 4000,
    ...(config.defaultTo === undefined ? {} : { defaultTo: config.defaultTo }),
    parseRecipient: (to) =>
      /^#?[a-z0-9-]{1,80}$/.test(to)
        ? { ok: true, to: to.replace(/^#/, "") }
        : { ok: false, message: "must be the name of a room" },
    async send({ to, text, idempotencyKey }, signal): Promise<SendResult> {
      const response = await fetch(`${config.apiUrl}/rooms/${to}/messages`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${config.token}`,
          "content-type": "application/json",
          "idempotency-key": idempotencyKey,
        },
        body: JSON.stringify({ text }),
        signal,
      });
      if (response.ok) return { status: "sent" };
      // A reason is stored and shown: it quotes no text and no token.
      const reason = `acme answered ${response.status}`;
      if (response.status === 429)
        return {
          status: "retry",
          reason,
          afterMs: Number(response.headers.get("retry-after") ?? 1) * 1000,
        };
      return response.status >= 500 ? { status: "retry", reason } : { status: "failed", reason };
    },
  }),
});
