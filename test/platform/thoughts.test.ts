import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { eventsOf, platformWorld, type PlatformWorld } from "./world.ts";
import type { Says } from "./model.ts";

let world: PlatformWorld;
beforeAll(async () => {
  world = await platformWorld();
});
beforeEach(() => world.model.reset());
afterAll(() => world.close());

const says = (...texts: string[]): void => {
  world.model.says = (_asked, call): Says => ({ text: [...(texts[call] ?? texts.at(-1) ?? "")] });
};
const MESSAGE = ["<think>Let me see.</think>", "Let me see.", "fine"] as const;
const FORMS: (readonly [text: string, thought: string, answer: string])[] = [
  MESSAGE,
  ["<thinking>\nLet me see.\n</thinking>\n\nfine", "Let me see.", "fine"],
  ["<thought>Let me see.</thought>\n<think>More.</think>fine", "Let me see.\n\nMore.", "fine"],
  ["\n<THINK>Let me see.</THINK>\n\n`<think>` is a tag", "Let me see.", "`<think>` is a tag"],
].map(([text = "", thought = "", answer = ""]) =>
  text === MESSAGE[0] ? [`${text}fine`, thought, answer] : [text, thought, answer],
);

describe("thoughts in the text of a model", () => {
  it.each(FORMS)("are reasoning in chat completions: %j", async (text, thought, answer) => {
    says(text);
    const { message } = (await world.chat()).body.choices[0];
    expect([message.reasoning_content, message.content]).toEqual([thought, answer]);
    const events = eventsOf((await world.chat({ stream: true })).text);
    const join = (field: string): string =>
      events.map((event) => event.choices?.[0]?.delta[field] ?? "").join("");
    expect([join("reasoning_content"), join("content")]).toEqual([thought, answer]);
  });

  it("are left out of an answer in JSON", async () => {
    says('<think>An object.</think>\n\n{"a":1}');
    const { body } = await world.chat({ response_format: { type: "json_object" } });
    expect(JSON.parse(body.choices[0].message.content)).toEqual({ a: 1 });
  });

  it("before a call of a tool are reasoning, and the model has them in that turn alone", async () => {
    world.model.says = (_asked, call): Says =>
      call === 0
        ? {
            text: ["<think>Call ", "it.</think>\n"],
            calls: [{ id: "c1", name: "unheard_of", arguments: "{}" }],
          }
        : { text: ["<think>Done.</think>fine"] };
    const session = { "x-session-id": "s1" };
    const { message } = (await world.chat({}, session)).body.choices[0];
    expect([message.reasoning_content, message.content]).toEqual(["Call it.\n\nDone.", "fine"]);
    expect(world.model.asked[1]?.text).not.toContain("<think>");
    await world.chat({}, session);
    const later = JSON.stringify(world.model.asked[2]?.body);
    expect(later).toContain("fine");
    expect(later).not.toMatch(/think>|Call it|Done\./);
  });
});

describe("an answer without words", () => {
  const ASKED = "Your answer had no words.";

  it.each([
    ["nothing", ""],
    ["white space", " \n"],
    ["a thought", "<think>Let me see.</think>\n"],
    ["a thought without an end", "<think>Let me see."],
  ])("is asked for once more: %s", async (_name, text) => {
    says(text, "fine");
    const { choices, usage } = (await world.chat()).body;
    expect([choices[0].message.content, usage.total_tokens]).toEqual(["fine", 28]);
    expect(world.model.asked.map((asked) => asked.text.includes(ASKED))).toEqual([false, true]);
    const [run] = (await world.admin("/admin/v1/runs")).body.runs;
    expect(run.warnings).toEqual([]);
    const { steps } = (await world.admin(`/admin/v1/runs/${run.id}/steps`)).body;
    expect(steps).toHaveLength(2);
  });

  it.each([false, true])("twice becomes words, streamed: %s", async (stream) => {
    says("<think>Let me see.</think>");
    expect((await world.chat({ stream })).content).toBe("I have no answer to that.");
    expect(world.model.asked).toHaveLength(2);
    const [run] = (await world.admin("/admin/v1/runs")).body.runs;
    expect(run.warnings).toEqual(["the model gave no words, also when it was asked once more"]);
  });

  it("for want of room is not asked for again", async () => {
    world.model.says = () => ({ text: ["<think>Let me"], finish: "length" });
    const { message, finish_reason } = (await world.chat()).body.choices[0];
    expect([finish_reason, message.content, message.reasoning_content]).toEqual([
      "length",
      "I ran out of room before I could answer. Please ask for less at a time.",
      "Let me",
    ]);
    expect(world.model.asked).toHaveLength(1);
  });

  it("stays one where JSON was asked for", async () => {
    says("");
    const { body } = await world.chat({ response_format: { type: "json_object" } });
    expect(body.choices[0].message.content).toBe("");
  });

  it("is none if the model calls the caller's tool", async () => {
    world.model.says = () => ({ calls: [{ id: "c1", name: "mine", arguments: "{}" }] });
    const tools = [{ type: "function", function: { name: "mine" } }];
    const { choices } = (await world.chat({ tools })).body;
    expect([choices[0].finish_reason, choices[0].message.content]).toEqual(["tool_calls", null]);
    expect(world.model.asked).toHaveLength(1);
  });

  it("is a warning at the run of a hook", async () => {
    says("");
    expect(await world.hookRun()).toMatchObject({
      status: "succeeded",
      reply: "",
      warnings: ["the model gave no words, also when it was asked once more"],
    });
    expect(world.model.asked).toHaveLength(2);
  });
});
