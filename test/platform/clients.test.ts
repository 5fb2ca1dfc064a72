import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { ContextOverflowError } from "@langchain/core/errors";
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { tool as langTool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import { generateText, isStepCount, streamText, tool } from "ai";
import OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { documentedFetch, KEY, platformWorld, type PlatformWorld } from "./world.ts";

let world: PlatformWorld;
beforeAll(async () => {
  world = await platformWorld({
    keys: [{ id: "slow", key: "rk_slow-0123456789", rateLimit: { requests: 1, per: "2s" } }],
  });
});
beforeEach(() => world.model.reset());
afterAll(() => world.close());

const USAGE = { prompt_tokens: 11, completion_tokens: 3, total_tokens: 14 };
const ask = [{ role: "user" as const, content: "Say it." }];
const CALL = { id: "call_9", name: "clock", arguments: '{"zone":"UTC"}' };
/** Calls the clock, then says what it was told. */
const callsClock = (): void => {
  world.model.says = (asked) =>
    asked.body.messages.at(-1).role === "tool"
      ? { text: ["It is ", asked.text.includes("12:00") ? "noon." : "?"] }
      : { calls: [CALL] };
};
const breaksOff = (): void => {
  world.model.says = () => ({ text: ["half"], cut: true });
};
const fails = (): void => {
  world.model.says = () => ({ status: 400 });
};

describe("openai", () => {
  const open = (options: object = {}): OpenAI =>
    new OpenAI({ baseURL: `${world.url}/v1`, apiKey: KEY, fetch: documentedFetch, ...options });
  const clock = {
    type: "function" as const,
    function: {
      name: "clock",
      parameters: { type: "object", properties: { zone: { type: "string" } } },
    },
  };

  it("chats", async () => {
    const { data, response, request_id } = await open()
      .chat.completions.create({ model: "ops", messages: ask })
      .withResponse();
    expect([data.choices[0]?.message.content, data.usage]).toEqual(["fine", USAGE]);
    expect([response.headers.get("x-request-id"), request_id]).toEqual([
      request_id,
      expect.stringMatching(/^req_/),
    ]);
  });

  it("streams raw", async () => {
    const stream = await open().chat.completions.create({
      model: "ops",
      messages: ask,
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = "";
    let usage: unknown;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? "";
      usage = chunk.usage ?? usage;
    }
    expect([text, usage]).toEqual(["fine", USAGE]);
  });

  it("streams with its helper", async () => {
    const stream = open().chat.completions.stream({
      model: "ops",
      messages: ask,
      stream_options: { include_usage: true },
    });
    const said: string[] = [];
    stream.on("content", (delta) => said.push(delta));
    expect(await stream.finalContent()).toBe("fine");
    expect([said.join(""), await stream.totalUsage()]).toEqual([
      "fine",
      expect.objectContaining(USAGE),
    ]);
  });

  it("calls tools, raw and with its runner", async () => {
    callsClock();
    const first = await open().chat.completions.create({
      model: "ops",
      messages: ask,
      tools: [clock],
    });
    expect([
      first.choices[0]?.finish_reason,
      first.choices[0]?.message.tool_calls?.[0],
    ]).toMatchObject(["tool_calls", { id: "call_9" }]);
    const zones: unknown[] = [];
    const runner = open().chat.completions.runTools({
      model: "ops",
      messages: ask,
      stream: true,
      tools: [
        {
          type: "function",
          function: {
            name: "clock",
            description: "The time.",
            parameters: { type: "object", properties: { zone: { type: "string" } } },
            parse: (text: string) => JSON.parse(text) as { zone: string },
            function: ({ zone }: { zone: string }) => {
              zones.push(zone);
              return "12:00";
            },
          },
        },
      ],
    });
    expect([await runner.finalContent(), zones]).toEqual(["It is noon.", ["UTC"]]);
  });

  it("tells errors apart", async () => {
    const client = open({ maxRetries: 0 });
    const chat = (body: object) =>
      client.chat.completions.create({ model: "ops", messages: ask, ...body } as never);
    await expect(chat({ model: "none" })).rejects.toMatchObject({
      status: 404,
      code: "model_not_found",
      param: "model",
    });
    await expect(chat({ n: 2 })).rejects.toBeInstanceOf(OpenAI.BadRequestError);
    await expect(open({ apiKey: "wrong" }).models.list()).rejects.toBeInstanceOf(
      OpenAI.AuthenticationError,
    );
    await expect(client.get("/nothing")).rejects.toBeInstanceOf(OpenAI.NotFoundError);
    fails();
    await expect(chat({})).rejects.toMatchObject({
      status: 502,
      code: "upstream_error",
      type: "upstream_error",
    });
    breaksOff();
    const stream = await client.chat.completions.create({
      model: "ops",
      messages: ask,
      stream: true,
    });
    let text = "";
    const read = async (): Promise<void> => {
      for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
    };
    await expect(read()).rejects.toMatchObject({ code: "upstream_error" });
    expect(text).toBe("half");
    await expect(
      client.chat.completions.stream({ model: "ops", messages: ask }).finalContent(),
    ).rejects.toThrow();
  });

  it("repeats what was too fast, and nothing that has begun", async () => {
    const slow = open({ apiKey: "rk_slow-0123456789" });
    await slow.models.list();
    const before = Date.now();
    await slow.models.list();
    expect(Date.now() - before).toBeGreaterThan(900);
    fails();
    await expect(
      open().chat.completions.create({ model: "ops", messages: ask }),
    ).rejects.toMatchObject({ status: 502 });
    // The client makes no second request.
    expect(world.model.asked).toHaveLength(1);
  });

  it("keeps a session", async () => {
    const options = { headers: { "x-session-id": "s" } };
    await open().chat.completions.create({ model: "ops", messages: ask }, options);
    await open().chat.completions.create({
      model: "ops",
      messages: ask,
      metadata: { session_id: "s" },
    });
    expect(world.model.asked[1]?.body.messages).toHaveLength(4);
  });

  it("lists models", async () => {
    const ids: string[] = [];
    for await (const model of open().models.list()) ids.push(model.id);
    expect(ids).toEqual(["ops", "sales"]);
    expect(await open().models.retrieve("sales")).toMatchObject({ id: "sales", object: "model" });
  });

  it("gets responses, and continues them", async () => {
    const client = open();
    const first = await client.responses.create({
      model: "ops",
      input: "One.",
      instructions: "CALLER-ONE",
    });
    expect([first.output_text, first.status, first.usage?.total_tokens]).toEqual([
      "fine",
      "completed",
      14,
    ]);
    await client.responses.create({ model: "ops", input: "Two.", previous_response_id: first.id });
    expect(
      world.model.asked[1]?.body.messages
        .slice(1)
        .map(({ content }: { content: string }) => content),
    ).toEqual(["One.", "fine", "Two."]);
    // The instructions of one response are not those of the next.
    expect(world.model.asked[1]?.text).not.toContain("CALLER-ONE");
  });

  it("streams responses, raw and with its helper", async () => {
    const stream = await open().responses.create({ model: "ops", input: "One.", stream: true });
    const types: string[] = [];
    const numbers: number[] = [];
    for await (const event of stream) {
      types.push(event.type);
      numbers.push(event.sequence_number);
    }
    expect(numbers).toEqual(types.map((_type, index) => index));
    // The number of deltas depends on which chunks arrive together.
    expect([...new Set(types)]).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.completed",
    ]);
    const helper = open().responses.stream({ model: "ops", input: "One." });
    expect((await helper.finalResponse()).output_text).toBe("fine");
    breaksOff();
    await expect(
      open().responses.stream({ model: "ops", input: "One." }).finalResponse(),
    ).rejects.toThrow();
  });

  it("calls tools in responses, and answers them by the call's id alone", async () => {
    callsClock();
    const tools = [
      {
        type: "function" as const,
        name: "clock",
        parameters: clock.function.parameters,
        strict: false,
      },
    ];
    const first = await open().responses.create({ model: "ops", input: "One.", tools });
    expect(first.output).toMatchObject([
      { type: "function_call", name: "clock", call_id: "call_9", arguments: '{"zone":"UTC"}' },
    ]);
    const second = await open().responses.create({
      model: "ops",
      tools,
      previous_response_id: first.id,
      input: [{ type: "function_call_output", call_id: "call_9", output: "12:00" }],
    });
    expect(second.output_text).toBe("It is noon.");
    const stream = open().responses.stream({ model: "ops", input: "One.", tools });
    expect((await stream.finalResponse()).output).toMatchObject([
      { type: "function_call", arguments: '{"zone":"UTC"}' },
    ]);
  });
});

describe.each([
  [
    "@ai-sdk/openai-compatible",
    () =>
      createOpenAICompatible({
        name: "rouse",
        baseURL: `${world.url}/v1`,
        apiKey: KEY,
        includeUsage: true,
        fetch: documentedFetch,
      })("ops"),
  ],
  [
    "@ai-sdk/openai (chat)",
    () =>
      createOpenAI({ baseURL: `${world.url}/v1`, apiKey: KEY, fetch: documentedFetch }).chat("ops"),
  ],
  [
    "@ai-sdk/openai (responses)",
    () =>
      createOpenAI({ baseURL: `${world.url}/v1`, apiKey: KEY, fetch: documentedFetch }).responses(
        "ops",
      ),
  ],
])("%s", (_name, model) => {
  const clock = tool({
    description: "The time.",
    inputSchema: z.object({ zone: z.string() }),
    execute: async () => "12:00",
  });

  it("chats, with usage", async () => {
    const result = await generateText({ model: model(), prompt: "Say it." });
    expect([result.text, result.finishReason, result.usage]).toMatchObject([
      "fine",
      "stop",
      { inputTokens: 11, outputTokens: 3, totalTokens: 14 },
    ]);
  });

  it("streams, with usage", async () => {
    const result = streamText({ model: model(), instructions: "CALLER", messages: ask });
    const said: string[] = [];
    for await (const delta of result.textStream) said.push(delta);
    expect([said.join(""), await result.finishReason, await result.usage]).toMatchObject([
      "fine",
      "stop",
      { inputTokens: 11, outputTokens: 3 },
    ]);
    expect(world.model.asked[0]?.body.messages[0].content).toMatch(/^OWN-INSTRUCTIONS[^]*CALLER/);
  });

  it("calls its tools, whole and streamed", async () => {
    callsClock();
    const call = { tools: { clock }, stopWhen: isStepCount(3), prompt: "Time?" };
    expect((await generateText({ model: model(), ...call })).text).toBe("It is noon.");
    const streamed = streamText({ model: model(), ...call });
    expect(await streamed.text).toBe("It is noon.");
  });

  it("continues a conversation", async () => {
    const first = await generateText({ model: model(), messages: ask });
    await generateText({
      model: model(),
      messages: [...ask, ...first.responseMessages, { role: "user", content: "And then?" }],
    });
    expect(world.model.asked[1]?.roles).toEqual(["system", "user", "assistant", "user"]);
  });

  it("tells of failures, before and after the first word", async () => {
    fails();
    await expect(
      generateText({ model: model(), prompt: "x", maxRetries: 0 }),
    ).rejects.toMatchObject({ statusCode: 502 });
    breaksOff();
    const errors: unknown[] = [];
    const result = streamText({
      model: model(),
      prompt: "x",
      maxRetries: 0,
      onError: ({ error }) => void errors.push(error),
    });
    for await (const _part of result.fullStream);
    expect(errors).toHaveLength(1);
  });
});

describe.each([false, true])("@langchain/openai (responses: %s)", (useResponsesApi) => {
  const open = (options: object = {}): ChatOpenAI =>
    new ChatOpenAI({
      model: "ops",
      apiKey: KEY,
      useResponsesApi,
      configuration: { baseURL: `${world.url}/v1`, fetch: documentedFetch },
      ...options,
    });

  it("chats, with usage", async () => {
    const { text, usage_metadata } = await open().invoke([
      ["system", "CALLER"],
      ["human", "Say it."],
    ]);
    expect([text, usage_metadata]).toMatchObject([
      "fine",
      { input_tokens: 11, output_tokens: 3, total_tokens: 14 },
    ]);
  });

  it("streams", async () => {
    let text = "";
    for await (const chunk of await open({ streamUsage: true }).stream("Say it."))
      text += chunk.text;
    expect(text).toBe("fine");
  });

  it("calls its tools", async () => {
    callsClock();
    const clock = langTool(async () => "12:00", {
      name: "clock",
      description: "The time.",
      schema: z.object({ zone: z.string() }),
    });
    const bound = open().bindTools([clock]);
    const asked = [new HumanMessage("Time?")];
    const first = await bound.invoke(asked);
    expect(first.tool_calls).toMatchObject([{ name: "clock", args: { zone: "UTC" } }]);
    const result = new ToolMessage({
      content: "12:00",
      tool_call_id: first.tool_calls?.[0]?.id ?? "",
    });
    expect((await bound.invoke([...asked, first, result])).text).toBe("It is noon.");
  });

  it("knows a conversation that is too long for the model", async () => {
    const error = { message: "too long", code: "context_length_exceeded" };
    world.model.says = () => ({ status: 400, error });
    await expect(open({ maxRetries: 0 }).invoke("x")).rejects.toBeInstanceOf(ContextOverflowError);
  });

  it("tells of failures, before and after the first word", async () => {
    fails();
    await expect(open({ maxRetries: 0 }).invoke("x")).rejects.toMatchObject({ status: 502 });
    breaksOff();
    const read = async (): Promise<void> => {
      for await (const _chunk of await open({ maxRetries: 0 }).stream("x"));
    };
    await expect(read()).rejects.toThrow();
  });
});
