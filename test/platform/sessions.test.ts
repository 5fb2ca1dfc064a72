import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { dataUri, imageMessage, png } from "./images.ts";
import { gate } from "./model.ts";
import { OTHER_KEY, platformWorld, type PlatformWorld } from "./world.ts";

let world: PlatformWorld;
beforeEach(async () => {
  world = await platformWorld({
    keys: [{ id: "account", key: "rk_account-0123456789", userAsSession: true }],
  });
  // The model says what it was told, so that a history shows.
  world.model.says = (asked, call) => ({
    text: [`answer ${call} of ${asked.body.messages.length - 1}`],
  });
});
afterEach(() => world.close());

const say = (content: string, headers: Record<string, string> = {}, more: object = {}) =>
  world.chat({ messages: [{ role: "user", content }], ...more }, headers);
const told = (call: number) =>
  world.model.asked[call]?.body.messages
    .slice(1)
    .map((message: { role: string; content: unknown }) => [message.role, message.content]);
const sessionKeys = async () =>
  (await world.admin("/admin/v1/sessions?origin=api")).body.sessions
    .map(({ key }: { key: string }) => key)
    .toSorted();

describe("the id", () => {
  it("is the first of the fields that name one, and comes back", async () => {
    const all: [Record<string, string>, Record<string, unknown>][] = [
      [{ "x-session-id": "s1" }, { session_id: "s2" }],
      [{}, { session_id: "s2", conversation_id: "s3" }],
      [{}, { conversation_id: "s3", metadata: { session_id: "s4", conversation_id: "s5" } }],
      [{ "x-conversation-id": "x" }, { metadata: { session_id: "s4", conversation_id: "s5" } }],
      [{ "x-openwebui-chat-id": "x" }, { metadata: { conversation_id: "s5" } }],
      [{}, { session_id: 6 }],
    ];
    for (const [index, [headers, more]] of all.entries()) {
      const { headers: answered } = await say("hi", headers, more);
      expect(answered.get("x-session-id")).toBe(index === 5 ? "6" : `s${index + 1}`);
    }
    expect(await sessionKeys()).toEqual(
      ["6", "s1", "s2", "s3", "s4", "s5"].map((id) => `api:web:ops:${id}`),
    );
  });

  it("is none of the ids that front ends add to all of their requests", async () => {
    const ids = {
      "x-openwebui-chat-id": "chat-1",
      "x-openwebui-message-id": "msg-1",
      "x-conversation-id": "conv-1",
    };
    const { headers } = await say(
      "one",
      { ...ids, "x-openwebui-user-email": "ann@example.com" },
      { user: "account" },
    );
    expect(headers.get("x-session-id")).toBeNull();
    await say("two", ids);
    expect(told(1)).toEqual([["user", "two"]]);
    expect(await sessionKeys()).toEqual([]);
  });

  it("is `user` only where the key says so", async () => {
    expect((await say("hi", {}, { user: "me" })).headers.get("x-session-id")).toBeNull();
    const { headers } = await say("hi", { key: "rk_account-0123456789" }, { user: "me" });
    expect(headers.get("x-session-id")).toBe("me");
    expect(await sessionKeys()).toEqual(["api:account:ops:me"]);
  });

  it("a name that was cut in the middle of a character names a session like any other", async () => {
    for (const { status, headers } of [
      await say("hi", {}, { session_id: "Lunch \ud83c" }),
      await say("and now?", {}, { session_id: "Lunch \ud83c" }),
    ])
      expect([status, headers.get("x-session-id")]).toEqual([200, "Lunch%20%EF%BF%BD"]);
    expect(await sessionKeys()).toEqual(["api:web:ops:Lunch \ufffd"]);
  });

  it("may be in any script; the header has it in percent signs", async () => {
    expect((await say("hi", {}, { session_id: "会話 1" })).headers.get("x-session-id")).toBe(
      encodeURIComponent("会話 1"),
    );
    expect(await sessionKeys()).toEqual(["api:web:ops:会話 1"]);
  });
});

describe("who owns the history", () => {
  it("one user message and an id: the server", async () => {
    await say("one", { "x-session-id": "s" });
    await say(
      "two",
      { "x-session-id": "s" },
      {
        messages: [
          { role: "system", content: "Be brief." },
          { role: "user", content: "two" },
        ],
      },
    );
    expect(told(1)).toEqual([
      ["user", "one"],
      ["assistant", "answer 0 of 1"],
      ["user", "two"],
    ]);
  });

  it("more than one user message, or any of the assistant: the caller", async () => {
    await say("one", { "x-session-id": "s" });
    const messages = [
      { role: "user", content: "a" },
      { role: "assistant", content: "b" },
      { role: "user", content: "c" },
    ];
    await world.chat({ messages }, { "x-session-id": "s" });
    expect(told(1)).toEqual([
      ["user", "a"],
      ["assistant", "b"],
      ["user", "c"],
    ]);
    await world.chat({ messages: [messages[0], messages[2]] }, { "x-session-id": "s" });
    expect(told(2)).toEqual([
      ["user", "a"],
      ["user", "c"],
    ]);
    // A greeting before the only user message is history too.
    await world.chat({ messages: [messages[1], messages[2]] }, { "x-session-id": "s" });
    expect(told(3)).toEqual([
      ["assistant", "b"],
      ["user", "c"],
    ]);
    // Nothing of it is in the session that the server keeps.
    await say("two", { "x-session-id": "s" });
    expect(told(4)).toEqual([
      ["user", "one"],
      ["assistant", "answer 0 of 1"],
      ["user", "two"],
    ]);
  });

  it("no id: no one, and nothing is kept but the run", async () => {
    await say("one");
    await say("two");
    expect(told(1)).toEqual([["user", "two"]]);
    expect(await sessionKeys()).toEqual([]);
    const { body } = await world.admin("/admin/v1/runs");
    expect(body.runs).toHaveLength(2);
    expect(body.runs[0]).toMatchObject({
      kind: "api",
      status: "succeeded",
      agentId: "ops",
      origin: "api",
      model: "local/big",
    });
    expect(body.runs[0].usage).toEqual({ inputTokens: 11, outputTokens: 3, totalTokens: 14 });
  });

  it("images are not kept, but named", async () => {
    await world.chat({ messages: imageMessage(dataUri(png(5, 5))) }, { "x-session-id": "s" });
    await say("two", { "x-session-id": "s" });
    expect(told(1)[0]).toEqual(["user", "What is this?\n[image image/png]"]);
  });
});

describe("a session", () => {
  it("is one key's and one agent's alone", async () => {
    await say("one", { "x-session-id": "s" });
    await say("two", { "x-session-id": "s", key: OTHER_KEY });
    await say("three", { "x-session-id": "s" }, { model: "sales" });
    await say("four", { "x-session-id": "ops:s" }, { model: "sales" });
    expect([told(1), told(2), told(3)]).toEqual([
      [["user", "two"]],
      [["user", "three"]],
      [["user", "four"]],
    ]);
    expect(await sessionKeys()).toEqual([
      "api:other:ops:s",
      "api:web:ops:s",
      "api:web:sales:ops:s",
      "api:web:sales:s",
    ]);
  });

  it("takes its turns one after the other, in the order in which they came", async () => {
    const first = gate();
    world.model.says = (asked, call) => ({
      text: [`answer ${call} of ${asked.body.messages.length - 1}`],
      wait: () => (call === 0 ? first.passed : Promise.resolve()),
    });
    const one = say("one", { "x-session-id": "s" });
    await world.until(async () => world.model.asked.length === 1);
    const two = say("two", { "x-session-id": "s" });
    await world.until(
      async () => (await world.admin("/admin/v1/runs?status=queued")).body.runs.length === 1,
    );
    const three = say("three", { "x-session-id": "s" });
    await world.until(
      async () => (await world.admin("/admin/v1/runs?status=queued")).body.runs.length === 2,
    );
    // Another session does not wait.
    await say("beside", { "x-session-id": "t" });
    expect(world.model.asked).toHaveLength(2);
    first.open();
    await Promise.all([one, two, three]);
    expect(told(2).at(-1)).toEqual(["user", "two"]);
    expect(told(3)).toEqual([
      ["user", "one"],
      ["assistant", "answer 0 of 1"],
      ["user", "two"],
      ["assistant", "answer 2 of 3"],
      ["user", "three"],
    ]);
  });

  it("keeps nothing of a turn that failed, and continues", async () => {
    await say("one", { "x-session-id": "s" });
    world.model.says = ({ text }) => (text.endsWith("two") ? { status: 400 } : { text: ["well"] });
    expect((await say("two", { "x-session-id": "s" })).status).toBe(502);
    await say("three", { "x-session-id": "s" });
    expect(
      told(world.model.asked.length - 1).map(([, content]: [string, string]) => content),
    ).toEqual(["one", "answer 0 of 1", "three"]);
    const { body } = await world.admin("/admin/v1/runs?status=failed");
    expect(body.runs[0]).toMatchObject({
      kind: "api",
      sessionKey: "api:web:ops:s",
      error: { code: "provider_refused" },
    });
  });

  it("can be looked at and forgotten by the operator", async () => {
    await say("one", { "x-session-id": "s" });
    const path = "/admin/v1/sessions/show?key=api:web:ops:s";
    expect((await world.admin(`${path}&origin=api&agent=ops`)).body.session).toMatchObject({
      agentId: "ops",
      origin: "api",
      turns: 1,
    });
    // The key says all of it.
    expect((await world.admin(path)).body.turns[0]).toMatchObject({
      input: [{ text: "one", outside: false }],
    });
    const ref = { origin: "api", agent: "ops", key: "api:web:ops:s" };
    await world.admin("/admin/v1/sessions/reset", { method: "POST", body: JSON.stringify(ref) });
    await say("two", { "x-session-id": "s" });
    expect(told(1)).toEqual([["user", "two"]]);
  });

  it("is not reached from a hook", async () => {
    const { status, body } = await world.post("/hooks/agent", {
      message: "x",
      sessionKey: "api:web:ops:s",
    });
    expect([status, body.error.code]).toEqual([400, "session_key_not_allowed"]);
  });
});

describe("the operator", () => {
  it("stops a turn, and its caller gets an error", async () => {
    const never = gate();
    world.model.says = () => ({ text: ["x"], wait: () => never.passed });
    const asked = say("one", { "x-session-id": "s" });
    await world.until(async () => world.model.asked.length === 1);
    const [run] = (await world.admin("/admin/v1/runs")).body.runs;
    const { body } = await world.admin(`/admin/v1/runs/${run.id}/cancel`, { method: "POST" });
    expect(body.run).toMatchObject({
      status: "cancelled",
      error: { code: "cancelled", message: "cancelled by the operator" },
    });
    const { status, body: answer } = await asked;
    expect([status, answer.error.code]).toEqual([503, "cancelled"]);
    expect(world.model.asked[0]?.gone.aborted).toBe(true);
    never.open();
  });
});
