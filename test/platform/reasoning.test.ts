import { createOpenAI } from "@ai-sdk/openai";
import { generateText } from "ai";
import OpenAI from "openai";
import { restoreServerSteps } from "../../src/chat/history.ts";
import type { StepRecord } from "../../src/store/types.ts";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  documentedFetch,
  eventsOf,
  KEY,
  platformWorld,
  USER,
  type PlatformWorld,
} from "./world.ts";

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

  it("take it back, since some models refuse a conversation without it", async () => {
    const { message } = (await world.chat()).body.choices[0];
    const messages = [...USER, message, ...USER];
    expect((await world.chat({ messages })).status).toBe(200);
    expect(world.model.asked[1]?.body.messages[2]).toEqual({
      role: "assistant",
      content: "fine",
      reasoning_content: "Let me think.",
    });
  });

  it("take it back as items of a response, with the calls and the words that it led to", async () => {
    const thought = (text: string) => ({
      type: "reasoning",
      id: "rs_1",
      summary: [{ type: "summary_text", text }],
    });
    const input = [
      { role: "user", content: "What time is it?" },
      thought("I look."),
      { type: "function_call", call_id: "c1", name: "clock", arguments: "{}" },
      { type: "function_call_output", call_id: "c1", output: "12:00" },
      {
        type: "reasoning",
        id: "rs_2",
        summary: [],
        content: [{ type: "reasoning_text", text: "I say it." }],
      },
      { role: "assistant", content: "Noon." },
      thought("Nothing came of it."),
      { role: "user", content: "And now?" },
    ];
    expect((await world.respond({ input, store: false })).status).toBe(200);
    const [, , called, , said, next] = world.model.asked[0]?.body.messages ?? [];
    expect([called.reasoning_content, called.tool_calls.length]).toEqual(["I look.", 1]);
    expect(said).toMatchObject({ content: "Noon.", reasoning_content: "I say it." });
    expect(next).toEqual({ role: "user", content: "And now?" });
  });

  const CLOCK = { type: "function", function: { name: "clock", parameters: { type: "object" } } };
  const calls = [{ id: "c1", name: "clock", arguments: '{"zone":"UTC"}' }];

  it.each([false, true])(
    "are found by the calls of the caller's tools, if it leaves them out; streamed: %s",
    async (stream) => {
      world.model.says = (_asked, call) =>
        call === 0 ? { reasoning: THOUGHT, calls } : { text: ["fine"] };
      const asked = await world.chat({ tools: [CLOCK], stream });
      const [made] = stream
        ? eventsOf(asked.text).flatMap((event) => event.choices?.[0]?.delta.tool_calls ?? [])
        : asked.body.choices[0].message.tool_calls;
      const { index: _index, ...call } = made;
      // Clients cut longer ones.
      expect(call.id).toMatch(/^\w{1,40}$/);
      const changed = { ...call, function: { name: "clock", arguments: '{"zone":"CET"}' } };
      for (const [sent, zone] of [
        [call, "UTC"],
        // A person may have changed the call before it was made.
        [changed, "CET"],
      ] as const) {
        const messages = [
          ...USER,
          { role: "assistant", content: null, tool_calls: [sent] },
          { role: "tool", tool_call_id: call.id, content: "12:00" },
        ];
        expect((await world.chat({ tools: [CLOCK], messages })).content).toBe("fine");
        const [, , said, result] = world.model.asked.at(-1)?.body.messages ?? [];
        expect([said.reasoning_content, said.tool_calls, result.tool_call_id]).toEqual([
          "Let me think.",
          [
            {
              id: "c1",
              type: "function",
              function: { name: "clock", arguments: `{"zone":"${zone}"}` },
            },
          ],
          "c1",
        ]);
      }
    },
  );

  it("are there once, if each call comes back with its result behind it", async () => {
    const two = [...calls, { id: "c2", name: "clock", arguments: "{}" }];
    world.model.says = (_asked, call) =>
      call === 0 ? { reasoning: THOUGHT, calls: two } : { text: ["fine"] };
    const made = (await world.chat({ tools: [CLOCK] })).body.choices[0].message.tool_calls;
    const messages = made.flatMap((call: { id: string }) => [
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: call.id, content: "12:00" },
    ]);
    await world.chat({ tools: [CLOCK], messages: [...USER, ...messages] });
    const { body, roles } = world.model.asked[1] ?? {};
    expect(roles).toEqual(["system", "user", "assistant", "tool", "tool"]);
    expect(body.messages[2].tool_calls).toHaveLength(2);
  });

  it("that are no longer kept leave the ids of the calls as the model knows them", async () => {
    const run = "0".repeat(35);
    const call = { id: `run_${run}.0.0`, index: 0, position: 0, name: "clock", input: "" };
    const step = { messages: [], calls: [{ ...call, modelCallId: "c1" }] } as unknown as StepRecord;
    const output = { parts: [{ type: "text" as const, text: "12:00" }] };
    const result = { role: "tool" as const, callId: `${run}_00`, tool: "", output };
    const runs = { getSteps: async () => [step] };
    const owner = { keyId: "web", agentId: "ops" };
    expect(await restoreServerSteps([result], runs, owner)).toEqual([{ ...result, callId: "c1" }]);
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

  it("have it in the field without which some clients do not send it back", async () => {
    const store = { store: false, forceReasoning: true };
    const messages = [{ role: "user" as const, content: "Hi." }];
    const { url } = world;
    const model = createOpenAI({ baseURL: `${url}/v1`, apiKey: KEY, fetch: documentedFetch })(
      "ops",
    );
    const options = { model, providerOptions: { openai: store } };
    const first = await generateText({ ...options, messages });
    await generateText({
      ...options,
      messages: [...messages, ...first.responseMessages, ...messages],
    });
    expect(world.model.asked[1]?.body.messages[2]).toEqual({
      role: "assistant",
      content: "fine",
      reasoning_content: "Let me think.",
    });
  });

  it("stream it as items whose places agree with the end", async () => {
    const include = ["reasoning.encrypted_content"];
    const events = eventsOf((await respond({ stream: true, include })).text);
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
    const { body: first } = await respond({ include: ["reasoning.encrypted_content"] });
    const [thought, said] = first.output;
    const foreign = { ...thought, summary: [], encrypted_content: "gAAAAAB" };
    for (const [item, reasoning] of [
      [thought, "Let me think."],
      [{ ...thought, summary: [] }, "Let me think."],
      [foreign, undefined],
      [{ type: "item_reference", id: thought.id }, undefined],
    ]) {
      const input = [
        { role: "user", content: "Hi." },
        item,
        said,
        { role: "user", content: "And?" },
      ];
      expect((await respond({ input, store: false })).status).toBe(200);
      const [, , answer] = world.model.asked.at(-1)?.body.messages ?? [];
      expect([answer.content, answer.reasoning_content]).toEqual(["fine", reasoning]);
    }
  });
});
