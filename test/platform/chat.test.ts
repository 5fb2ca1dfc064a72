import { afterEach, describe, expect, it } from "vitest";
import { eventsOf, platformWorld, type PlatformWorld } from "./world.ts";

let world: PlatformWorld;
afterEach(() => world.close());

describe("an answer that is not streamed", () => {
  it("has the whole shape, the agent's id as its model, and usage as the provider counted it", async () => {
    world = await platformWorld();
    const { status, headers, body } = await world.chat();
    expect(status).toBe(200);
    expect(headers.get("x-request-id")).toMatch(/^req_/);
    expect(body).toEqual({
      id: expect.stringMatching(/^chatcmpl-run_/),
      object: "chat.completion",
      created: expect.any(Number),
      model: "ops",
      choices: [{ index: 0, message: { role: "assistant", content: "fine", refusal: null }, logprobs: null, finish_reason: "stop" }],
      usage: { prompt_tokens: 11, completion_tokens: 3, total_tokens: 14 },
    });
  });
});

describe("a stream", () => {
  it("begins with the role and ends with the reason, the usage and [DONE]", async () => {
    world = await platformWorld();
    const { headers, text } = await world.chat({ stream: true, stream_options: { include_usage: true } });
    expect(headers.get("content-type")).toContain("text/event-stream");
    const events = eventsOf(text);
    expect(events[0].choices).toEqual([{ index: 0, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null }]);
    expect(events.slice(1, 3).map((event) => event.choices[0].delta)).toEqual([{ content: "fi" }, { content: "ne" }]);
    expect(events[3].choices).toEqual([{ index: 0, delta: {}, logprobs: null, finish_reason: "stop" }]);
    expect(events[4]).toMatchObject({ choices: [], usage: { prompt_tokens: 11, completion_tokens: 3, total_tokens: 14 } });
    expect(events[5]).toBe("data: [DONE]");
    expect(events).toHaveLength(6);
  });
});
