/** The promises of all channels beyond `testChannel`: their settings, and messages that are written down. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import JSON5 from "json5";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { ConfigInput } from "../../src/config/schema/index.ts";
import { load, userFolder } from "../plugin/support.ts";
import { listening, testHost } from "./gateway.ts";
import { openChannel } from "./open.ts";
import { APP_TOKEN, BOT_TOKEN, startSlack } from "./slack-server.ts";
import { CHANNEL as TEAMS_CHANNEL, ENTRA, PERSONAL, USER as TEAMS_USER } from "./teams-server.ts";
import { VENDORS, type FarSide, type Vendor } from "./vendors.ts";

const DOCS = resolve(import.meta.dirname, "../../docs/channels");

/** The issues of the configs on the page of a channel. Each config is loaded as the page shows it. */
async function issuesOfPage(id: string): Promise<unknown[]> {
  const page = readFileSync(`${DOCS}/${id}.md`, "utf8");
  const configs = [...page.matchAll(/^```json5\n([^]*?)^```$/gm)].map(([, text = ""]) =>
    JSON5.parse<ConfigInput>(text.replace(/\$\{\w+\}/g, "0123456789abcdef-secret")),
  );
  const loaded = await Promise.all(configs.map((config) => load(userFolder({}).dir, config)));
  return loaded.length === 0
    ? ["the page shows no config"]
    : loaded.flatMap(({ issues }) => issues);
}

const SIGNAL_ID = "11111111-2222-4333-8444-555555555555";
const SIGNAL_GROUP = "Pmpi+EfPWmsxiomLe9Nx2XF9HOE483p6iKiFj65iMwI=";
const GUID = "iMessage;+;chat123456";
const SNOWFLAKE = "600000000000000001";
const POST_ID = "townsquare0000000000000000";

interface Settings {
  /** Ways to write a recipient, and its canonical form. */
  recipients: [written: string, to: string][];
  /** An entry of `allowFrom` as it is written and as it is kept, and one that is none. */
  person: [written: string | number, kept: string];
  nobody: string;
  /** Other settings that are wrong: each is an issue at its path. */
  wrong?: Record<string, unknown>;
}

const SETTINGS: Record<string, Settings> = {
  telegram: {
    recipients: [
      [" @SomeWhere ", "@somewhere"],
      ["-1001234567890", "-1001234567890"],
      ["-1001234567890:7", "-1001234567890:7"],
      ["@somewhere:7", "@somewhere:7"],
    ],
    person: [43, "43"],
    nobody: "@ada",
  },
  discord: {
    recipients: [
      [` ${SNOWFLAKE} `, SNOWFLAKE],
      [`channel:${SNOWFLAKE}`, SNOWFLAKE],
      [`<#${SNOWFLAKE}>`, SNOWFLAKE],
      [`user:${SNOWFLAKE}`, `user:${SNOWFLAKE}`],
      [`<@${SNOWFLAKE}>`, `user:${SNOWFLAKE}`],
      [`<@!${SNOWFLAKE}>`, `user:${SNOWFLAKE}`],
    ],
    person: [SNOWFLAKE, SNOWFLAKE],
    nobody: "ada",
  },
  slack: {
    recipients: [
      ["U0123ABC", "user:U0123ABC"],
      ["@U0123ABC", "user:U0123ABC"],
      ["user:W0123ABC", "user:W0123ABC"],
      ["D0123ABC", "D0123ABC"],
      ["#General", "#general"],
      ["#büro-2", "#büro-2"],
    ],
    person: ["U0123ABC", "U0123ABC"],
    nobody: "rosa",
  },
  mattermost: {
    recipients: [
      [POST_ID.toUpperCase(), POST_ID],
      [`user:${POST_ID}`, `user:${POST_ID}`],
      ["@Rosa.Maria-2_x", "@rosa.maria-2_x"],
    ],
    person: [POST_ID, POST_ID],
    nobody: "@rosa",
  },
  signal: {
    recipients: [
      ["+1 (555) 123-45.67", "+15551234567"],
      // As lists of contacts copy it, and as people write it for callers from abroad.
      ["\u202A+44 (0)20 7946\u20110958\u202C", "+442079460958"],
      [SIGNAL_ID.toUpperCase(), `uuid:${SIGNAL_ID}`],
      [`UUID:${SIGNAL_ID}`, `uuid:${SIGNAL_ID}`],
      ["u:Name.01", "u:name.01"],
      [`group:${SIGNAL_GROUP.replaceAll("+", "-")}`, `group:${SIGNAL_GROUP}`],
    ],
    person: ["+1 555 123 4567", "+15551234567"],
    nobody: `group:${SIGNAL_GROUP}`,
    wrong: { account: "me", defaultTo: "somebody" },
  },
  imessage: {
    recipients: [
      ["+1 (555) 123-4567", "+15551234567"],
      [" Ada@A.example ", "ada@a.example"],
      [`CHAT:${GUID}`, `chat:${GUID}`],
      ["chat:any;-;+15551234567", "chat:any;-;+15551234567"],
    ],
    person: ["Ada@A.example", "ada@a.example"],
    nobody: "Ada",
    wrong: { url: "ftp://a.example", defaultTo: "somebody", webhookSecret: "short" },
  },
  whatsapp: {
    recipients: ["+15557654321", "15557654321", "+1 (555) 765-4321", "0015557654321"].map(
      (written) => [written, "+15557654321"],
    ),
    person: ["+1 555 765 4321", "+15557654321"],
    nobody: "Ada",
  },
  msteams: {
    recipients: [
      [PERSONAL, PERSONAL],
      [` ${TEAMS_CHANNEL} `, TEAMS_CHANNEL],
      ["19:0123456789abcdef@thread.v2", "19:0123456789abcdef@thread.v2"],
      ["19:aaaa_bbbb@unq.gbl.spaces", "19:aaaa_bbbb@unq.gbl.spaces"],
      [`user:${TEAMS_USER}`, `user:${TEAMS_USER}`],
      [`USER: ${ENTRA.toUpperCase()}`, `user:${ENTRA}`],
    ],
    person: [`user:${ENTRA.toUpperCase()}`, ENTRA],
    nobody: " ",
    wrong: { defaultTo: "Ada" },
  },
};

it.each(VENDORS)("$id: settings and recipients are read as they are meant", async (vendor) => {
  const { recipients, person, nobody, wrong = {} } = SETTINGS[vendor.id] as Settings;
  expect(await issuesOfPage(vendor.id)).toEqual([]);
  const section = { ...vendor.section("http://127.0.0.1:1"), allowFrom: [person[0]] };
  const { channel } = await openChannel(vendor.id, section);
  expect(channel.allowFrom).toEqual([person[1]]);
  const unset = await openChannel(vendor.id, { ...section, allowFrom: undefined });
  expect(unset.channel.allowFrom).toEqual([]);
  for (const [written, to] of recipients)
    for (const text of [written, to])
      expect(channel.parseRecipient?.(text), text).toEqual({ ok: true, to });
  const { issues } = await load(userFolder({}).dir, {
    channels: { [vendor.id]: { ...section, ...wrong, allowFrom: [nobody] } },
  });
  const paths = [...Object.keys(wrong), "allowFrom[0]"].map(
    (key) => `channels.${vendor.id}.${key}`,
  );
  expect(issues.map(({ path }) => path).toSorted()).toEqual(paths.toSorted());
});

it.each(VENDORS)("$id: a message to a vendor that is not there is sent later", async (vendor) => {
  const far = await vendor.start();
  const { channel, logged } = await openChannel(vendor.id, vendor.section(far.url));
  await far.close();
  const message = { to: far.to[0] ?? "", text: "text-mark", idempotencyKey: "dlv_1.0" };
  expect(await channel.send(message, AbortSignal.timeout(5_000))).toEqual({
    status: "retry",
    reason: expect.stringMatching(/cannot be reached|no connection|ECONNREFUSED/) as unknown,
  });
  expect(logged.join()).not.toContain("text-mark");
});

const get = (id: string): Vendor => VENDORS.find((vendor) => vendor.id === id) as Vendor;

/** A channel that connects to its vendor, and what is said if the vendor refuses it. */
interface Stream extends Pick<Vendor, "id" | "section"> {
  start(): Promise<Pick<FarSide, "url" | "close"> & { write(text: string): unknown }>;
  refused: { section: object; message: RegExp };
  /** The vendor repeats a message that was not written down. On other channels the channel asks for it again. */
  isPushed?: true;
}

const stream = (id: string, refused: Stream["refused"]): Stream => ({
  ...get(id),
  refused,
  async start() {
    const far = await get(id).start();
    return { url: far.url, close: far.close, write: (text) => far.speak(text) };
  },
});

const STREAMS: Stream[] = [
  stream("telegram", {
    section: { token: "777000111:wrong" },
    message: /telegram does not know the bot token \(401\)/,
  }),
  stream("discord", {
    section: { token: "wrong.token" },
    message: /discord does not know the bot token \(401\)/,
  }),
  stream("mattermost", { section: { token: "wrong-token" }, message: /401/ }),
  stream("signal", { section: { account: "+15550001111" }, message: /channels\.signal\.account/ }),
  {
    // It is asked where no webhook is set.
    ...stream("imessage", { section: { password: "wrong-8812" }, message: /the password/ }),
    section: (url) => ({ ...get("imessage").section(url), webhookSecret: undefined }),
  },
  {
    id: "slack",
    isPushed: true,
    section: (apiUrl) => ({ botToken: BOT_TOKEN, appToken: APP_TOKEN, apiUrl }),
    refused: { section: { appToken: "xapp-wrong" }, message: /invalid_auth/ },
    async start() {
      const server = await startSlack();
      let count = 0;
      const direct = { type: "message", channel_type: "im", channel: "D0ANN00001" };
      return {
        url: server.url,
        close: server.close,
        write: (text) =>
          server.emit({ ...direct, user: "U0ANN00001", text, ts: `1700000001.${++count}` }),
      };
    },
  },
];

describe.each(STREAMS)(
  "$id, connected to its vendor",
  ({ id, section, start, refused, isPushed }) => {
    const open = async () => {
      const far = await start();
      onTestFinished(() => far.close());
      const host = testHost({}, { once: true });
      const listen = async () => listening((await openChannel(id, section(far.url))).channel, host);
      const received = (...texts: string[]) =>
        vi.waitFor(() => expect(host.received.map(({ text }) => text)).toEqual(texts), {
          timeout: 8_000,
          interval: 10,
        });
      const connected = () => vi.waitFor(() => expect(host.states.at(-1)?.ok).toBe(true));
      return { far, host, listen, received, connected };
    };

    it("continues at its cursor after a restart, without loss and without repetition", async () => {
      const { far, listen, received, connected } = await open();
      const first = await listen();
      await connected();
      await far.write("one");
      await received("one");
      // An acknowledgement, or the place, follows the message.
      await new Promise((passed) => setTimeout(passed, 50));
      await first.stop();
      await far.write("two");
      await far.write("three");
      await listen();
      await received("one", "two", "three");
    });

    it("hands over again what could not be written down, in order, and quotes nothing of it", async () => {
      if (isPushed) return;
      const { far, host, listen, received, connected } = await open();
      await listen();
      await connected();
      host.refuse(1);
      await far.write("text-mark");
      await far.write("two");
      await received("text-mark", "two");
      await vi.waitFor(() => expect(host.states.at(-1)?.ok).toBe(true));
      expect(host.states.some(({ ok }) => !ok)).toBe(true);
      expect(JSON.stringify(host.states)).not.toMatch(/text-mark|disk/);
    });

    it("reports a credential that is refused, without showing it, and stops at any time", async () => {
      const far = await start();
      onTestFinished(() => far.close());
      const { channel } = await openChannel(id, { ...section(far.url), ...refused.section });
      const host = testHost();
      const { stop } = listening(channel, host);
      await vi.waitFor(() => expect(host.states[0]?.ok).toBe(false), 5_000);
      expect(host.states[0]?.message).toMatch(refused.message);
      const [shown] = Object.values(refused.section) as string[];
      expect(JSON.stringify(host.states)).not.toContain(shown);
      await stop();
    });
  },
);

const telegramWebhook: Vendor = {
  ...get("telegram"),
  section: (url) => ({
    ...get("telegram").section(url),
    mode: "webhook",
    webhookSecret: "s3cret-of-the-webhook",
  }),
  async start() {
    const far = await get("telegram").start();
    const from = { id: 42, is_bot: false, first_name: "Ann" };
    const chat = { id: 42, type: "private", first_name: "Ann" };
    const body = (text: string) =>
      JSON.stringify({ update_id: 1, message: { message_id: 1, date: 1, from, chat, text } });
    const headers = { "x-telegram-bot-api-secret-token": "s3cret-of-the-webhook" };
    const url = "http://rouse.test/channels/telegram";
    return {
      ...far,
      speak: async (text) => new Request(url, { method: "POST", headers, body: body(text) }),
    };
  },
};

it.each([...["whatsapp", "msteams", "slack", "imessage"].map(get), telegramWebhook])(
  "$id: a webhook's message is taken once it is written down, and has the same id each time",
  async (vendor) => {
    const far = await vendor.start();
    onTestFinished(async () => far.close());
    const host = testHost();
    const { channel } = await openChannel(vendor.id, vendor.section(far.url), Date.now);
    const request = await far.speak("hello");
    const post = () =>
      channel.request?.(request?.clone() as Request, host).then(
        ({ status }) => status,
        () => 500,
      );
    host.refuse(1);
    expect(await post()).toBeGreaterThanOrEqual(500);
    expect(host.received).toEqual([]);
    expect(await post()).toBeLessThan(300);
    expect(await post()).toBeLessThan(300);
    expect(host.received.map(({ text }) => text)).toEqual(["hello", "hello"]);
    expect(new Set(host.received.map(({ id }) => id)).size).toBe(1);
  },
);
