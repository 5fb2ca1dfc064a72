import { z } from "zod";
import type { OutgoingMessage, Plugin, SendResult } from "#plugin";

const config = z.strictObject({
  defaultTo: z
    .string()
    .trim()
    .min(1)
    .default("terminal")
    .describe("The recipient if none is named."),
});

/** Replies appear in the terminal of the gateway. Of `#plugin` it takes the types alone, since it is there in every start. */
const plugin: Plugin<typeof config> = {
  id: "console",
  enabledByDefault: true,
  config,
  channel: ({ config, print }) => ({
    defaultTo: config.defaultTo,
    fallback: true,
    // One line, since it is printed beside the reply: outside text must not look like another message.
    parseRecipient: (to) =>
      /^[^\p{Cc}\p{Zl}\p{Zp}]{1,100}$/u.test(to)
        ? { ok: true, to }
        : { ok: false, message: "must be one line of at most 100 characters" },
    send: async (message) => show(print, message),
    // Prints it again: the terminal of an earlier process may be gone.
    resend: async (message) => show(print, message),
  }),
};
export default plugin;

function show(print: (text: string) => void, { to, text }: OutgoingMessage): SendResult {
  print(`\n── reply to ${to} ──\n${showControls(text)}\n`);
  return { status: "sent" };
}

/** A reply may carry text from outside, and a terminal obeys escape sequences: control characters are shown, not sent. */
function showControls(text: string): string {
  return text
    .replace(/\r\n/g, "\n")
    .replace(
      /[^\P{Cc}\n\t]/gu,
      (control) => `\\x${control.charCodeAt(0).toString(16).padStart(2, "0")}`,
    );
}
