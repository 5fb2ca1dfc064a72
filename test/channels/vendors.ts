import type { Fault } from "../contract/channel.ts";
import { blueBubblesServer, PASSWORD } from "./bluebubbles-server.ts";
import { CHANNEL as DISCORD_CHANNEL, DIRECT as DISCORD_DIRECT, startDiscord, USER as DISCORD_USER } from "./discord-server.ts";
import { DIRECT, ROSA, startMattermost, TOKEN, TOWN } from "./mattermost-server.ts";
import { ACCOUNT, signalServer } from "./signal-server.ts";
import { BOT_TOKEN, eventCallback, signedRequest, SIGNING_SECRET, startSlack } from "./slack-server.ts";
import { startTelegram } from "./telegram-server.ts";
import { section as teamsSection } from "./teams-world.ts";
import { activityRequest, CHANNEL, directMessage, PERSONAL, teamsServer } from "./teams-server.ts";
import { notification, textMessage, valueOf, whatsappServer } from "./whatsapp-server.ts";
import { section as whatsappSection } from "./whatsapp-world.ts";

/** The far side of a channel, as tests of all channels see it. */
export interface FarSide {
  url: string;
  /** Recipients that exist. */
  to: string[];
  /** What the far side calls a recipient. */
  arrivesAs(to: string): string;
  arrived(): { to: string; text: string }[];
  /** The next requests fail in this way. */
  fail(fault: Fault, times: number): void;
  /** The owner writes to the agent: a request that the vendor sends to the gateway, or what its stream says. */
  speak(text: string): Promise<Request | undefined>;
  /** Where the answer to that arrives. */
  answersTo: string;
  close(): Promise<void> | void;
}

/** A channel with a local server that speaks its vendor's wire format. */
export interface Vendor {
  id: string;
  /** The section of the config, in which the owner may speak. */
  section(url: string): Record<string, unknown>;
  /** The plugin's own client keeps the vendor's waits: a test cannot make them pass quicker. */
  realTime?: true;
  start(): Promise<FarSide>;
}

let spoken = 0;
const OWNER = "+15551234567";
const OWNER_ID = "11111111-2222-4333-8444-555555555555";
const WEBHOOK_SECRET = "0123456789abcdef-secret";

const TELEGRAM_TOKEN = "777000111:AAtest-token_of_the_bot-0123456789";
const TELEGRAM_FAULTS: Partial<Record<Fault, "429" | "502" | "cut">> = {
  "rate-limited": "429",
  unavailable: "502",
  "cut-connection": "cut",
};
const DISCORD_TOKEN = "NzAwMDAw.test-token.of-the-bot_0123456789";
const DISCORD_FAULTS: Partial<Record<Fault, "429" | "502" | "cut before">> = {
  "rate-limited": "429",
  unavailable: "502",
  "cut-connection": "cut before",
};

const same = (to: string): string => to;
const NUMBERS = ["+15551234567", "+15551234568", "+15551234569"];

/** Every channel that has a vendor. */
export const VENDORS: Vendor[] = [
  {
    id: "whatsapp",
    section: whatsappSection,
    async start() {
      const server = await whatsappServer();
      const arrived = () => server.arrived;
      const speak = async (text: string) => notification([[valueOf([textMessage(`wamid.${++spoken}`, text)])]]);
      return {
        url: server.url,
        to: NUMBERS,
        arrivesAs: same,
        arrived,
        fail: server.fail,
        speak,
        answersTo: "+15557654321",
        close: server.close,
      };
    },
  },
  {
    id: "msteams",
    section: teamsSection,
    async start() {
      const server = await teamsServer();
      const to = [PERSONAL, CHANNEL];
      const speak = async (text: string) => activityRequest(directMessage(server.url, { id: String(++spoken), text }), await server.sign());
      const { fail, close } = server;
      return { url: server.url, to, arrivesAs: same, arrived: () => server.arrived, fail, speak, answersTo: PERSONAL, close };
    },
  },
  {
    id: "signal",
    section: (url) => ({ url, account: ACCOUNT, allowFrom: [OWNER] }),
    async start() {
      const server = await signalServer();
      const arrived = () =>
        server.sent.map(({ recipient, groupId, message }) => ({ to: recipient?.[0] ?? groupId ?? "", text: message ?? "" }));
      const speak = async (message: string): Promise<undefined> => {
        const timestamp = 1_760_000_000_000 + ++spoken;
        const dataMessage = { timestamp, message, expiresInSeconds: 0, viewOnce: false };
        const from = { sourceNumber: OWNER, sourceUuid: OWNER_ID, sourceName: "Ada", sourceDevice: 1 };
        server.emit({ envelope: { ...from, timestamp, serverReceivedTimestamp: timestamp, dataMessage } });
      };
      return { url: server.url, to: NUMBERS, arrivesAs: same, arrived, fail: server.fail, speak, answersTo: OWNER_ID, close: server.close };
    },
  },
  {
    id: "imessage",
    section: (url) => ({ url, password: PASSWORD, webhookSecret: WEBHOOK_SECRET, allowFrom: [OWNER] }),
    async start() {
      const server = await blueBubblesServer(() => Date.now());
      const arrived = () => server.sent.map(({ chatGuid, text }) => ({ to: chatGuid.replace(/^.*;-;/, ""), text }));
      const speak = async (text: string) =>
        new Request(`http://rouse.test/channels/imessage/${WEBHOOK_SECRET}`, { method: "POST", body: JSON.stringify(server.arrive(text)) });
      return { url: server.url, to: NUMBERS, arrivesAs: same, arrived, fail: server.fail, speak, answersTo: OWNER, close: server.close };
    },
  },
  {
    id: "slack",
    section: (apiUrl) => ({ botToken: BOT_TOKEN, signingSecret: SIGNING_SECRET, apiUrl, allowFrom: ["U0ANN00001"] }),
    async start() {
      const server = await startSlack();
      const arrived = () => server.posts.map(({ channel, text }) => ({ to: channel, text }));
      const to = ["C0123ABC", "C0123ABD", "C0123ABE"];
      const speak = async (text: string) => {
        const at = Math.floor(Date.now() / 1000);
        const event = { type: "message", channel_type: "im", channel: "D0ANN00001", user: "U0ANN00001", text, ts: `${at}.${++spoken}` };
        return signedRequest(eventCallback(event, `Ev${spoken}`), { at });
      };
      const { fail, close } = server;
      return { url: server.url, to, arrivesAs: same, arrived, fail, speak, answersTo: "D0ANN00001", close };
    },
  },
  {
    id: "mattermost",
    section: (url) => ({ url, token: TOKEN, allowFrom: [ROSA] }),
    async start() {
      const server = await startMattermost();
      const arrived = () => server.posts.map(({ channel_id, message }) => ({ to: channel_id, text: message }));
      const speak = async (message: string): Promise<undefined> => void server.write({ message, channel_id: DIRECT, user_id: ROSA });
      const { fail, close } = server;
      return { url: server.url, to: [TOWN, DIRECT], arrivesAs: same, arrived, fail, speak, answersTo: DIRECT, close };
    },
  },
  {
    id: "telegram",
    section: (url) => ({ token: TELEGRAM_TOKEN, apiUrl: `${url}/`, allowFrom: ["42"] }),
    async start() {
      const server = await startTelegram();
      // As people read a link: its text, then where it leads.
      const read = (html: string): string => html.replaceAll(/<a href="([^"]*)">(.*?)<\/a>/gs, "$2 ($1)");
      const arrived = () => server.messages.map(({ chat, raw }) => ({ to: chat, text: read(raw) }));
      const fail = (fault: Fault, times: number) => server.fail(TELEGRAM_FAULTS[fault] ?? "502", { times, method: "sendMessage" });
      const speak = async (text: string): Promise<undefined> => {
        const from = { id: 42, is_bot: false, first_name: "Ann" };
        const chat = { id: 42, type: "private" as const, first_name: "Ann" };
        server.push({ message: { message_id: ++spoken, date: 1_760_000_000, from, chat, text } });
      };
      return { url: server.url, to: ["42", "-1001234567890"], arrivesAs: same, arrived, fail, speak, answersTo: "42", close: server.close };
    },
  },
  {
    id: "discord",
    realTime: true,
    section: (url) => ({ token: DISCORD_TOKEN, apiUrl: `${url}/`, allowFrom: [DISCORD_USER] }),
    async start() {
      const server = await startDiscord();
      const arrived = () => server.messages.map(({ channel, content }) => ({ to: channel, text: content }));
      const fail = (fault: Fault, times: number) => server.fail(DISCORD_FAULTS[fault] ?? "502", { times });
      const speak = async (content: string): Promise<undefined> => {
        server.push({
          id: `1100000000000${++spoken}`,
          channel_id: DISCORD_DIRECT,
          type: 0,
          content,
          author: { id: DISCORD_USER },
          mentions: [],
          attachments: [],
        });
      };
      const to = [DISCORD_CHANNEL, DISCORD_DIRECT];
      return { url: server.url, to, arrivesAs: same, arrived, fail, speak, answersTo: DISCORD_DIRECT, close: server.close };
    },
  },
];
