import { onTestFinished } from "vitest";
import plugin from "../../plugins/whatsapp/index.ts";
import type { OutgoingMessage, SendResult } from "../../src/plugin/api.ts";
import { openPlugin } from "./open.ts";
import {
  ACCESS_TOKEN,
  APP_SECRET,
  PHONE_NUMBER_ID,
  VERIFY_TOKEN,
  whatsappServer,
} from "./whatsapp-server.ts";

/** Whom the tests write to. */
export const TO = "+15557654321";
/** The section of the config that leads to a local server. */
export const section = (apiUrl: string) => ({
  phoneNumberId: PHONE_NUMBER_ID,
  accessToken: ACCESS_TOKEN,
  appSecret: APP_SECRET,
  verifyToken: VERIFY_TOKEN,
  apiUrl,
  allowFrom: ["+1 555 765 4321"],
  defaultTo: "+49 (170) 123-4567",
});

/** Opens the channel beside a server of its own. */
export async function openWhatsApp(more: Record<string, unknown> = {}) {
  const server = await whatsappServer();
  onTestFinished(server.close);
  const opened = openPlugin(plugin, { ...section(server.url), ...more });
  const answer = opened.channel.request;
  if (!answer) throw new Error("the channel does not receive");
  return {
    ...opened,
    server,
    send: (message: Partial<OutgoingMessage>): Promise<SendResult> =>
      opened.channel.send(
        { to: TO, text: "Hello", idempotencyKey: "k", ...message },
        AbortSignal.timeout(5000),
      ),
    /** Posts to the webhook. Returns the status. */
    post: async (incoming: Request): Promise<number> =>
      (await answer(incoming, opened.host)).status,
  };
}
