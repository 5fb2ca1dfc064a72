import plugin from "../../plugins/whatsapp/index.ts";
import { channelContract } from "../contract/channel.ts";
import { openChannel } from "./plugin-context.ts";
import { ACCESS_TOKEN, APP_SECRET, PHONE_NUMBER_ID, VERIFY_TOKEN, whatsappServer } from "./whatsapp-server.ts";

const section = (apiUrl: string) => ({
  phoneNumberId: PHONE_NUMBER_ID,
  accessToken: ACCESS_TOKEN,
  appSecret: APP_SECRET,
  verifyToken: VERIFY_TOKEN,
  apiUrl,
  allowFrom: ["+1 555 765 4321"],
  defaultTo: "+49 (170) 123-4567",
});

channelContract("whatsapp", async () => {
  const server = await whatsappServer();
  const { channel } = openChannel(plugin, section(server.url));
  return {
    channel,
    to: "+15557654321",
    malformed: ["", "Ada", "@ada", "+1", "0151 2345678", "+1555765432100000", "+1555x654321"],
    sent: () => server.arrived,
    fail: server.fail,
    retryAfterMs: 2000,
    secrets: [ACCESS_TOKEN, APP_SECRET, "15557654321"],
    close: server.close,
  };
});
