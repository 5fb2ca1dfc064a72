/** The suite that plugins of others pass too, for each of Rouse's own channels. */
import type { TypingPlace } from "../../src/plugin/api.ts";
import { testChannel } from "../../src/testing/channel.ts";
import { PASSWORD } from "./bluebubbles-server.ts";
import { RETRY_AFTER as DISCORD_WAIT, USER as DISCORD_USER } from "./discord-server.ts";
import { RATE_RESET_S, TOKEN, TOWN } from "./mattermost-server.ts";
import { openChannel } from "./open.ts";
import { ACCOUNT } from "./signal-server.ts";
import { BOT_TOKEN, RETRY_AFTER_S, SIGNING_SECRET } from "./slack-server.ts";
import { APP_SECRET as TEAMS_SECRET, PERSONAL, USER as TEAMS_USER } from "./teams-server.ts";
import { RETRY_AFTER as TELEGRAM_WAIT } from "./telegram-server.ts";
import { VENDORS } from "./vendors.ts";
import { ACCESS_TOKEN, APP_SECRET } from "./whatsapp-server.ts";

interface Facts {
  malformed: string[];
  retryAfterMs: number;
  /** Beside the credentials, people's addresses. */
  secrets: string[];
  /** Settings that more of the channel needs. */
  section?: object;
  typing?: Omit<TypingPlace, "to">;
  /** The number of requests that fail, where the plugin asks again by itself. Default: all. */
  failures?: number;
}

const FACTS: Record<string, Facts> = {
  whatsapp: {
    malformed: ["", "Ada", "@ada", "+1", "0151 2345678", "+1555765432100000", "+1555x654321"],
    retryAfterMs: 2_000,
    secrets: [ACCESS_TOKEN, APP_SECRET, "15557654321"],
    typing: { replyTo: "wamid.q" },
  },
  msteams: {
    malformed: [
      "",
      "Ada",
      "ada@example.com",
      "user:Ada",
      "user:",
      "19:abc",
      "29:1-Ada",
      "a:",
      "a:x y",
      `user:${TEAMS_USER}/../x`,
    ],
    retryAfterMs: 2_000,
    secrets: [TEAMS_SECRET, "connector-token", PERSONAL],
  },
  signal: {
    malformed: [
      "",
      "5551234567",
      "+0123",
      "+1555123456789012",
      "group:abc",
      "uuid:123",
      "u:name",
      "someone",
      `group:${"a".repeat(44)}`,
    ],
    retryAfterMs: 7_000,
    secrets: ["+15551234567", ACCOUNT],
  },
  imessage: {
    malformed: [
      "",
      "5551234567",
      "+0123",
      "chat:",
      "chat:abc",
      "chat:iMessage;+;a b",
      "ada@",
      "@a.example",
      "Ada",
    ],
    retryAfterMs: 5_000,
    secrets: [PASSWORD, encodeURIComponent(PASSWORD), "+15551234567"],
    section: { privateApi: true },
  },
  slack: {
    malformed: [
      "general",
      "c0123abc",
      "@rosa",
      "user:rosa",
      "#",
      "#two words",
      "https://example.com",
    ],
    retryAfterMs: RETRY_AFTER_S * 1_000,
    secrets: [BOT_TOKEN, SIGNING_SECRET],
    typing: { thread: "1760000000.000001" },
  },
  mattermost: {
    malformed: ["town-square", "#town", "user:rosa", "@", "@two words", `${TOWN}1`],
    retryAfterMs: RATE_RESET_S * 1_000,
    secrets: [TOKEN],
  },
  telegram: {
    malformed: ["", "bob", "@x", "+15551234567", "42:", "42:x", "-", "@name with spaces"],
    retryAfterMs: TELEGRAM_WAIT * 1_000,
    secrets: ["AAtest-token_of_the_bot-0123456789", "777000111"],
    failures: 1,
  },
  discord: {
    malformed: ["", "general", "#general", "@ada", "user:ada", "123", `user:${DISCORD_USER}x`],
    retryAfterMs: DISCORD_WAIT * 1_000,
    secrets: ["NzAwMDAw.test-token.of-the-bot_0123456789"],
    failures: 1,
  },
};

for (const vendor of VENDORS)
  testChannel(vendor.id, async () => {
    const { malformed, retryAfterMs, secrets, section, typing, failures } = FACTS[
      vendor.id
    ] as Facts;
    const far = await vendor.start();
    const settings = { ...vendor.section(far.url), ...section };
    const { channel } = await openChannel(vendor.id, settings, Date.now);
    const { files, buttons, press } = far;
    return {
      channel,
      to: far.to[0] ?? "",
      malformed,
      retryAfterMs,
      secrets,
      sent: far.arrived,
      typing: { signs: () => far.typing?.signs ?? [], ...(typing && { place: typing }) },
      ...(files && { files: () => files }),
      ...(buttons && { buttons }),
      ...(press && { press }),
      fail(fault) {
        far.fail(fault, failures ?? Infinity);
        // One cut alone is cleared up by asking again.
        if (vendor.id === "discord" && fault === "cut-connection") far.fail("no-such-recipient", 1);
      },
      close: far.close,
    };
  });
