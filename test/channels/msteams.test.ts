import { Client } from "@microsoft/teams.api";
import { describe, expect, it } from "vitest";
import type { SendResult } from "../../src/plugin/api.ts";
import { piecesOf } from "./open.ts";
import {
  APP_ID,
  APP_SECRET,
  BOT,
  CHANNEL,
  ENTRA,
  PERSONAL,
  teamsServer,
  TENANT,
  USER,
} from "./teams-server.ts";
import { openTeams } from "./teams-world.ts";

describe("sending to Teams", () => {
  it("asks for a token once and keeps it until shortly before it ends", async () => {
    const { send, server, clock } = await openTeams();
    await send({});
    await send({});
    expect(server.asked.token).toBe(1);
    clock.time += 54 * 60_000;
    await send({});
    expect(server.asked.token).toBe(1);
    clock.time += 2 * 60_000;
    expect(await send({})).toMatchObject({ status: "sent" });
    expect(server.asked.token).toBe(2);
  });

  it("asks for another token once where the Connector refuses the one it has", async () => {
    const { send, server } = await openTeams();
    await send({});
    server.revoke();
    expect(await send({ text: "again" })).toMatchObject({ status: "sent" });
    expect(server.asked.token).toBe(2);
    server.fail({ status: 401, code: "Unauthorized" });
    expect(await send({})).toMatchObject({
      status: "failed",
      reason: expect.stringContaining("appId") as unknown,
    });
    expect(server.asked.token).toBe(3);
    expect(server.arrived.map(({ text }) => text)).toEqual(["Hello", "again"]);
  });

  it("tries later if no token can be had now, and says what is wrong if there will be none", async () => {
    const { send, server } = await openTeams();
    server.fail("sign-in-down");
    expect(await send({})).toMatchObject({
      status: "retry",
      reason: expect.stringContaining("503") as unknown,
    });
    const wrong = await openTeams(
      { appSecret: "another~secret" },
      { server, dir: "/dev/null/state" },
    );
    server.fail("hang", 0);
    expect(await wrong.send({})).toMatchObject({
      status: "failed",
      reason: expect.stringContaining("appSecret") as unknown,
    });
  });

  it.each<
    [
      string,
      { status: number; code: string; headers?: Record<string, string> },
      Partial<SendResult>,
    ]
  >([
    [
      "429 with a wait",
      { status: 429, code: "Throttled", headers: { "retry-after": "17" } },
      { status: "retry", afterMs: 17_000 },
    ],
    [
      "429 with a time",
      {
        status: 429,
        code: "Throttled",
        headers: {
          date: "Mon, 30 Nov 2026 02:50:00 GMT",
          "retry-after": "Mon, 30 Nov 2026 03:00:00 GMT",
        },
      },
      { status: "retry", afterMs: 600_000 },
    ],
    ["412", { status: 412, code: "PreconditionFailed" }, { status: "retry" }],
    ["500", { status: 500, code: "ServiceError" }, { status: "retry" }],
    ["502", { status: 502, code: "BadGateway" }, { status: "retry" }],
    ["504", { status: 504, code: "GatewayTimeout" }, { status: "retry" }],
    [
      "a bot that is not there",
      { status: 403, code: "BotNotInConversationRoster" },
      { status: "failed", reason: expect.stringContaining("install") as never },
    ],
    [
      "a conversation that is gone",
      { status: 404, code: "ConversationNotFound" },
      { status: "failed", reason: expect.stringContaining("no such conversation") as never },
    ],
    ["another 403", { status: 403, code: "Whatever" }, { status: "failed" }],
    [
      "a text that is too long",
      { status: 413, code: "MessageSizeTooBig" },
      { status: "failed", reason: expect.stringContaining("too long") as never },
    ],
    [
      "a redirect",
      { status: 307, code: "", headers: { location: "http://127.0.0.1:9/" } },
      { status: "failed" },
    ],
  ])("sorts %s", async (_name, failure, expected) => {
    const { send, server } = await openTeams();
    server.fail(failure, 1);
    expect(await send({ text: "body-mark" })).toMatchObject(expected);
    expect(await send({})).toMatchObject({ status: "sent" });
  });

  it("does not know what became of a message when the connection ends after it was written", async () => {
    const { send, server } = await openTeams();
    server.fail("cut-after-taking", 1);
    expect((await send({})).status).toBe("unknown");
    expect(server.arrived).toHaveLength(1);
  });

  it("answers in the thread and names the message that it answers", async () => {
    const { send, server } = await openTeams();
    expect(await send({ to: CHANNEL, thread: "1759999999999", replyTo: "1760000000001" })).toEqual({
      status: "sent",
      messageIds: [expect.stringMatching(/^\d+$/)],
    });
    expect(server.arrived).toEqual([
      {
        to: `${CHANNEL};messageid=1759999999999`,
        text: "Hello",
        buttons: [],
        textFormat: "markdown",
        replyToId: "1760000000001",
      },
    ]);
  });

  it("opens a conversation with a user once, also across a restart", async () => {
    const world = await openTeams();
    expect(await world.send({ to: `user:${ENTRA}` })).toMatchObject({ status: "sent" });
    expect(await world.send({ to: `user:${ENTRA}` })).toMatchObject({ status: "sent" });
    const later = await openTeams({}, world);
    expect(await later.send({ to: `user:${ENTRA}` })).toMatchObject({ status: "sent" });
    expect(world.server.opened).toEqual([
      {
        isGroup: false,
        bot: { id: `28:${APP_ID}` },
        members: [{ id: ENTRA }],
        tenantId: TENANT,
        channelData: { tenant: { id: TENANT } },
      },
    ]);
    expect(world.server.arrived.map(({ to }) => to)).toEqual([
      "a:opened-1",
      "a:opened-1",
      "a:opened-1",
    ]);
    expect(await later.send({ to: `user:${USER}` })).toMatchObject({ status: "failed" });
    const nobody = await openTeams(
      { tenantId: undefined },
      { server: world.server, dir: later.dir },
    );
    expect(await nobody.send({ to: `user:${USER}` })).toMatchObject({
      status: "failed",
      reason: expect.stringMatching(/tenantId/) as unknown,
    });
  });

  it("counts the bytes of an activity: what fits as it counts, the Connector takes", async () => {
    const { channel, send, server } = await openTeams();
    const text = Array.from({ length: 800 }, (_, n) => `Zeile ${n}: "日本語" 👩‍👩‍👧‍👦 <b>\\o/</b>`).join(
      "\n",
    );
    const pieces = piecesOf(channel, text);
    expect(pieces.length).toBeGreaterThan(1);
    for (const piece of pieces)
      expect(await send({ text: piece })).toMatchObject({ status: "sent" });
    expect(
      server.arrived
        .map(({ text: piece }) => piece)
        .join("\n")
        .replaceAll("&lt;", "<"),
    ).toBe(text);
    expect(channel.lengthOf?.("日本語")).toBe(9);
    expect(channel.lengthOf?.('a"\n')).toBe(5);
  });
});

describe("the official client of Teams", () => {
  it("is understood by the test server as the plugin is", async () => {
    const server = await teamsServer();
    const { access_token: token } = (await (
      await fetch(`${server.url}/${TENANT}/oauth2/v2.0/token`, {
        method: "POST",
        body: new URLSearchParams({
          grant_type: "client_credentials",
          client_id: APP_ID,
          client_secret: APP_SECRET,
          scope: "https://api.botframework.com/.default",
        }),
      })
    ).json()) as { access_token: string };
    const client = new Client(server.url, { token });
    const opened = await client.conversations.create({
      isGroup: false,
      bot: { id: BOT, name: "Rouse", role: "bot" },
      members: [{ id: ENTRA, name: "Ada", role: "user" }],
      tenantId: TENANT,
      channelData: { tenant: { id: TENANT } },
    });
    expect(opened.id).toBe("a:opened-1");
    const activities = client.conversations.activities(PERSONAL);
    const sent = await activities.create({
      type: "message",
      text: "Hello",
      textFormat: "markdown",
    });
    expect(sent.id).toMatch(/^\d+$/);
    await activities.reply("1760000000001", {
      type: "message",
      text: "Hello again",
      textFormat: "markdown",
    });
    const { send } = await openTeams({}, { server, dir: "/dev/null/state" });
    await send({ text: "Hello" });
    await send({ text: "Hello again", replyTo: "1760000000001" });
    expect(server.arrived.slice(2)).toEqual(server.arrived.slice(0, 2));
    await activities.update(sent.id, { type: "message", text: "changed", textFormat: "markdown" });
    expect(server.arrived[0]?.text).toBe("changed");
    await activities.delete(sent.id);
    expect(server.arrived.map(({ text }) => text)).not.toContain("changed");
    await activities.create({ type: "typing" });
    expect(server.typing.signs).toMatchObject([{ to: PERSONAL, thread: undefined }]);
    server.fail("no-such-recipient");
    await expect(activities.create({ type: "message", text: "x" })).rejects.toMatchObject({
      response: { status: 404, data: { error: { code: "ConversationNotFound" } } },
    });
    await server.close();
  });
});
