import OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { documentedFetch, eventsOf, KEY, platformWorld, type PlatformWorld } from "./world.ts";

const THOUGHT = ["Let me ", "think."];
let world: PlatformWorld;
beforeAll(async () => {
  world = await platformWorld();
});
beforeEach(() => world.model.reset(() => ({ reasoning: THOUGHT, text: ["fi", "ne"] })));
afterAll(() => world.close());

const respond = (body: object = {}) =>
  world.call("/v1/responses", {
    model: "ops",
    input: "Hi.",
    reasoning: { summary: "auto" },
    ...body,
  });

describe("chat completions", () => {
  it("have what the model thought beside the text", async () => {
    expect((await world.chat()).body.choices[0].message).toMatchObject({
      content: "fine",
      reasoning_content: "Let me think.",
    });
    world.model.says = () => ({ text: ["fine"] });
    expect((await world.chat()).body.choices[0].message).not.toHaveProperty("reasoning_content");
  });

  it("stream it before the text", async () => {
    const [first, ...deltas] = eventsOf((await world.chat({ stream: true })).text).flatMap(
      (event) => event.choices?.map(({ delta }: never) => delta) ?? [],
    );
    expect(first).toEqual({ role: "assistant", content: "" });
    const said = deltas.map(
      ({ reasoning_content: thought, content }: Record<string, string | undefined>) =>
        thought === undefined ? (content ?? "") : `(${thought})`,
    );
    expect(said.join("")).toBe("(Let me )(think.)fine");
  });

  it("do not confuse the official client's helper", async () => {
    const client = new OpenAI({ baseURL: `${world.url}/v1`, apiKey: KEY, fetch: documentedFetch });
    const stream = client.chat.completions.stream({
      model: "ops",
      messages: [{ role: "user", content: "Say it." }],
    });
    expect(await stream.finalContent()).toBe("fine");
  });

  it("load nothing from outside", async () => {
    world.model.says = () => ({
      reasoning: ["![x](https://evil", ".example/a.png) <img src=https://evil.example/b.png>"],
      text: ["fine"],
    });
    const whole = (await world.chat()).body.choices[0].message.reasoning_content;
    const events = eventsOf((await world.chat({ stream: true })).text);
    const streamed = events
      .map((event) => event.choices?.[0]?.delta.reasoning_content ?? "")
      .join("");
    for (const text of [whole, streamed])
      expect(text).toBe(
        "x (https://evil.example/a.png) <img src-disarmed=https://evil.example/b.png>",
      );
  });

  it("have that of every step of a turn", async () => {
    world.model.says = (_asked, call) =>
      call === 0
        ? { reasoning: ["First."], calls: [{ id: "c1", name: "unheard_of", arguments: "{}" }] }
        : { reasoning: ["Second."], text: ["fine"] };
    const { message } = (await world.chat()).body.choices[0];
    expect(message).toMatchObject({ content: "fine", reasoning_content: "First.\n\nSecond." });
  });
});

describe("responses", () => {
  it("have it as an item, if the request asks for a summary", async () => {
    const { body } = await respond();
    expect(body.output).toMatchObject([
      {
        type: "reasoning",
        id: expect.stringMatching(/^rs_run_/),
        summary: [{ type: "summary_text", text: "Let me think." }],
      },
      { type: "message", content: [{ text: "fine" }] },
    ]);
    expect((await respond({ reasoning: {} })).body.output).toMatchObject([{ type: "message" }]);
  });

  it("stream it as items whose places agree with the end", async () => {
    const events = eventsOf((await respond({ stream: true })).text);
    const { output } = events.at(-1).response;
    expect(output.map(({ type }: { type: string }) => type)).toEqual(["reasoning", "message"]);
    const done = events.filter(({ type }) => type === "response.output_item.done");
    expect(done.map(({ output_index, item }) => [output_index, item])).toEqual([
      [0, output[0]],
      [1, output[1]],
    ]);
    const text = events
      .filter(({ type }) => type === "response.reasoning_summary_text.delta")
      .map(({ delta }) => delta);
    expect(text).toEqual(THOUGHT);
  });

  it("take it back, as clients send it, whole and by its id", async () => {
    const { body: first } = await respond();
    const [thought, said] = first.output;
    for (const item of [thought, { type: "item_reference", id: thought.id }]) {
      const input = [
        { role: "user", content: "Hi." },
        item,
        said,
        { role: "user", content: "And?" },
      ];
      expect((await respond({ input, store: false })).status).toBe(200);
      expect(world.model.asked.at(-1)?.roles).toEqual(["system", "user", "assistant", "user"]);
    }
  });
});
