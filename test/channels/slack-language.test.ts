import { createHmac } from "node:crypto";
import { expect, it, onTestFinished } from "vitest";
import slack from "../../plugins/slack/index.ts";
import { openPlugin, type OpenChannel } from "./open.ts";
import {
  BOT_TOKEN,
  eventCallback,
  pressRequest,
  signedRequest,
  SIGNING_SECRET,
  startSlack,
  type SlackServer,
} from "./slack-server.ts";

const HOUR = 3_600_000;
let written = 0;

async function open(
  locales: SlackServer["locales"],
): Promise<OpenChannel & { server: SlackServer }> {
  const server = await startSlack();
  onTestFinished(() => server.close());
  server.locales = locales;
  return {
    ...openPlugin(slack, {
      botToken: BOT_TOKEN,
      signingSecret: SIGNING_SECRET,
      apiUrl: server.url,
    }),
    server,
  };
}

/** Hands over a direct message, and returns the language that the gateway gets with it. */
async function write(
  { channel, host, received, clock }: OpenChannel,
  user = "U0ROSA",
): Promise<string | undefined> {
  const event = {
    type: "message",
    channel_type: "im",
    channel: "D0ROSA",
    user,
    text: "hello",
    ts: `1700000001.${++written}`,
  };
  const request = signedRequest(eventCallback(event, `Ev${written}`), {
    at: Math.floor(clock.time / 1000),
  });
  const before = received.length;
  expect((await channel.request?.(request, host))?.status).toBe(200);
  expect(received).toHaveLength(before + 1);
  return received.at(-1)?.language;
}

const questions = ({ calls }: SlackServer): number =>
  calls.filter((call) => call === "users.info").length;

it("slack: a message has the language of its author, which is asked for every six hours", async () => {
  const world = await open({ U0ROSA: "de-DE", U0ANN: "ja-JP" });
  expect([await write(world), await write(world), await write(world, "U0ANN")]).toEqual([
    "de-DE",
    "de-DE",
    "ja-JP",
  ]);
  expect(questions(world.server)).toBe(2);
  world.server.locales = { U0ROSA: "fr-FR" };
  world.clock.time += 5 * HOUR;
  expect(await write(world)).toBe("de-DE");
  world.clock.time += HOUR;
  expect(await write(world)).toBe("fr-FR");
  expect(questions(world.server)).toBe(3);
});

it("slack: without the scope `users:read` messages have no language, and it is asked for once an hour", async () => {
  const world = await open(undefined);
  expect([await write(world), await write(world), await write(world, "U0ANN")]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
  expect(questions(world.server)).toBe(1);
  world.server.locales = { U0ROSA: "es-ES" };
  world.clock.time += HOUR;
  expect(await write(world)).toBe("es-ES");
});

it("slack: a person whom the vendor does not show has no language, and others keep theirs", async () => {
  const world = await open({ U0ROSA: "de-DE" });
  expect([await write(world, "U0FAR"), await write(world, "U0FAR"), await write(world)]).toEqual([
    undefined,
    undefined,
    "de-DE",
  ]);
  expect(questions(world.server)).toBe(2);
});

it.each(["hang", "unavailable"] as const)(
  "slack: a message arrives although users.info fails: %s",
  async (fault) => {
    const world = await open({ U0ROSA: "de-DE" });
    world.server.fail(fault);
    expect(await write(world)).toBeUndefined();
    // A request that hangs is given up after five seconds only: the message does not wait for that.
    await new Promise((passed) => setTimeout(passed, 50));
    expect(world.server.hanging).toBe(fault === "hang" ? 1 : 0);
    world.server.fail(fault, 0);
    await expect.poll(async () => ((world.clock.time += 60_000), write(world))).toBe("de-DE");
  },
);

it("slack: commands and presses have a language; a message that is not for the agent asks for none", async () => {
  const world = await open({ U0ROSA: "pt-BR" });
  const { channel, host, clock, server } = world;
  const at = Math.floor(clock.time / 1000);
  const chatter = {
    type: "message",
    channel_type: "channel",
    channel: "C0TOWN",
    user: "U0ROSA",
    text: "hi",
    ts: "1700000001.000009",
  };
  await channel.request?.(signedRequest(eventCallback(chatter), { at }), host);
  expect([host.skipped.length, questions(server)]).toEqual([1, 0]);
  const payload = {
    type: "block_actions",
    user: { id: "U0ROSA" },
    channel: { id: "D0ROSA" },
    actions: [{ value: "approve 7f3" }],
  };
  await channel.request?.(pressRequest(payload, at), host);
  expect(host.presses).toMatchObject([{ from: "U0ROSA", language: "pt-BR" }]);
  const body = "command=%2Fnew&user_id=U0ROSA&channel_id=D0ROSA&trigger_id=t1";
  const signature = `v0=${createHmac("sha256", SIGNING_SECRET).update(`v0:${at}:${body}`).digest("hex")}`;
  const headers = { "x-slack-request-timestamp": String(at), "x-slack-signature": signature };
  await channel.request?.(
    new Request("http://rouse.test/channels/slack/commands", { method: "POST", headers, body }),
    host,
  );
  expect(host.received).toMatchObject([{ text: "/new", language: "pt-BR" }]);
});
