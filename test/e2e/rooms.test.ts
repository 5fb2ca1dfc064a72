import type { Message } from "grammy/types";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  BOT_TOKEN,
  BOT_USER,
  eventCallback,
  signedRequest,
  SIGNING_SECRET,
  startSlack,
  type SlackServer,
} from "../channels/slack-server.ts";
import { BOT, startTelegram, type TelegramServer } from "../channels/telegram-server.ts";
import { createProvider, modelConfig, type ChatRequest, type Provider } from "./provider.ts";
import { createWorld, type World } from "./world.ts";

/** Three people, each with an account on both channels, and someone who may not speak. */
const PEOPLE = {
  ann: { telegram: 42, slack: "U0ANN00001" },
  bob: { telegram: 43, slack: "U0BOB00001" },
  cid: { telegram: 44, slack: "U0CID00001" },
} as const;
type Person = keyof typeof PEOPLE;
const NAMES = Object.keys(PEOPLE) as Person[];
const STRANGER = 99;

const GROUP = -1001234567890;
const TOPIC = 7;
const ROOM = "C0OPS00001";

/** Who is in which conversation. What a hook says concerns the owner alone. */
const MEMBERS: Record<string, readonly Person[]> = {
  ...Object.fromEntries(
    NAMES.flatMap((name) => ["telegram", "slack"].map((channel) => [`${channel}-${name}`, [name]])),
  ),
  group: ["ann", "bob"],
  topic: ["ann", "bob"],
  room: ["bob", "cid"],
  hook: ["ann"],
};
const membersOf = (conversation: string): readonly Person[] => MEMBERS[conversation] ?? [];

const MARK = /«([\w-]+)#\d+»/g;
const marksIn = (text: string): string[] => [...new Set(text.match(MARK))];
const conversationOf = (mark: string): string => mark.slice(1, mark.indexOf("#"));
/** The marks in a text that not everybody in a conversation has seen. */
const foreign = (text: string, conversation: string): string[] =>
  marksIn(text).filter(
    (mark) =>
      !membersOf(conversation).every((person) => membersOf(conversationOf(mark)).includes(person)),
  );

let telegram: TelegramServer;
let slack: SlackServer;
let provider: Provider;
let world: World;
let count = 0;
const sent = { telegram: 0, slack: 0 };
const taken: string[] = [];

const mark = (conversation: string): string => `«${conversation}#${++count}»`;
/** A text that no other message has; `said` are those that reach the agent. */
const text = (conversation: string, said: boolean): string => {
  const made = mark(conversation);
  if (said) taken.push(made);
  return `What about ${made}?`;
};

/** A message of Telegram, at this minute of the hour. */
function write(
  minute: number,
  from: number,
  chat: number,
  said: string,
  more: Partial<Message> = {},
): void {
  sent.telegram++;
  const private_ = { id: chat, type: "private" as const, first_name: "Somebody" };
  const message = {
    message_id: ++count,
    date: 1_760_000_000 + minute * 60,
    from: { id: from, is_bot: false, first_name: "Ann" },
    chat: chat > 0 ? private_ : { id: chat, type: "supergroup" as const, title: "Friday group" },
    text: said,
    ...more,
  };
  telegram.push({
    message: message as NonNullable<Parameters<TelegramServer["push"]>[0]["message"]>,
  });
}

/** The same with a mention of the bot in front. */
function mention(minute: number, from: number, said: string, more: Partial<Message> = {}): void {
  const name = `@${BOT.username}`;
  write(minute, from, GROUP, `${name} ${said}`, {
    entities: [{ type: "mention", offset: 0, length: name.length }],
    ...more,
  } as never);
}

/** An event of Slack, which the gateway answers with 200. */
async function post(minute: number, event: object): Promise<void> {
  sent.slack++;
  const ts = `${1_760_000_000 + minute * 60}.${String(++count).padStart(6, "0")}`;
  const request = signedRequest(eventCallback({ type: "message", ts, ...event }, `Ev${count}`), {
    at: Math.floor(Date.now() / 1000),
  });
  const { method, headers } = request;
  const response = await world.gateway.fetch(
    new Request("http://127.0.0.1/channels/slack/events", {
      method,
      headers,
      body: await request.arrayBuffer(),
    }),
  );
  expect(response.status).toBe(200);
}

const NUMBERS = [42, 43, 44].map(String);
const CONFIG = {
  owner: { telegram: "42", slack: "U0ANN00001" },
  bindings: [
    { channel: "slack", room: ROOM, agent: "desk" },
    { channel: "telegram", person: "44", agent: "desk" },
  ],
};

beforeAll(async () => {
  [telegram, slack, provider] = await Promise.all([
    startTelegram(),
    startSlack(),
    createProvider(),
  ]);
  for (const number of NUMBERS) telegram.chats.add(number);
  provider.answer = (request) =>
    `I have seen ${marksIn(provider.text(request)).slice(-30).join(" ")}.`;
  const list = [
    { id: "main", instructions: "You are the first agent." },
    { id: "desk", instructions: "You are the desk." },
  ];
  world = await createWorld({
    config: {
      ...modelConfig(provider, { list }),
      ...CONFIG,
      channels: {
        telegram: { token: telegram.token, apiUrl: telegram.url, allowFrom: NUMBERS },
        slack: {
          botToken: BOT_TOKEN,
          signingSecret: SIGNING_SECRET,
          apiUrl: slack.url,
          allowFrom: NAMES.map((name) => PEOPLE[name].slack),
        },
      },
    },
  });
  await world.until(
    async () => (await world.admin("/admin/v1/status")).body.status.services.length === 2,
  );
  for (let minute = 0; minute < 60; minute++) await passMinute(minute);
  await world.until(async () => {
    const { counts } = (await world.admin("/admin/v1/status")).body.status;
    const open = ["runs.queued", "runs.running", "deliveries.pending", "systemEvents.queued"];
    return (
      telegram.pending() === 0 &&
      open.every((name) => counts[name] === 0) &&
      taken.every((made) => asked(made) !== undefined)
    );
  });
});
afterAll(async () => {
  await world.stop();
  await Promise.all([telegram.close(), slack.close(), provider.close()]);
});

/** What happens in one minute of the hour. */
async function passMinute(minute: number): Promise<void> {
  const person = NAMES[minute % 3] as Person;
  const { telegram: number, slack: member } = PEOPLE[person];
  write(minute, number, number, text(`telegram-${person}`, true));
  if (minute % 2 === 0)
    await post(minute, {
      channel_type: "im",
      channel: `D0${member}`,
      user: member,
      text: text(`slack-${person}`, true),
    });
  const inGroup = PEOPLE[minute % 2 === 0 ? "ann" : "bob"].telegram;
  const inRoom = PEOPLE[minute % 2 === 0 ? "bob" : "cid"].slack;
  switch (minute % 5) {
    case 0:
      mention(minute, inGroup, text("group", true));
      return post(minute, {
        type: "app_mention",
        channel: ROOM,
        user: inRoom,
        text: `<@${BOT_USER}> ${text("room", true)}`,
      });
    case 1:
      write(minute, inGroup, GROUP, text("group", false));
      return post(minute, {
        channel_type: "channel",
        channel: ROOM,
        user: inRoom,
        text: text("room", false),
      });
    case 2:
      mention(minute, inGroup, text("topic", true), {
        is_topic_message: true,
        message_thread_id: TOPIC,
      });
      return post(minute, {
        type: "app_mention",
        channel: ROOM,
        user: inRoom,
        text: `<@${BOT_USER}> ${text("room", true)}`,
        thread_ts: "1760000000.000001",
      });
    case 3:
      write(minute, STRANGER, STRANGER, text("nobody", false));
      write(minute, BOT.id + 1, GROUP, text("nobody", false), {
        from: { id: BOT.id + 1, is_bot: true, first_name: "Another bot" },
      });
      return post(minute, {
        subtype: "message_changed",
        channel: ROOM,
        message: { user: inRoom, text: text("room", false) },
      });
    default: {
      taken.push(`«hook#${count + 1}»`);
      const message = `A build failed: ${mark("hook")}`;
      expect((await world.post("/hooks/agent", { message, name: "CI" })).status).toBe(202);
    }
  }
}

/** The request that a message was first asked with: its mark is in the newest of what the model is given. */
const newest = (request: ChatRequest): string =>
  JSON.stringify(request.body.messages.at(-1)?.content);
const asked = (made: string): ChatRequest | undefined =>
  provider.requests.find((request) => newest(request).includes(made));

async function events(
  channel: string,
): Promise<{ outcome: string; reason: string | null; bodyBytes: number | null }[]> {
  return (await world.admin(`/admin/v1/events?path=channels/${channel}&limit=500`)).body.events;
}

describe("in an hour with three people, two groups and two agents on two channels", () => {
  it("no request made for a conversation holds what somebody in it has not seen", () => {
    // Messages that come quickly one after the other are answered together.
    expect(provider.requests.length).toBeGreaterThan(40);
    expect(
      provider.requests.filter((request) => /System events[^]*«hook#/.test(newest(request))).length,
    ).toBeGreaterThan(0);
    const leaks = provider.requests.flatMap((request) => {
      const [made] = marksIn(newest(request));
      return made === undefined
        ? []
        : foreign(provider.text(request), conversationOf(made)).map(
            (found) => `${found} in ${made}`,
          );
    });
    expect(leaks).toEqual([]);
  });

  it("no reply brings a conversation what somebody in it has not seen", () => {
    const places: Record<string, string> = { [GROUP]: "group", [ROOM]: "room" };
    for (const name of NAMES) {
      places[String(PEOPLE[name].telegram)] = `telegram-${name}`;
      places[`D0${PEOPLE[name].slack}`] = `slack-${name}`;
    }
    const arrived = [
      ...telegram.messages.map(({ chat, text: said }) => ({ to: chat, said })),
      ...slack.posts.map(({ channel, text: said }) => ({ to: channel, said })),
    ];
    expect(new Set(arrived.map(({ to }) => to))).toEqual(new Set(Object.keys(places)));
    expect(
      arrived.flatMap(({ to, said }) =>
        foreign(said, places[to] ?? "").map((found) => `${found} to ${to}`),
      ),
    ).toEqual([]);
  });

  it("each conversation goes on with what was said in it", () => {
    for (const conversation of [
      "telegram-ann",
      "telegram-bob",
      "telegram-cid",
      "slack-cid",
      "group",
      "topic",
    ]) {
      const made = taken.filter((one) => conversationOf(one) === conversation);
      expect(made.length).toBeGreaterThan(5);
      expect(provider.text(asked(made.at(-1) as string) as ChatRequest)).toContain(made.at(-2));
    }
  });

  it("each agent answers where it is bound", () => {
    const agentsIn = (conversation: string): Set<boolean> =>
      new Set(
        taken
          .filter((one) => conversationOf(one) === conversation)
          .map((one) => provider.text(asked(one) as ChatRequest).includes("You are the desk.")),
      );
    for (const conversation of ["room", "telegram-cid"])
      expect(agentsIn(conversation)).toEqual(new Set([true]));
    for (const conversation of ["group", "topic", "telegram-ann", "telegram-bob", "slack-cid"])
      expect(agentsIn(conversation)).toEqual(new Set([false]));
  });

  it("every message leaves an event: taken, or with the reason and without its text", async () => {
    for (const channel of ["telegram", "slack"] as const) {
      const found = await events(channel);
      expect(found).toHaveLength(sent[channel]);
      const accepted = found.filter(({ outcome }) => outcome === "accepted");
      const skipped = found.filter(({ outcome }) => outcome === "skipped");
      expect(accepted.length + skipped.length).toBe(sent[channel]);
      expect(skipped.length).toBeGreaterThan(10);
      expect(skipped.filter(({ reason, bodyBytes }) => !reason || bodyBytes !== null)).toEqual([]);
    }
    const stored = JSON.stringify([await events("telegram"), await events("slack")]);
    expect(stored).not.toContain("«nobody");
  });
});
