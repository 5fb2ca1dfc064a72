import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** A channel that writes to a file beside the config; what stands in `fault` decides how a send ends. */
export const roomsPlugin = (id: string, more = ""): string => `
import { appendFile, readFile } from "node:fs/promises";
import { z } from "zod";
import { definePlugin } from "rouse/plugin";
export default definePlugin({
  id: "${id}",
  config: z.strictObject({ folder: z.string(), defaultTo: z.string().optional() }),
  channel: ({ config }) => ({
    limit: 50,
    ${more}
    ...(config.defaultTo ? { defaultTo: config.defaultTo } : {}),
    parseRecipient: (to) => /^[a-z]+$/.test(to) ? { ok: true, to } : { ok: false, message: "write a room in small letters" },
    send: async ({ to, text }) => {
      const fault = await readFile(config.folder + "/fault", "utf8").catch(() => "");
      if (fault) return { status: fault, reason: "as told" };
      await appendFile(config.folder + "/${id}.log", JSON.stringify({ to, text }) + "\\n");
      return { status: "sent", messageIds: ["m-" + text.length] };
    },
  }),
});`;

/** The messages that the channel of such a plugin has sent. */
export function sentTo(folder: string, id: string): { to: string; text: string }[] {
  const file = join(folder, `${id}.log`);
  // The file may be there before its first line is.
  const lines = existsSync(file) ? readFileSync(file, "utf8").split("\n").filter(Boolean) : [];
  return lines.map((line) => JSON.parse(line) as { to: string; text: string });
}
