import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parseCommand } from "../../src/turns/channel/commands.ts";
import { createProvider, modelConfig, type Provider } from "../e2e/provider.ts";
import { createWorld, type World } from "../e2e/world.ts";
import type { gate } from "../platform/model.ts";
import { createSlowProvider, message, PIPE, sayOn, sentOn } from "./pipe.ts";

describe("which messages are commands", () => {
  it.each(["/new", "!new", " /NEW\n", "/new@rouse_bot", "@rouse /new", "@rouse: !New"])(
    "%j is one",
    (text) => expect(parseCommand(text)).toEqual({ name: "new" }),
  );
  it.each(["/stop", "!stop", "/Stop@rouse_bot"])("%j is one", (text) =>
    expect(parseCommand(text)).toEqual({ name: "stop" }),
  );
  it.each(["/start", "/start@rouse_bot"])("%j is one", (text) =>
    expect(parseCommand(text)).toEqual({ name: "start" }),
  );
  it("`/agent` may have a word behind it", () => {
    expect(parseCommand("/agent@rouse_bot")).toEqual({ name: "agent" });
    expect(parseCommand("!Agent desk")).toEqual({ name: "agent", argument: "desk" });
    expect(parseCommand("/agent desk please")).toBeUndefined();
    expect(parseCommand("/help me")).toBeUndefined();
  });
  it.each([
    "new",
    "/new order",
    "please /stop",
    "/newer",
    "//new",
    "/new /stop",
    "@rouse",
    "/start the pump",
  ])("%j is none", (text) => expect(parseCommand(text)).toBeUndefined());
});

let world: World;
let provider: Provider;
let slow: ReturnType<typeof gate>;
const open = async (): Promise<void> => {
  ({ provider, slow } = await createSlowProvider());
  const agents = { defaults: { model: "local/big", maxConcurrent: 2, heartbeat: { every: 0 } } };
  const config = {
    ...modelConfig(provider),
    agents,
    channels: { pipe: { allowFrom: ["ann", "bob"] } },
    owner: { pipe: "ann" },
    sessions: { messages: "separate" },
  };
  world = await createWorld({ files: { "plugins/pipe.ts": PIPE }, config });
};
const close = async (): Promise<void> => {
  slow.open();
  await world.stop();
  await provider.close();
};

const say = (text: string, more: object = {}): Promise<void> => sayOn(world, message(text, more));
const sent = () => sentOn(world);
const whenSent = (count: number) => world.until(async () => sent().length === count);
const runs = async (): Promise<{ name: string; status: string; sessionKey: string }[]> =>
  (await world.admin("/admin/v1/runs")).body.runs;
const CONFIRMED = "A new conversation begins with your next message.";

describe("/new", () => {
  beforeEach(open);
  afterEach(close);

  it("begins a new conversation, asks no model, and is confirmed in its room", async () => {
    await say("alpha");
    await whenSent(1);
    const command = message("/new", { to: "dm-ann", thread: "t1" });
    await sayOn(world, command);
    await whenSent(2);
    expect(sent()[1]).toMatchObject({
      to: "dm-ann",
      thread: "t1",
      replyTo: command.id,
      text: CONFIRMED,
    });
    expect(provider.requests).toHaveLength(1);
    await world.until(async () => (await runs())[0]?.status === "succeeded");
    const { events } = (await world.admin("/admin/v1/events")).body;
    expect(events[0]).toMatchObject({ outcome: "accepted", reason: "the command /new" });
    await say("beta");
    await whenSent(3);
    expect(provider.text(provider.requests[1] as never)).not.toContain("alpha");
  });

  it("ends only its own room's conversation", async () => {
    await say("alpha");
    await whenSent(1);
    await say("!new", { from: "bob", to: "lounge", direct: false });
    await whenSent(2);
    expect(sent()[1]).toMatchObject({ to: "lounge", text: CONFIRMED });
    await say("beta");
    await whenSent(3);
    expect(provider.text(provider.requests[1] as never)).toMatch(/alpha[^]*beta/);
  });

  it("is confirmed immediately, and keeps the order: earlier messages end in the old conversation", async () => {
    await say("slow alpha");
    await say("beta");
    await world.until(async () => provider.requests.length === 1);
    await say("/new");
    await whenSent(1);
    expect(sent()[0]?.["text"]).toBe(CONFIRMED);
    await say("gamma");
    slow.open();
    await whenSent(4);
    expect(provider.text(provider.requests[1] as never)).toMatch(/slow alpha[^]*beta/);
    expect(provider.text(provider.requests[2] as never)).not.toMatch(/alpha|beta/);
    const { turns } = (await world.admin("/admin/v1/sessions/show?key=main")).body;
    expect(turns).toHaveLength(1);
  });
});

describe("/stop", () => {
  beforeEach(open);
  afterEach(close);

  it("ends all running and waiting turns of its session immediately, and nothing else, also if all places are taken", async () => {
    await say("slow for bob", { from: "bob", to: "dm-bob" });
    await say("slow alpha");
    await say("beta");
    await say("gamma");
    await world.until(async () => provider.requests.length === 2);
    await say("/stop");
    await whenSent(1);
    expect(sent()[0]).toMatchObject({ to: "room-1", text: "Stopped: 3 turns." });
    const cancelled = (await runs()).filter(({ status }) => status === "cancelled");
    expect(cancelled.map(({ sessionKey }) => sessionKey)).toEqual(["main", "main", "main"]);
    expect(provider.requests).toHaveLength(2);
    slow.open();
    await whenSent(2);
    expect(sent()[1]).toMatchObject({ to: "dm-bob", text: "done" });
    // The next message is answered as usual, and the model sees none of the stopped turns.
    await say("delta");
    await whenSent(3);
    expect(provider.text(provider.requests[2] as never)).not.toMatch(/alpha|beta|gamma/);
  });

  it("says so if there is nothing to stop", async () => {
    await say("/stop");
    await whenSent(1);
    expect(sent()[0]?.["text"]).toBe("Nothing to stop.");
    expect((await runs()).map(({ name, status }) => [name, status])).toEqual([
      ["/stop on pipe", "succeeded"],
    ]);
  });

  it("leaves a `/new` that waits alone", async () => {
    await say("alpha");
    await whenSent(1);
    await say("slow beta");
    await world.until(async () => provider.requests.length === 2);
    await say("/new");
    await say("/stop");
    await whenSent(3);
    await say("gamma");
    await whenSent(4);
    expect(provider.text(provider.requests[2] as never)).not.toMatch(/alpha|beta/);
  });

  it("obeys only those who may speak, and each message once", async () => {
    await say("slow alpha");
    await world.until(async () => provider.requests.length === 1);
    await say("/stop", { from: "eve" });
    const { events } = (await world.admin("/admin/v1/events")).body;
    expect(events[0]).toMatchObject({
      outcome: "skipped",
      reason: expect.stringContaining("allowFrom") as unknown,
    });
    const command = message("/stop");
    await Promise.all([sayOn(world, command), sayOn(world, command)]);
    await whenSent(1);
    expect(sent()[0]?.["text"]).toBe("Stopped.");
    expect((await runs()).map(({ status }) => status)).toEqual(["succeeded", "cancelled"]);
  });
});

describe("/help, /status and /agent", () => {
  beforeEach(open);
  afterEach(close);
  const answer = async (text: string, more: object = {}): Promise<string> => {
    const before = sent().length;
    await say(text, more);
    await whenSent(before + 1);
    return String(sent()[before]?.["text"]);
  };

  it("`/help` lists the commands in the language of the sender, and asks no model", async () => {
    expect(await answer("/help")).toMatch(
      /`\/new`: begin a new conversation[^]*`\/status`[^]*`\/agent`[^]*`\/approve …`/,
    );
    expect(await answer("/help", { language: "de" })).toContain("eine neue Unterhaltung beginnen");
    expect(await answer("/new", { language: "ja-JP" })).toBe(
      "次のメッセージから新しい会話が始まります。",
    );
    expect(await answer("/stop", { language: "pt-br" })).toBe("Não há nada para parar.");
    expect(await answer("/status", { language: "de-AT" })).toContain("- Sitzung: `main`\n");
    expect(await answer("/agent", { language: "fr" })).toBe(
      "L'agent de cette conversation est main.",
    );
    expect(provider.requests).toHaveLength(0);
  });

  it("`/status` shows the agent, the work in progress and what the conversation has used today", async () => {
    await say("alpha", { from: "bob", to: "dm-bob" });
    await whenSent(1);
    await say("slow beta");
    await say("gamma");
    await world.until(async () => provider.requests.length === 2);
    expect(await answer("/status")).toBe(
      [
        "- Agent: main",
        "- Model: local/big",
        "- Session: `main`",
        "- Running turns: 1",
        "- Waiting turns: 1",
        "- Tokens today: 0",
      ].join("\n"),
    );
    expect(await answer("/status", { from: "bob", to: "dm-bob" })).toMatch(
      /direct:bob`[^]*Running turns: 0[^]*Tokens today: 14$/,
    );
    expect(provider.requests).toHaveLength(2);
  });

  it("`/agent` only shows the agent unless the config lists choices", async () => {
    expect(await answer("/agent")).toBe("The agent of this conversation is main.");
    expect(await answer("/agent desk")).toBe(
      "The agent of this conversation cannot be changed here.",
    );
  });
});

describe("/agent with choices", () => {
  afterEach(close);
  const start = async (dir?: string): Promise<void> => {
    world = await createWorld({
      files: { "plugins/pipe.ts": PIPE },
      config: {
        ...modelConfig(provider, { list: [{ id: "main" }, { id: "desk" }, { id: "vault" }] }),
        channels: { pipe: { allowFrom: ["ann", "bob"] } },
        owner: { pipe: "ann" },
        bindings: [{ channel: "pipe", person: "bob", agent: "main", choices: ["desk"] }],
        sessions: { messages: "separate" },
      },
      ...(dir === undefined ? {} : { dir }),
    });
  };
  const bob = (text: string) => say(text, { from: "bob", to: "dm-bob" });

  it("switches the conversation among the agents of the binding, and keeps the choice over a restart", async () => {
    provider = await createProvider();
    await start();
    await bob("alpha");
    await bob("/agent vault");
    await whenSent(2);
    expect(sent().map(({ text }) => text)).toContain(
      "There is no such agent here. You can choose: `/agent main`, `/agent desk`.",
    );
    await bob("/agent desk");
    await whenSent(3);
    await bob("beta");
    await whenSent(4);
    expect(provider.text(provider.requests[1] as never)).toContain("You are desk.");
    expect(provider.text(provider.requests[1] as never)).not.toContain("alpha");
    // Another person has chosen nothing, and may not.
    await say("/agent desk");
    await whenSent(5);
    expect(sent()[4]?.["text"]).toBe("The agent of this conversation cannot be changed here.");
    await world.gateway.stop();
    await start(world.dir);
    await bob("gamma");
    await whenSent(1);
    expect(provider.text(provider.requests[2] as never)).toMatch(/You are desk\.[^]*beta[^]*gamma/);
    await bob("/agent main");
    await whenSent(2);
    await bob("delta");
    await whenSent(3);
    expect(provider.text(provider.requests[3] as never)).toMatch(/alpha[^]*delta/);
    expect(provider.text(provider.requests[3] as never)).not.toContain("gamma");
  });
});
