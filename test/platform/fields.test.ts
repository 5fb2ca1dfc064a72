import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { listenOn } from "../channels/wire.ts";
import { dataUri, gif, imageMessage, jpeg, png, webp } from "./images.ts";
import { platformWorld, USER, type PlatformWorld } from "./world.ts";

let world: PlatformWorld;
let images: Awaited<ReturnType<typeof listenOn>>;
let imageOrigin: string;
beforeAll(async () => {
  images = await listenOn((request, response) => {
    if (request.url === "/moved.png")
      return void response.writeHead(302, { location: "/a.png" }).end();
    if (request.url === "/missing.png") return void response.writeHead(404).end();
    response.end(request.url === "/big.png" ? png(10, 10, 5000) : png(10, 10));
  });
  imageOrigin = images.url;
  world = await platformWorld({ platform: { imageHosts: [imageOrigin], maxImageBytes: 4000 } });
});
afterAll(async () => {
  await world.close();
  await images.close();
});
beforeEach(() => world.model.reset());

const refused = async (body: object) => {
  const { status, body: answer } = await world.chat(body);
  expect(world.model.asked).toEqual([]);
  return [status, answer.error.param, answer.error.code];
};
const sent = () => world.model.asked[0]?.body;
const TOOL = { type: "function", function: { name: "clock", parameters: { type: "object" } } };

describe("the model", () => {
  it.each(["ops", "agent:ops", "default"])("%s is the agent", async (model) => {
    const { body } = await world.chat({ model });
    expect(body.model).toBe("ops");
    // The provider is asked for its own model.
    expect(sent().model).toBe("big");
  });

  it.each(["gpt-5", "agent:", "agent:nobody", "local/big", "__proto__"])(
    "%s is not there",
    async (model) => {
      expect(await refused({ model })).toEqual([404, "model", "model_not_found"]);
    },
  );
});

describe("instructions", () => {
  it("of the caller stand below the agent's own, wherever they come in the conversation", async () => {
    await world.chat({
      messages: [
        { role: "system", content: "CALLER-ONE" },
        ...USER,
        { role: "developer", content: [{ type: "text", text: "CALLER-TWO" }] },
      ],
    });
    const [system, ...rest] = sent().messages;
    expect(system.role).toBe("system");
    expect(system.content).toMatch(/^OWN-INSTRUCTIONS[^]*CALLER-ONE[^]*CALLER-TWO/);
    expect(rest).toEqual([{ role: "user", content: "Say it." }]);
  });

  it("of the caller alone are what the agent is asked", async () => {
    const messages = [
      { role: "system", content: "Name a colour." },
      { role: "developer", content: "In French." },
    ];
    expect((await world.chat({ messages })).body.choices[0].message.content).toBe("fine");
    const [system, ...rest] = sent().messages;
    expect(system.content).toMatch(/^OWN-INSTRUCTIONS/);
    expect(system.content).not.toContain("colour");
    expect(rest).toEqual([{ role: "user", content: "Name a colour.\n\nIn French." }]);
    const { status } = await world.call("/v1/responses", { model: "ops", input: messages });
    expect([status, world.model.asked[1]?.body.messages.at(-1)]).toEqual([200, rest[0]]);
  });

  it("are the agent's alone where the caller has none; what its user says is not outside text", async () => {
    await world.chat({
      messages: [{ role: "user", content: "Ignore <<<EXTERNAL_CONTENT x>>> this." }],
    });
    expect(sent().messages[0].content).toMatch(/^OWN-INSTRUCTIONS/);
    expect(sent().messages[1].content).toBe("Ignore <<<EXTERNAL_CONTENT x>>> this.");
  });
});

describe("what is passed on", () => {
  it("is what the caller says of the answer", async () => {
    await world.chat({
      temperature: 0,
      top_p: 0.5,
      max_tokens: 9,
      max_completion_tokens: 10,
      stop: ["a", "b"],
      seed: 7,
      presence_penalty: 1,
      frequency_penalty: -1,
      reasoning_effort: "low",
      parallel_tool_calls: false,
      tools: [TOOL],
      unheard_of: { deep: true },
    });
    expect(sent()).toMatchObject({
      temperature: 0,
      top_p: 0.5,
      max_tokens: 10,
      stop: ["a", "b"],
      seed: 7,
      presence_penalty: 1,
      frequency_penalty: -1,
      reasoning_effort: "low",
      parallel_tool_calls: false,
      stream: false,
    });
    expect(sent()).not.toHaveProperty("unheard_of");
  });

  it("is the highest effort, in both forms", async () => {
    expect((await world.chat({ reasoning_effort: "max" })).status).toBe(200);
    expect((await world.respond({ reasoning: { effort: "max" } })).status).toBe(200);
    for (const { body } of world.model.asked) expect(body.reasoning_effort).toBe("xhigh");
    expect(world.model.asked).toHaveLength(2);
  });

  it("is not how tools are called without tools, which providers reject", async () => {
    for (const parallel of [true, false])
      expect((await world.chat({ parallel_tool_calls: parallel })).status).toBe(200);
    for (const { body } of world.model.asked)
      expect(body).not.toHaveProperty("parallel_tool_calls");
  });

  it("is no empty stop, which providers reject", async () => {
    for (const stop of [[], "", ["", ""]]) {
      world.model.reset();
      expect((await world.chat({ stop })).status).toBe(200);
      expect(sent()).not.toHaveProperty("stop");
    }
    world.model.reset();
    await world.chat({ stop: ["", "END"] });
    expect(sent().stop).toEqual(["END"]);
  });

  it("is a schema for the answer", async () => {
    const schema = {
      type: "object",
      properties: { a: { type: "number" } },
      required: ["a"],
      additionalProperties: false,
    };
    world.model.says = () => ({ text: ['{"a":1}'] });
    const { body } = await world.chat({
      response_format: { type: "json_schema", json_schema: { name: "out", schema, strict: false } },
    });
    expect(sent().response_format).toEqual({
      type: "json_schema",
      json_schema: { name: "out", schema, strict: false },
    });
    expect(body.choices[0].message.content).toBe('{"a":1}');
    await world.chat({ response_format: { type: "json_object" } });
    expect(world.model.asked[1]?.body.response_format).toEqual({ type: "json_object" });
    await world.chat({ response_format: { type: "text" } });
    expect(world.model.asked[2]?.body).not.toHaveProperty("response_format");
  });

  it("is a schema that is as strict as the caller says, by default not: vendors reject most schemas as strict ones", async () => {
    const schema = { type: "object", properties: { a: { type: "number" } } };
    const json = (call: number) => world.model.asked[call]?.body.response_format.json_schema;
    for (const [call, strict] of [undefined, null, true].entries()) {
      const named = { name: "out", schema, strict };
      await world.chat({ response_format: { type: "json_schema", json_schema: named } });
      expect(json(call)).toEqual({ name: "out", schema, strict: strict ?? false });
    }
  });

  it("is nothing where all is null", async () => {
    const names =
      "n temperature top_p max_tokens max_completion_tokens stop seed presence_penalty frequency_penalty reasoning_effort response_format tools tool_choice parallel_tool_calls stream stream_options user metadata session_id conversation_id".split(
        " ",
      );
    const { status } = await world.chat(Object.fromEntries(names.map((name) => [name, null])));
    expect(status).toBe(200);
    expect(Object.keys(sent()).toSorted()).toEqual(["messages", "model", "stream"]);
  });
});

describe("ranges and forms", () => {
  it.each<[object, string, string?]>([
    [{ messages: [] }, "messages"],
    [{ messages: undefined }, "messages"],
    [{ messages: "hello" }, "messages"],
    [{ messages: [{ role: "system", content: " " }] }, "messages"],
    [{ messages: [{ role: "robot", content: "x" }] }, "messages[0].role"],
    [{ messages: [{ role: "user" }] }, "messages[0].content"],
    [{ messages: [{ role: "user", content: 7 }] }, "messages[0].content"],
    [{ messages: [{ role: "user", content: [{ type: "text" }] }] }, "messages[0].content[0].text"],
    [{ model: undefined }, "model"],
    [{ model: 7 }, "model"],
    [{ n: 2 }, "n"],
    [{ n: 0 }, "n"],
    [{ temperature: 2.1 }, "temperature"],
    [{ temperature: "hot" }, "temperature"],
    [{ top_p: -0.1 }, "top_p"],
    [{ max_tokens: 0 }, "max_tokens"],
    [{ max_completion_tokens: 1.5 }, "max_completion_tokens"],
    [{ presence_penalty: 3 }, "presence_penalty"],
    [{ frequency_penalty: -3 }, "frequency_penalty"],
    [{ stop: ["a", "b", "c", "d", "e"] }, "stop"],
    [{ seed: 1.5 }, "seed"],
    [{ reasoning_effort: "utmost" }, "reasoning_effort"],
    [{ stream: "yes" }, "stream"],
    [{ response_format: { type: "yaml" } }, "response_format.type"],
    [{ tools: [{ type: "web_search" }] }, "tools[0].type"],
    [{ tools: [{ type: "function", function: { name: "no spaces" } }] }, "tools[0].function.name"],
    [{ tool_choice: "some" }, "tool_choice"],
    [
      { messages: [{ role: "user", content: [{ type: "input_audio", input_audio: {} }] }] },
      "messages[0].content[0].type",
      "unsupported_content",
    ],
    [
      { messages: [{ role: "user", content: [{ type: "file", file: {} }] }] },
      "messages[0].content[0]",
      "invalid_file",
    ],
    [
      { messages: [...USER, { role: "tool", tool_call_id: "c1", content: "x" }] },
      "messages[1].tool_call_id",
    ],
    [{ session_id: "a\nb" }, "session_id"],
    [{ session_id: "x".repeat(201) }, "session_id"],
  ])("%j is refused at %s", async (body, param, code = "invalid_value") => {
    expect(await refused(body)).toEqual([400, param, code]);
  });

  it.each<[object, string]>([
    [
      { messages: [{ role: "robot", content: "x" }] },
      'messages[0].role: must be "system", "developer", "user", "assistant", "function" or "tool"',
    ],
    [{ messages: [{ content: "x" }] }, "messages[0].role: is required"],
    [{ tools: [{ type: "custom", custom: { name: "f" } }] }, 'tools[0].type: must be "function"'],
    [
      { response_format: { type: "yaml" } },
      'response_format.type: must be "text", "json_object" or "json_schema"',
    ],
    [
      { messages: [{ role: "user", content: [{ type: "input_text", text: "x" }] }] },
      'messages[0].content[0].type: must be "text", "image_url" or "file"',
    ],
  ])("%j is refused, and the error names the allowed values", async (body, message) => {
    expect((await world.chat(body)).body.error.message).toBe(message);
  });

  it("stop takes up to four strings, and says so", async () => {
    const four = ["a", "b", "c", "d"];
    expect((await world.chat({ stop: four })).status).toBe(200);
    expect(world.model.asked.at(-1)?.body.stop).toEqual(four);
    for (const stop of [[...four, "e"], 7, { a: "b" }]) {
      const { status, body } = await world.chat({ stop });
      expect([status, body.error.param, body.error.message]).toEqual([
        400,
        "stop",
        "stop: send a string, or a list of at most four strings",
      ]);
    }
  });

  it.each<[object, string]>([
    [{ logprobs: true }, "logprobs"],
    [{ logprobs: true, top_logprobs: 2 }, "logprobs"],
    [{ top_logprobs: 2 }, "top_logprobs"],
    [{ functions: [{ name: "f" }] }, "functions"],
    [{ function_call: "auto" }, "function_call"],
    [{ audio: { voice: "alloy", format: "wav" } }, "audio"],
    [{ modalities: ["text", "audio"] }, "modalities"],
    [{ web_search_options: {} }, "web_search_options"],
    [{ background: true }, "background"],
    [{ conversation: "c" }, "conversation"],
    [
      { messages: [...USER, { role: "assistant", audio: { id: "a" } }, ...USER] },
      "messages[1].audio",
    ],
    [{ messages: [...USER, { role: "function", name: "f", content: "x" }] }, "messages[1].role"],
  ])("%j is refused by its name", async (body, param) => {
    expect(await refused(body)).toEqual([400, param, "unsupported_parameter"]);
  });

  it("what is not supported may be there as long as it asks for nothing", async () => {
    const nothing = {
      logprobs: false,
      top_logprobs: 0,
      functions: [],
      function_call: null,
      audio: null,
      modalities: ["text"],
    };
    expect((await world.chat(nothing)).status).toBe(200);
    expect(Object.keys(sent()).toSorted()).toEqual(["messages", "model", "stream"]);
  });

  it("a result may be null, and a call have no type", async () => {
    const call = { id: "c1", function: { name: "look", arguments: "" } };
    const messages = [
      ...USER,
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "c1", content: null },
    ];
    expect((await world.chat({ messages })).status).toBe(200);
    expect(sent().messages.slice(2)).toMatchObject([
      { tool_calls: [{ id: "c1", function: { name: "look", arguments: "{}" } }] },
      { role: "tool", tool_call_id: "c1" },
    ]);
    const item = { type: "function_call", call_id: "c1", name: "look", arguments: "{}" };
    const output = { type: "function_call_output", call_id: "c1", output: null };
    expect((await world.respond({ input: [...USER, item, output] })).status).toBe(200);
  });

  it("calls need their results right behind them", async () => {
    const call = (text: string) => ({
      role: "assistant",
      tool_calls: [{ id: "c1", type: "function", function: { name: "f", arguments: text } }],
    });
    expect(await refused({ messages: [...USER, call("{}"), ...USER] })).toEqual([
      400,
      "messages[1]",
      "invalid_value",
    ]);
    expect(await refused({ messages: [...USER, call("{}")] })).toEqual([
      400,
      "messages[1]",
      "invalid_value",
    ]);
  });

  it("errors quote nothing of what was sent", async () => {
    const { text } = await world.chat({
      model: "ops",
      temperature: "canary-4711",
      messages: [{ role: "canary-4711", content: "canary-4711" }],
    });
    expect(text).not.toContain("canary-4711");
  });
});

describe("images", () => {
  it.each<[string, Buffer, string]>([
    ["PNG", png(10, 10), "image/png"],
    ["JPEG", jpeg(10, 10), "image/jpeg"],
    ["GIF", gif(10, 10), "image/gif"],
    ["WebP", webp("VP8X", 10, 10), "image/webp"],
    ["WebP, lossy", webp("VP8 ", 10, 10), "image/webp"],
    ["WebP, lossless", webp("VP8L", 10, 10), "image/webp"],
  ])("as data URIs reach the model: %s", async (_name, image, type) => {
    // The type that the address names is ignored.
    expect(
      (await world.chat({ messages: imageMessage(dataUri(image, "image/x-any")) })).status,
    ).toBe(200);
    expect(sent().messages[1].content).toEqual([
      { type: "text", text: "What is this?" },
      { type: "image_url", image_url: { url: dataUri(image, type) } },
    ]);
  });

  it("are read in the form of the other route too", async () => {
    const url = dataUri(png(3, 3));
    await world.chat({
      messages: [{ role: "user", content: [{ type: "image_url", image_url: url }] }],
    });
    const content = [{ type: "input_image", image_url: { url, detail: "low" } }];
    await world.respond({ input: [{ role: "user", content }] });
    expect(world.model.asked.map(({ body }) => body.messages[1].content)).toEqual([
      [{ type: "image_url", image_url: { url } }],
      [{ type: "image_url", image_url: { url, detail: "low" } }],
    ]);
  });

  it("are read in the detail that was asked for", async () => {
    const url = dataUri(png(10, 10));
    expect((await world.chat({ messages: imageMessage(url, "low") })).status).toBe(200);
    const input = [
      { role: "user", content: [{ type: "input_image", image_url: url, detail: "high" }] },
    ];
    expect((await world.respond({ input, store: false })).status).toBe(200);
    const [chat, response] = world.model.asked.slice(-2).map(({ body }) => body.messages[1]);
    expect(chat.content[1]).toEqual({ type: "image_url", image_url: { url, detail: "low" } });
    expect(response.content).toEqual([{ type: "image_url", image_url: { url, detail: "high" } }]);
  });

  it("reach the model as images if a client sends them as files", async () => {
    const url = dataUri(png(10, 10));
    const file = { file_data: url, filename: "image-1.png" };
    const text = "What is this?";
    const messages = [
      {
        role: "user",
        content: [
          { type: "text", text },
          { type: "file", file },
        ],
      },
    ];
    expect((await world.chat({ messages })).status).toBe(200);
    const content = [
      { type: "input_text", text },
      { type: "input_file", ...file },
    ];
    expect((await world.respond({ input: [{ role: "user", content }] })).status).toBe(200);
    for (const { body } of world.model.asked)
      expect(body.messages[1].content).toEqual([
        { type: "text", text },
        { type: "image_url", image_url: { url } },
      ]);
  });

  it("are named to a model that sees none, with a warning of the run", async () => {
    const blind = await platformWorld({ images: false });
    try {
      expect((await blind.chat({ messages: imageMessage(dataUri(png(10, 10))) })).status).toBe(200);
      expect(blind.model.asked[0]?.body.messages[1].content).toEqual([
        { type: "text", text: "What is this?" },
        { type: "text", text: "[image image/png] (this model cannot see images)" },
      ]);
      const [{ id }] = (await blind.admin("/admin/v1/runs")).body.runs;
      const { warnings } = (await blind.admin(`/admin/v1/runs/${id}`)).body.run;
      expect(warnings).toEqual([
        "the model cannot see the images of the request (`images` of its provider)",
      ]);
      const agents = await blind.ask("/v1/agents");
      expect(
        ((await agents.json()) as { data: { capabilities: string[] }[] }).data[0]?.capabilities,
      ).not.toContain("images");
    } finally {
      await blind.close();
    }
  });

  it.each<[string, () => string, string]>([
    ["too many pixels", () => dataUri(png(60_000, 60_000)), "image_too_large"],
    ["too many pixels in a JPEG", () => dataUri(jpeg(65_000, 65_000)), "image_too_large"],
    ["too many pixels in a GIF", () => dataUri(gif(65_000, 65_000)), "image_too_large"],
    ["too many pixels in a WebP", () => dataUri(webp("VP8X", 16_000, 16_000)), "image_too_large"],
    [
      "too many pixels in a lossless WebP",
      () => dataUri(webp("VP8L", 16_000, 16_000)),
      "image_too_large",
    ],
    ["no pixels", () => dataUri(png(0, 10)), "image_too_large"],
    ["too many bytes", () => dataUri(png(10, 10, 5000)), "image_too_large"],
    [
      "something else",
      () => dataUri(Buffer.from("<svg onload=alert(1)>".repeat(10))),
      "invalid_image",
    ],
    ["next to nothing", () => "data:image/png;base64,", "invalid_image"],
    ["no base64", () => "data:image/png,abc", "invalid_image"],
    ["no address", () => "picture.png", "invalid_image"],
    ["a file", () => "file:///etc/passwd", "image_host_not_allowed"],
    ["a host that is not allowed", () => "https://evil.example/a.png", "image_host_not_allowed"],
    ["another port of a host that is", () => "http://127.0.0.1:9/a.png", "image_host_not_allowed"],
    [
      "a host with its name in front",
      () => `${imageOrigin.replace("http://", "http://x@")}.evil.example/a.png`,
      "invalid_image",
    ],
    [
      "an allowed host that sends elsewhere",
      () => `${imageOrigin}/moved.png`,
      "image_not_available",
    ],
    ["an allowed host that has none", () => `${imageOrigin}/missing.png`, "image_not_available"],
    ["an allowed host with too much", () => `${imageOrigin}/big.png`, "image_too_large"],
  ])("with %s are refused", async (_name, url, code) => {
    expect(await refused({ messages: imageMessage(url()) })).toEqual([
      400,
      "messages[0].content[1].image_url.url",
      code,
    ]);
  });

  it("of an allowed host are fetched, and go to the model as data", async () => {
    expect((await world.chat({ messages: imageMessage(`${imageOrigin}/a.png`) })).status).toBe(200);
    expect(sent().messages[1].content[1]).toEqual({
      type: "image_url",
      image_url: { url: dataUri(png(10, 10)) },
    });
  });
});

describe("what the provider counted", () => {
  it("is null if it counted nothing, in responses 0, since clients of these read the counts unasked", async () => {
    world.model.says = () => ({ text: ["x"], usage: false });
    expect((await world.chat()).body.usage).toBeNull();
    const { usage } = (await world.respond()).body;
    expect(usage).toMatchObject({ input_tokens: 0, output_tokens: 0, total_tokens: 0 });
  });

  it("has its details", async () => {
    const details = {
      prompt_tokens_details: { cached_tokens: 5 },
      completion_tokens_details: { reasoning_tokens: 2 },
    };
    world.model.says = () => ({
      text: ["x"],
      usage: { prompt_tokens: 11, completion_tokens: 3, total_tokens: 14, ...details },
    });
    expect((await world.chat()).body.usage).toEqual({
      prompt_tokens: 11,
      completion_tokens: 3,
      total_tokens: 14,
      ...details,
    });
    const { body } = await world.call("/v1/responses", { model: "ops", input: "Hi." });
    expect(body.usage).toEqual({
      input_tokens: 11,
      input_tokens_details: { cached_tokens: 5 },
      output_tokens: 3,
      output_tokens_details: { reasoning_tokens: 2 },
      total_tokens: 14,
    });
  });

  it.each([
    ["length", "length"],
    ["content_filter", "content_filter"],
    ["stop", "stop"],
  ])("and why it ended: %s", async (finish, reason) => {
    world.model.says = () => ({ text: ["x"], finish });
    expect((await world.chat()).body.choices[0].finish_reason).toBe(reason);
  });

  it("and that the last of several calls was cut", async () => {
    const calls = [
      { id: "c1", name: "write", arguments: '{"text":"All"}' },
      { id: "c2", name: "write", arguments: '{"text":"Ha' },
    ];
    world.model.says = () => ({ calls, finish: "length" });
    const write = { name: "write", parameters: { type: "object" } };
    const { body: chat } = await world.chat({ tools: [{ type: "function", function: write }] });
    const [{ finish_reason: reason, message }] = chat.choices;
    expect([reason, message.tool_calls.length]).toEqual(["length", 2]);
    const { body } = await world.respond({ tools: [{ type: "function", ...write }] });
    expect([body.status, body.incomplete_details]).toEqual([
      "incomplete",
      { reason: "max_output_tokens" },
    ]);
    expect(body.output.map(({ status }: { status: string }) => status)).toEqual([
      "completed",
      "incomplete",
    ]);
  });
});
