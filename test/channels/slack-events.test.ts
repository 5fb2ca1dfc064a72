import { describe, expect, it } from "vitest";
import { createEvents } from "../../plugins/slack/receive.ts";
import { said, testHost, type TestHost } from "./gateway.ts";
import {
  BOT_TOKEN,
  BOT_USER,
  eventCallback,
  signedRequest,
  SIGNING_SECRET,
} from "./slack-server.ts";

/** Seconds since 1970 in the tests. */
const NOW = 1_700_000_000;
/** What the channel is made with, at a time in seconds since 1970. */
const at = (seconds: number) => ({
  config: { botToken: BOT_TOKEN, apiUrl: "http://127.0.0.1:1/" },
  fetch,
  clock: { now: () => seconds * 1000 },
});
const { request } = createEvents(SIGNING_SECRET, at(NOW));

const post = (
  payload: object,
  options: Parameters<typeof signedRequest>[1] = {},
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
const mention = {
  type: "app_mention",
  channel: "C0TOWN",
  user: "U0ROSA",
  text: `<@${BOT_USER}> look`,
  ts: "1700000001.000002",
};

async function receive(event: object): Promise<TestHost["received"]> {
  const gateway = testHost();
  expect((await post(eventCallback(event), {}, gateway)).status).toBe(200);
  return gateway.received;
}

describe("the Events API", () => {
  it("answers the vendor's handshake, signed alone", async () => {
    const handshake = { type: "url_verification", challenge: "challenge-1" };
    const response = await post(handshake);
    expect([response.status, await response.json()]).toEqual([200, { challenge: "challenge-1" }]);
    expect((await post(handshake, { secret: "another" })).status).toBe(401);
  });

  it("checks the signature as the vendor's page computes it", async () => {
    // The example of docs.slack.dev/authentication/verifying-requests-from-slack. Its body is a form: with a signature that
    // holds, that is the next thing to be refused.
    const body =
      "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    const headers = {
      "x-slack-request-timestamp": "1531420618",
      "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    };
    const events = createEvents("8f742231b10e8888abcd99yyyzzz85a5", at(1_531_420_618));
    const ask = (text: string): Promise<Response> =>
      events.request(
        new Request("http://rouse.test/channels/slack/events", {
          method: "POST",
          headers,
          body: text,
        }),
        testHost(),
      );
    expect((await ask(body)).status).toBe(400);
    expect((await ask(`${body}x`)).status).toBe(401);
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
    expect((await post(eventCallback(dm), { path: "/channels/slack/other" })).status).toBe(404);
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

const NOT_ADDRESSED = "the message is not addressed to the agent";

describe("what is for the agent", () => {
  it("a direct message, answered where it was written", async () => {
    expect(await receive(dm)).toEqual([
      {
        id: "D0ROSA:1700000001.000001",
        from: "U0ROSA",
        to: "D0ROSA",
        direct: true,
        ...said("hello"),
      },
    ]);
    expect(await receive({ ...dm, thread_ts: "1700000000.000009" })).toMatchObject([
      { thread: "1700000000.000009" },
    ]);
  });

  it("a mention, answered in a thread", async () => {
    expect(await receive(mention)).toEqual([
      {
        id: "C0TOWN:1700000001.000002",
        from: "U0ROSA",
        to: "C0TOWN",
        direct: false,
        room: { kind: "channel" },
        thread: "1700000001.000002",
        ...said("look"),
      },
    ]);
    // An app that is subscribed to all messages gets the mention as one of them too.
    const twin = { ...mention, type: "message", channel_type: "channel" };
    expect(await receive(twin)).toEqual(await receive(mention));
    expect(await receive({ ...mention, thread_ts: "1700000000.000009" })).toMatchObject([
      { thread: "1700000000.000009" },
    ]);
  });

  it.each([
    ["bots", { ...dm, bot_id: "B1" }, "the message was written by a bot"],
    ["itself", { ...dm, user: BOT_USER }, undefined],
    [
      "itself, edited",
      {
        ...dm,
        user: undefined,
        subtype: "message_changed",
        message: { user: BOT_USER, bot_id: "B0" },
      },
      undefined,
    ],
    [
      "itself, deleted",
      { ...dm, user: undefined, subtype: "message_deleted", previous_message: { user: BOT_USER } },
      undefined,
    ],
    ["edits", { ...dm, subtype: "message_changed" }, "an edit of an earlier message"],
    [
      "joins",
      { ...dm, subtype: "channel_join" },
      "a notice of slack (channel_join), not a message of a person",
    ],
    [
      "channels without a mention",
      { ...dm, channel: "C0TOWN", channel_type: "channel" },
      NOT_ADDRESSED,
    ],
    ["groups of members", { ...dm, channel: "G0GROUP", channel_type: "mpim" }, NOT_ADDRESSED],
    ["nobody", { ...dm, user: undefined }, "the message names no sender or no channel"],
    ["reactions", { type: "reaction_added", user: "U0ROSA" }, undefined],
  ])("nothing of %s, with the reason if it is a message", async (_name, event, reason) => {
    const gateway = testHost();
    await post(eventCallback(event), {}, gateway);
    expect(gateway.received).toEqual([]);
    expect(gateway.skipped.map(({ skipped }) => skipped)).toEqual(
      reason === undefined ? [] : [reason],
    );
  });

  it("reads the vendor's marks as people do", async () => {
    const text = `<@${BOT_USER}> ask <@U0OLE|ole> or <@U0EVA> in <#C0TOWN|town>, <!here>: <https://a.example/?a=1&amp;b=2> <https://a.example|this> 1 &lt; 2 &amp;lt; <!subteam^S1|@ops>`;
    expect((await receive({ ...mention, text }))[0]?.text).toBe(
      "ask @ole or @U0EVA in #town, @here: https://a.example/?a=1&b=2 [this](https://a.example) 1 < 2 &lt; @ops",
    );
    expect((await receive({ ...mention, text: `<@${BOT_USER}>` }))[0]?.text).toBe("[no text]");
    expect(
      (await receive({ ...dm, subtype: "file_share", text: "", files: [{ name: "plan.pdf" }] }))[0],
    ).toMatchObject({
      parts: [{ kind: "file", text: "[file: plan.pdf]" }],
    });
  });
});
