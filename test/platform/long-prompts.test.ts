import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { platformWorld, type PlatformWorld } from "./world.ts";

/** A gateway whose model has a window of 10,000 tokens. */
let world: PlatformWorld;
beforeAll(async () => {
  world = await platformWorld({ contextTokens: 10_000 });
});
beforeEach(() => world.model.reset());
afterAll(() => world.close());

const TOO_LONG = { type: "invalid_request_error", code: "context_length_exceeded" };
const words = (count: number): string => "sunflower umbrella ".repeat(count / 2);
const ask = (content: string) => [{ role: "user", content }];
const conversation = (count: number) => [
  { role: "user", content: "FIRST-WORDS" },
  { role: "assistant", content: words(count) },
  { role: "user", content: "And now?" },
];

describe("a conversation that is longer than the window", () => {
  it.each([true, false])(
    "is refused before the provider is asked, if that is sure (stream: %s)",
    async (stream) => {
      const { status, body } = await world.chat({ messages: conversation(20_000), stream });
      expect([status, body.error]).toMatchObject([
        400,
        { ...TOO_LONG, param: "messages", message: /Send fewer or shorter messages/ },
      ]);
      const responses = await world.call("/v1/responses", {
        model: "ops",
        input: words(20_000),
        stream,
      });
      expect([responses.status, responses.body.error]).toMatchObject([
        400,
        { ...TOO_LONG, param: "input" },
      ]);
      expect(world.model.asked).toEqual([]);
    },
  );

  it.each([
    [
      "system text",
      "/v1/chat/completions",
      { messages: [{ role: "system", content: words(11_000) }, ...ask("Hi.")] },
    ],
    ["one message", "/v1/chat/completions", { messages: ask(words(11_000)) }],
    [
      "a message in Chinese",
      "/v1/chat/completions",
      { messages: ask("订单已经发货了吗".repeat(6_000)) },
    ],
    [
      "the description of a tool",
      "/v1/chat/completions",
      {
        messages: ask("Hi."),
        tools: [{ type: "function", function: { name: "look", description: words(11_000) } }],
      },
    ],
    ["instructions", "/v1/responses", { input: "Hi.", instructions: words(11_000) }],
  ])("counts the words of %s", async (_what, path, body) => {
    const { status, body: answer } = await world.call(path, { model: "ops", ...body });
    expect([status, answer.error]).toMatchObject([400, TOO_LONG]);
    expect(world.model.asked).toEqual([]);
  });

  it("goes to the provider whole, if that is not sure: it counts better", async () => {
    // The estimate is too high: about 25,000 tokens at three characters each, but 8,000 words.
    const messages = conversation(8_000);
    expect((await world.chat({ messages })).status).toBe(200);
    expect(world.model.asked[0]?.body.messages.slice(1)).toEqual(messages);
    world.model.says = () => ({
      status: 400,
      error: {
        message: "This model's maximum context length is 10000 tokens.",
        code: "context_length_exceeded",
        param: "messages",
      },
    });
    const { status, body } = await world.chat({ messages });
    expect([status, body.error]).toMatchObject([
      400,
      { ...TOO_LONG, param: "messages", message: /maximum context length is 10000/ },
    ]);
  });

  it("goes to the provider whole, if the config does not say how long the window is", async () => {
    const own = await platformWorld();
    const messages = conversation(150_000);
    expect((await own.chat({ messages })).status).toBe(200);
    expect(own.model.asked[0]?.text).toContain("FIRST-WORDS");
    await own.close();
  });

  it("may be long by repetition alone", async () => {
    expect((await world.chat({ messages: ask(`${" ".repeat(300_000)}Hi.`) })).status).toBe(200);
  });
});

it("one message of a session that Rouse keeps is not cut either", async () => {
  const headers = { "x-session-id": "s" };
  await world.chat({ messages: ask("one") }, headers);
  expect((await world.chat({ messages: ask(words(20_000)) }, headers)).body.error).toMatchObject(
    TOO_LONG,
  );
  // The session goes on with what it had.
  await world.chat({ messages: ask("two") }, headers);
  expect(
    world.model.asked
      .at(-1)
      ?.body.messages.slice(1)
      .map(({ content }: { content: string }) => content),
  ).toEqual(["one", "fine", "two"]);
  const long = words(3_600);
  expect((await world.chat({ messages: ask(long) }, headers)).status).toBe(200);
  expect(world.model.asked.at(-1)?.body.messages.at(-1).content).toBe(long);
});
