import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Channel, SendResult } from "../../src/plugin/api.ts";
import { testHost, type TestHost } from "./gateway.ts";
import { openChannel } from "./open.ts";
import { blueBubblesServer, PASSWORD, type BlueBubblesServer } from "./bluebubbles-server.ts";

const OWNER = "+15551234567";
const CHAT = `iMessage;-;${OWNER}`;
const GROUP = "iMessage;+;chat123456";
const SECRET = "0123456789abcdef-secret";
// The plugin's clock in tests.
const NOW = 1;
// The server knows the files of such a message, if it has any.
const OLD = { dateCreated: NOW - 60_000 };
const PHOTO = { guid: "F1", mimeType: "image/heic", transferName: "IMG_1.HEIC", totalBytes: 9 };

async function open(
  config: Record<string, unknown> = {},
): Promise<{ channel: Channel; server: BlueBubblesServer; logged: string[] }> {
  const server = await blueBubblesServer(() => NOW);
  const section = {
    url: server.url,
    password: PASSWORD,
    allowFrom: ["+1 555 123 4567", "Ada@A.example"],
    defaultTo: OWNER,
    ...config,
  };
  return { ...(await openChannel("imessage", section)), server };
}

it("imessage: no sign is shown without the Private API, in a group, or to somebody without a chat", async () => {
  const without = await open();
  expect(without.channel.typing).toBeUndefined();
  await without.server.close();
  const { channel, server } = await open({ privateApi: true });
  for (const to of [`chat:${GROUP}`, "+15559999999"])
    expect(await channel.typing?.show({ to }, AbortSignal.timeout(120_000))).toMatchObject({
      status: "sent",
    });
  expect(server.typing.signs).toEqual([]);
  await server.close();
});

describe("sending on imessage", () => {
  let channel: Channel;
  let server: BlueBubblesServer;
  beforeEach(async () => {
    ({ channel, server } = await open());
  });
  afterEach(() => server.close());
  const send = (to: string, text: string, more: object = {}): Promise<SendResult> =>
    channel.send({ to, text, idempotencyKey: "dlv_1.0", ...more }, AbortSignal.timeout(5000));

  it("finds the chat with a person once, and takes the guid of any chat as it is", async () => {
    expect(await send(OWNER, "one")).toEqual({ status: "sent", messageIds: ["GUID-1"] });
    await send(OWNER, "two");
    await send(`chat:${GROUP}`, "three");
    expect(server.sent.map(({ chatGuid, text, tempGuid }) => [chatGuid, text, tempGuid])).toEqual([
      [CHAT, "one", "dlv_1.0"],
      [CHAT, "two", "dlv_1.0"],
      [GROUP, "three", "dlv_1.0"],
    ]);
    expect(server.asked.filter((path) => path.endsWith("chat/query"))).toHaveLength(1);
  });

  it("knows the name that newer systems give a chat", async () => {
    server.chats.add("any;-;ada@a.example");
    expect((await send("ada@a.example", "x")).status).toBe("sent");
    expect(server.sent[0]?.chatGuid).toBe("any;-;ada@a.example");
  });

  it("begins the chat with somebody new by the message itself", async () => {
    expect(await send("ben@b.example", "hello")).toEqual({
      status: "sent",
      messageIds: ["GUID-1"],
    });
    expect(server.asked.at(-1)).toBe("/api/v1/chat/new");
    expect((await send("ben@b.example", "again")).status).toBe("sent");
    expect(server.asked.at(-1)).toBe("/api/v1/message/text");
    expect(server.sent.map(({ text }) => text)).toEqual(["hello", "again"]);
  });

  it("quotes only where the server's Private API can", async () => {
    await send(OWNER, "x", { replyTo: "GUID-77" });
    expect(server.sent[0]).toMatchObject({
      method: "apple-script",
      selectedMessageGuid: undefined,
    });
    const other = await open({ privateApi: true });
    await other.channel.send(
      { to: OWNER, text: "x", replyTo: "GUID-77", idempotencyKey: "k" },
      AbortSignal.timeout(5000),
    );
    expect(other.server.sent[0]).toMatchObject({
      method: "private-api",
      selectedMessageGuid: "GUID-77",
    });
    await other.server.close();
  });

  it.each([
    ["no-such-chat", "failed"],
    ["private-api-off", "failed"],
    ["redirect", "failed"],
    ["timed-out", "unknown"],
    ["already-queued", "unknown"],
    ["cut-connection", "unknown"],
    ["hang", "unknown"],
  ] as const)("answers %s with %s", async (fault, status) => {
    server.fail(fault);
    // A message in doubt is looked for as long as there is time.
    const signal = AbortSignal.timeout(status === "unknown" ? 300 : 5000);
    const result = await channel.send({ to: OWNER, text: "mark-1", idempotencyKey: "k" }, signal);
    expect(result).toMatchObject({ status });
    expect(JSON.stringify(result)).not.toMatch(/mark-1|4711|1555/);
  });

  it("finds what was sent although the connection was cut, and takes no older message for it", async () => {
    await send(OWNER, "same **text**");
    server.fail("cut-connection", 1);
    expect((await send(OWNER, "same text")).status).toBe("unknown");
    server.fail("cut-after-taking", 1);
    expect(await send(OWNER, "same text")).toEqual({ status: "sent", messageIds: ["GUID-2"] });
    expect(server.sent).toHaveLength(2);
  });

  it("finds the first message of a new chat too", async () => {
    server.fail("cut-after-taking", 1);
    expect(await send("ben@b.example", "hello")).toEqual({
      status: "sent",
      messageIds: ["GUID-1"],
    });
    server.fail("cut-after-taking", 1);
    expect(await send(`chat:${GROUP}`, "hello")).toEqual({
      status: "sent",
      messageIds: ["GUID-2"],
    });
  });

  it("tells a wrong password without showing it", async () => {
    const other = await open({ password: "wrong-8812" });
    const message = {
      ok: false,
      message: "the server does not take the password: check channels.imessage.password",
    };
    expect(await other.channel.probe?.(AbortSignal.timeout(5000))).toEqual(message);
    await other.server.close();
    const gone = await other.channel.probe?.(AbortSignal.timeout(5000));
    expect(gone).toEqual({ ok: false, message: "the server cannot be reached (ECONNREFUSED)" });
    expect(other.logged.join("")).not.toContain("wrong-8812");
  });
});

describe("the webhook of imessage", () => {
  let channel: Channel;
  let server: BlueBubblesServer;
  let host: TestHost;
  beforeEach(async () => {
    ({ channel, server } = await open({ webhookSecret: SECRET, mentions: ["@rouse"] }));
    host = testHost({}, { once: true });
  });
  afterEach(() => server.close());
  const post = async (
    body: unknown,
    path = `/channels/imessage/${SECRET}`,
    method = "POST",
  ): Promise<number | undefined> => {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const response = await channel.request?.(
      new Request(`http://gateway.example${path}`, {
        method,
        ...(method === "POST" ? { body: text } : {}),
      }),
      host,
    );
    expect(await response?.text()).toBe("");
    return response?.status;
  };

  it("waits for the files of a message that is announced without them, and takes it once", async () => {
    const { data: photo } = server.arrive("\uFFFC", { attachments: [] });
    await post({ type: "new-message", data: photo });
    const { data: words } = server.arrive("\uFFFClook at this", { attachments: [PHOTO] });
    await post({ type: "new-message", data: words });
    for (let changes = 0; changes < 2; changes++)
      await post({ type: "updated-message", data: { ...photo, attachments: [PHOTO] } });
    await post({ type: "updated-message", data: { ...words, ...OLD } });
    expect(host.received).toMatchObject([
      { id: "GUID-2", parts: [{ text: "look at this" }, { attachments: [{ ref: "F1" }] }] },
      { id: "GUID-1", parts: [{ attachments: [{ ref: "F1" }] }] },
    ]);
    expect(host.skipped).toEqual([]);
  });

  it("rejects requests without the secret", async () => {
    const event = server.arrive("forged");
    for (const path of [
      "/channels/imessage",
      "/channels/imessage/",
      `/channels/imessage/${SECRET}x`,
      `/channels/imessage/${SECRET}/x`,
      "/channels/imessage/%FF",
    ])
      expect(await post(event, path)).toBe(404);
    const open_ = await open();
    const response = await open_.channel.request?.(
      new Request("http://g.example/channels/imessage/undefined", { method: "POST", body: "{}" }),
      host,
    );
    expect(response?.status).toBe(404);
    await open_.server.close();
    expect(host.received).toEqual([]);
  });

  it("refuses what is no event", async () => {
    expect(await post("{", undefined)).toBe(400);
    expect(await post("null")).toBe(400);
    expect(await post("", undefined, "GET")).toBe(405);
  });
});

describe("asking the server of imessage", () => {
  let channel: Channel;
  let server: BlueBubblesServer;
  let stop: AbortController;
  let host: TestHost;
  let done: Promise<void> | undefined;
  let at = 1_000_000_000;
  beforeEach(async () => {
    ({ channel, server } = await open());
    host = testHost({}, { once: true });
    stop = new AbortController();
  });
  afterEach(async () => {
    stop.abort();
    await done;
    await server.close();
  });
  const listen = (): void => {
    stop = new AbortController();
    done = channel.listen?.(stop.signal, host);
  };
  const rest = async (): Promise<void> => {
    stop.abort();
    await done;
  };
  const texts = (): string[] => host.received.map((message) => message.text);
  const arrived = (...expected: string[]): Promise<void> =>
    vi.waitFor(() => expect(texts()).toEqual(expected));
  const arrive = (text: string, more: object = {}): void =>
    void server.arrive(text, { dateCreated: (at += 1000), ...more });

  it("catches up messages of a time without a gateway, without loss and without repetition", async () => {
    arrive("before the channel was there", { dateCreated: 0 });
    listen();
    await vi.waitFor(() => expect(host.states).toEqual([{ ok: true, message: "listening" }]));
    expect(host.saved.cursor).toBe(String(NOW));
    await rest();
    arrive("one");
    arrive("own", { isFromMe: true });
    arrive("two");
    listen();
    await arrived("one", "two");
    await rest();
    expect(host.saved.cursor).toBe(String(at));
    // Sent before, but comes later.
    server.arrive("late", { dateCreated: at - 60_000 });
    arrive("three");
    listen();
    await arrived("one", "two", "late", "three");
  });

  it("takes a message once the server knows its files, and later one without any as having no text", async () => {
    host.saved.cursor = "1";
    const { data } = server.arrive("\uFFFC", { dateCreated: NOW + 30_000, attachments: [] });
    server.arrive(null, { dateCreated: NOW + 60_000 });
    server.arrive("after it", { dateCreated: NOW + 60_000 });
    listen();
    await arrived("after it");
    await rest();
    data.attachments = [PHOTO];
    listen();
    await arrived("after it", "");
    expect(host.received[1]).toMatchObject({
      id: "GUID-1",
      parts: [{ attachments: [{ ref: "F1" }] }],
    });
    expect(host.skipped[0]).toEqual({ id: "GUID-2", skipped: "the message has no text" });
  });

  it("takes more than a page", async () => {
    host.saved.cursor = "1";
    for (let index = 0; index < 450; index++) arrive(`${index}`);
    listen();
    await arrived(...Array.from({ length: 450 }, (_, index) => `${index}`));
  });
});
