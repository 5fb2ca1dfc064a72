import type { Fault } from "../contract/channel.ts";
import { blueBubblesServer, PASSWORD } from "./bluebubbles-server.ts";
import { DIRECT, startMattermost, TOKEN, TOWN } from "./mattermost-server.ts";
import { ACCOUNT, signalServer } from "./signal-server.ts";
import { BOT_TOKEN, startSlack } from "./slack-server.ts";
import { section as teamsSection } from "./teams-world.ts";
import { CHANNEL, PERSONAL, teamsServer } from "./teams-server.ts";
import { whatsappServer } from "./whatsapp-server.ts";
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
  close(): Promise<void> | void;
}

/** A channel with a local server that speaks its vendor's wire format. */
export interface Vendor {
  id: string;
  section(url: string): Record<string, unknown>;
  start(): Promise<FarSide>;
}

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
      return { url: server.url, to: NUMBERS, arrivesAs: same, arrived, fail: server.fail, close: server.close };
    },
  },
  {
    id: "msteams",
    section: teamsSection,
    async start() {
      const server = await teamsServer();
      const to = [PERSONAL, CHANNEL];
      return { url: server.url, to, arrivesAs: same, arrived: () => server.arrived, fail: server.fail, close: server.close };
    },
  },
  {
    id: "signal",
    section: (url) => ({ url, account: ACCOUNT }),
    async start() {
      const server = await signalServer();
      const arrived = () =>
        server.sent.map(({ recipient, groupId, message }) => ({ to: recipient?.[0] ?? groupId ?? "", text: message ?? "" }));
      return { url: server.url, to: NUMBERS, arrivesAs: same, arrived, fail: server.fail, close: server.close };
    },
  },
  {
    id: "imessage",
    section: (url) => ({ url, password: PASSWORD }),
    async start() {
      const server = await blueBubblesServer(() => Date.now());
      const arrived = () => server.sent.map(({ chatGuid, text }) => ({ to: chatGuid.replace(/^.*;-;/, ""), text }));
      return { url: server.url, to: NUMBERS, arrivesAs: same, arrived, fail: server.fail, close: server.close };
    },
  },
  {
    id: "slack",
    section: (apiUrl) => ({ botToken: BOT_TOKEN, apiUrl }),
    async start() {
      const server = await startSlack();
      const arrived = () => server.posts.map(({ channel, text }) => ({ to: channel, text }));
      const to = ["C0123ABC", "C0123ABD", "C0123ABE"];
      return { url: server.url, to, arrivesAs: same, arrived, fail: server.fail, close: server.close };
    },
  },
  {
    id: "mattermost",
    section: (url) => ({ url, token: TOKEN }),
    async start() {
      const server = await startMattermost();
      const arrived = () => server.posts.map(({ channel_id, message }) => ({ to: channel_id, text: message }));
      return { url: server.url, to: [TOWN, DIRECT], arrivesAs: same, arrived, fail: server.fail, close: server.close };
    },
  },
];
