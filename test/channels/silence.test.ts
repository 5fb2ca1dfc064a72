import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createProvider, modelConfig, type Provider } from "../e2e/provider.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { message, PIPE, sayOn, sentOn } from "./pipe.ts";

let world: World;
let provider: Provider;
beforeEach(async () => {
  provider = await createProvider();
  world = await createWorld({
    logLevel: "warn",
    files: { "plugins/pipe.ts": PIPE },
    config: { ...modelConfig(provider), channels: { pipe: { allowFrom: ["ann"] } } },
  });
});
afterEach(async () => {
  await world.stop();
  await provider.close();
});

const say = (text: string, more: object = {}): Promise<void> => sayOn(world, message(text, more));
const sentTexts = (): unknown[] => sentOn(world).map(({ text }) => text);
const lastRun = async () => (await world.admin("/admin/v1/runs")).body.runs[0];
/** Ann again, where others read too. */
const GROUP = { to: "group", direct: false };

it("silence: thoughts in a model's text are not sent, and later turns do not see them", async () => {
  provider.answer = () => "<think>She wants a greeting.</think>\n\nHello Ann";
  await say("Hi");
  await world.until(async () => sentTexts().length === 1);
  await say("Hi again");
  await world.until(async () => sentTexts().length === 2);
  expect(sentTexts()).toEqual(["Hello Ann", "Hello Ann"]);
  expect(provider.text(provider.requests[1] as never)).toContain("Hello Ann");
  expect(provider.text(provider.requests[1] as never)).not.toContain("greeting");
  const { run } = (await world.admin(`/admin/v1/runs/${(await lastRun()).id}`)).body;
  expect(run.reply).toBe("Hello Ann");
});

describe("an answer without words", () => {
  it("is asked for once more", async () => {
    provider.answer = () => (provider.requests.length === 1 ? "<think>Hm.</think>" : "Hello Ann");
    await say("Hi");
    await world.until(async () => sentTexts().length === 1);
    expect([sentTexts(), provider.requests.length]).toEqual([["Hello Ann"], 2]);
  });

  it.each([
    ["en", "I have no answer to that."],
    ["de", "Darauf habe ich keine Antwort."],
  ])("twice becomes words in the person's language: %s", async (language, text) => {
    provider.answer = () => "";
    await say("Hi", { language });
    await world.until(async () => sentTexts().length === 1);
    expect([sentTexts(), provider.requests.length]).toEqual([[text], 2]);
  });

  it("that says so by HEARTBEAT_OK stays silence", async () => {
    provider.answer = () => "HEARTBEAT_OK";
    await say("Hi");
    const run = await world.until(async () => {
      const found = await lastRun();
      return found && found.endedAt !== null && found;
    });
    expect([run.status, provider.requests.length, sentTexts()]).toEqual(["succeeded", 1, []]);
  });
});

describe("a turn that fails", () => {
  const fail = (): void => {
    provider.answer = (_request, response) =>
      void response
        .writeHead(401, { "content-type": "application/json" })
        .end(JSON.stringify({ error: { message: "Incorrect API key", code: "invalid_api_key" } }));
  };

  it("says so to people in their own words, and names nothing that is the operator's", async () => {
    fail();
    await say("Try", GROUP);
    await world.until(async () => sentTexts().length === 1);
    expect(sentTexts()).toEqual(["I cannot answer right now; my operator has been told."]);
    const checks = (await world.admin("/admin/v1/doctor")).body.checks;
    expect(JSON.stringify(checks)).toContain("1 run failed");
    expect(world.logged.some((line) => line.includes("a turn failed"))).toBe(true);
  });

  it("for want of a model says the same, and doctor says what is missing", async () => {
    await world.stop();
    world = await createWorld({
      files: { "plugins/pipe.ts": PIPE },
      config: { channels: { pipe: { allowFrom: ["ann"] } } },
    });
    await say("Try", GROUP);
    await world.until(async () => sentTexts().length === 1);
    expect(sentTexts()).toEqual(["I cannot answer right now; my operator has been told."]);
    const { checks } = (await world.admin("/admin/v1/doctor")).body;
    expect(JSON.stringify(checks)).toContain("replies come from builtin/echo");
    await say("And now?");
    await world.until(async () => sentTexts().length === 2);
    expect(sentTexts()[1]).toContain("agents.defaults.model");
  });

  it("tells the owner alone why", async () => {
    fail();
    await say("Try");
    await world.until(async () => sentTexts().length === 1);
    expect(sentTexts()).toEqual([
      expect.stringMatching(
        /^I could not answer that: the provider "local" .* check models\.providers\.local\.apiKey \(run_\w+\)$/,
      ),
    ]);
  });
});
