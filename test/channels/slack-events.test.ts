import { describe, expect, it } from "vitest";
import { createEvents } from "../../plugins/slack/receive.ts";
import { testHost } from "./gateway.ts";
import { BOT_TOKEN, eventCallback, signedRequest, SIGNING_SECRET } from "./slack-server.ts";

/** Seconds since 1970 in the tests. */
const NOW = 1_700_000_000;
/** The arguments of the channel, with a clock at a time in seconds since 1970. */
const at = (seconds: number) => ({
  config: { botToken: BOT_TOKEN, apiUrl: "http://127.0.0.1:1/" },
  fetch,
  clock: { now: () => seconds * 1000 },
});
const { request } = createEvents(SIGNING_SECRET, at(NOW));

const post = (
  payload: object,
  options: Partial<Parameters<typeof signedRequest>[1]> = {},
  gateway = testHost(),
): Promise<Response> => request(signedRequest(payload, { at: NOW, ...options }), gateway);

const dm = {
  type: "message",
  channel_type: "im",
  channel: "D0ROSA",
  user: "U0ROSA",
  text: "hello",
  ts: "1700000001.000001",
};

describe("the Events API", () => {
  it("answers the vendor's handshake, signed alone", async () => {
    const handshake = { type: "url_verification", challenge: "challenge-1" };
    const response = await post(handshake);
    expect([response.status, await response.json()]).toEqual([200, { challenge: "challenge-1" }]);
    expect((await post(handshake, { secret: "another" })).status).toBe(401);
  });

  it.each([
    ["another secret", { secret: "another" }],
    ["a changed body", { change: (body: string) => body.replace("hello", "hullo") }],
    ["a changed byte of white space", { change: (body: string) => `${body} ` }],
    ["a time long ago", { at: NOW - 301 }],
    ["a time to come", { at: NOW + 301 }],
    ["no time", { at: NaN }],
  ])("refuses %s", async (_name, options) => {
    const gateway = testHost();
    expect((await post(eventCallback(dm), options, gateway)).status).toBe(401);
    expect(gateway.received).toEqual([]);
  });

  it("refuses a request without a signature, one that is too long, and other paths and methods", async () => {
    const url = "http://rouse.test/channels/slack/events";
    const ask = async (path: string, init: RequestInit): Promise<number> =>
      (await request(new Request(path, init), testHost())).status;
    expect(await ask(url, { method: "POST", body: "{}" })).toBe(401);
    expect(await ask(url, { method: "POST", body: "x".repeat(1_048_577) })).toBe(413);
    expect(await ask(url, { method: "GET" })).toBe(405);
    expect((await post(eventCallback(dm), { path: "other" })).status).toBe(404);
  });

  it.each([NOW - 299, NOW + 299])("takes a time that differs a little", async (at) => {
    expect((await post(eventCallback(dm), { at })).status).toBe(200);
  });

  it("takes other signed payloads without a word", async () => {
    expect((await post({ type: "app_rate_limited" })).status).toBe(200);
    expect((await post(eventCallback({}))).status).toBe(200);
    expect((await post({ type: "event_callback" })).status).toBe(200);
    const odd = signedRequest([], { at: NOW });
    expect((await request(odd, testHost())).status).toBe(200);
  });
});

it("slack: a message without a sender is skipped, with the reason", async () => {
  const gateway = testHost();
  await post(eventCallback({ ...dm, user: undefined }), {}, gateway);
  expect(gateway.received).toEqual([]);
  expect(gateway.skipped).toMatchObject([{ skipped: "the message names no sender or no channel" }]);
});
