import { expect, it, onTestFinished } from "vitest";
import type { Clock } from "../../src/core/clock.ts";
import { getPhrases } from "../../src/vocabulary/phrases.ts";
import { createCli } from "../cli/world.ts";
import { startTelegram } from "../channels/telegram-server.ts";
import { createProvider, modelConfig } from "../e2e/provider.ts";
import { createWorld } from "../e2e/world.ts";
import { REAL } from "../gateway.ts";

const HOUR = 3_600_000;

/** A gateway with a bot that strangers may ask, the command line of its operator, and a clock that can be ahead. */
async function openBot() {
  const server = await startTelegram();
  const provider = await createProvider();
  let ahead = 0;
  const clock: Clock = { ...REAL.clock, now: () => REAL.clock.now() + ahead };
  const section = {
    token: server.token,
    apiUrl: server.url,
    allowFrom: ["42"],
    dmPolicy: "pairing",
  };
  const world = await createWorld({
    config: { ...modelConfig(provider), channels: { telegram: section } },
    clock,
  });
  const cli = await createCli();
  onTestFinished(async () => {
    await world.stop();
    await cli.close();
    await provider.close();
    await server.close();
  });
  let count = 0;
  /** A person writes. In a private chat the chat has the id of the person, and the bot can write there from then on. */
  const write = (id: number, text: string, more: object = {}): void => {
    server.chats.add(String(id));
    const from = { id, is_bot: false, first_name: `Person ${id}`, language_code: "de" };
    const chat = { id, type: "private" as const, first_name: from.first_name };
    server.push({
      message: { message_id: ++count, date: 1_760_000_000, from, chat, text, ...more },
    });
  };
  const events = async (): Promise<{ id: string; outcome: string; reason: string }[]> =>
    (await world.admin("/admin/v1/events?path=channels/telegram&limit=200")).body.events;
  return {
    server,
    provider,
    world,
    write,
    events,
    sentTo: (id: number) =>
      server.messages.filter(({ chat }) => chat === String(id)).map(({ text }) => text),
    rouse: (...args: string[]) => cli.rouse([...args, "--config", `${world.dir}/rouse.json5`]),
    pass: (ms: number) => void (ahead += ms),
    /** Resolves once so many messages have left an event, and all that follows of them is done. */
    recorded: (messages: number) =>
      world.until(async () => {
        const { counts } = (await world.admin("/admin/v1/status")).body.status;
        const isDone =
          !counts["deliveries.pending"] && !counts["jobs.turn"] && !counts["jobs.command"];
        return isDone && (await events()).length >= messages;
      }),
  };
}

const codeIn = (text = ""): string =>
  /[HJKMNPQRTVWXY][HJKMNPQRTVWXY34789]{7}/.exec(text)?.[0] ?? "no code";

it("telegram: a stranger gets a code, and is answered once the operator has approved it at the command line", async () => {
  const bot = await openBot();
  const { provider, rouse, sentTo, write, world } = bot;
  write(43, "canary-before-the-code");
  await bot.recorded(1);
  const [given = ""] = sentTo(43);
  const code = codeIn(given);
  expect(given).toBe(getPhrases("de").pairing(code));
  write(43, "canary-after-the-code");
  // Nor a command, a file or a message of a group reaches an agent.
  write(43, "/status");
  write(43, "", {
    text: undefined,
    caption: "canary-of-a-file",
    document: { file_id: "F1", file_unique_id: "u1", file_name: "canary.txt" },
  });
  write(43, "@rouse_test_bot canary-in-a-group", {
    chat: { id: -1001234567890, type: "supergroup", title: "Friday" },
    entities: [{ type: "mention", offset: 0, length: 15 }],
  });
  await bot.recorded(5);
  expect(sentTo(43)).toEqual([given]);
  expect(sentTo(-1001234567890)).toEqual([]);
  expect(provider.requests).toEqual([]);
  for (const { id, outcome } of await bot.events()) {
    expect(outcome).toBe("skipped");
    expect(JSON.stringify((await world.admin(`/admin/v1/events/${id}`)).body)).not.toContain(
      "canary",
    );
  }
  expect(bot.server.calls.map(({ method }) => method)).not.toContain("getFile");

  const listed = JSON.parse((await rouse("people", "--json")).out).pairings;
  expect(listed).toMatchObject([
    { channel: "telegram", person: "43", name: "Person 43", state: "waiting", code },
  ]);
  expect((await rouse("people", "decide", code, "approve")).out).toContain("telegram:43  approved");
  await world.until(async () => sentTo(43).length === 2);
  expect(sentTo(43)[1]).toBe(getPhrases("de").paired);
  // The code counts once, and for one person.
  expect((await rouse("people", "decide", code, "approve")).code).toBe(1);
  write(44, "canary-of-another");
  await bot.recorded(6);
  expect(codeIn(sentTo(44)[0])).not.toBe(code);

  write(43, "may I?");
  await world.until(async () => sentTo(43).length === 3);
  expect(sentTo(43)[2]).toBe("fine");
  expect(provider.requests).toHaveLength(1);
  expect(provider.text(provider.requests[0] as never)).toContain("may I?");
  expect(JSON.stringify(provider.requests.map(({ body }) => body))).not.toContain("canary");
  const { runs } = (await world.admin("/admin/v1/runs")).body;
  expect(runs).toMatchObject([{ sessionKey: "channel:telegram:direct:43" }]);
});

it("telegram: a person whom the operator has denied gets neither an answer nor another code, until that is taken back", async () => {
  const bot = await openBot();
  const { rouse, sentTo, write } = bot;
  write(43, "canary-1");
  await bot.recorded(1);
  expect((await rouse("people", "decide", codeIn(sentTo(43)[0]), "deny")).out).toContain(
    "telegram:43  denied",
  );
  bot.pass(2 * HOUR);
  write(43, "canary-2");
  await bot.recorded(2);
  expect(sentTo(43)).toHaveLength(1);
  expect((await rouse("people", "decide", "telegram:43", "revoke")).out).toContain(
    "a stranger again",
  );
  write(43, "canary-3");
  await bot.recorded(3);
  expect(sentTo(43)).toHaveLength(2);
  expect(codeIn(sentTo(43)[1])).not.toBe(codeIn(sentTo(43)[0]));
  expect(bot.provider.requests).toEqual([]);
});

it("telegram: a code that has expired approves nobody, and the person gets another one", async () => {
  const bot = await openBot();
  const { rouse, sentTo, write } = bot;
  write(43, "canary-1");
  await bot.recorded(1);
  bot.pass(HOUR - 60_000);
  write(43, "canary-2");
  await bot.recorded(2);
  expect(sentTo(43)).toHaveLength(1);
  bot.pass(60_001);
  expect((await rouse("people", "decide", codeIn(sentTo(43)[0]), "approve")).code).toBe(1);
  expect(JSON.parse((await rouse("people", "--json")).out).pairings).toEqual([]);
  write(43, "canary-3");
  await bot.recorded(3);
  const [first, second] = sentTo(43).map(codeIn);
  expect(second).toMatch(/^\w{8}$/);
  expect(second).not.toBe(first);
  expect((await rouse("people", "decide", second ?? "", "approve")).out).toContain(
    "telegram:43  approved",
  );
  expect(bot.provider.requests).toEqual([]);
});

it("telegram: of a flood of strangers 20 get a code within an hour, and more after it; people in allowFrom are answered as ever", async () => {
  const bot = await openBot();
  const { provider, sentTo, server, write, world } = bot;
  for (let id = 1000; id < 1030; id++) write(id, "canary");
  await bot.recorded(30);
  expect(server.messages).toHaveLength(20);
  expect(new Set(server.messages.map(({ text }) => codeIn(text))).size).toBe(20);
  write(42, "hello");
  await world.until(async () => sentTo(42).length === 1);
  expect(provider.requests).toHaveLength(1);
  expect(JSON.stringify(provider.requests.map(({ body }) => body))).not.toContain("canary");
  bot.pass(HOUR + 1);
  write(1029, "canary");
  await bot.recorded(32);
  expect(sentTo(1029)).toHaveLength(1);
});
