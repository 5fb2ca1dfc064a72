import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { dataUri, png } from "./images.ts";
import { OTHER_KEY, platformWorld, type PlatformWorld } from "./world.ts";

let world: PlatformWorld;
beforeAll(async () => {
  world = await platformWorld();
});
beforeEach(() => world.model.reset((_asked, call) => ({ text: [`answer ${call}`] })));
afterAll(() => world.close());

const told = (call: number) =>
  world.model.asked[call]?.body.messages
    .slice(1)
    .map(({ content }: { content: unknown }) => content);

it("responses: a schema for the answer reaches the model", async () => {
  const schema = { type: "object", properties: { a: { type: "number" } }, required: ["a"] };
  const format = { type: "json_schema", name: "out", description: "A number.", schema };
  expect((await world.respond({ text: { format: { ...format, strict: true } } })).status).toBe(200);
  expect((await world.respond({ text: { format } })).status).toBe(200);
  expect(world.model.asked.map(({ body }) => body.response_format)).toEqual(
    [true, false].map((strict) => ({
      type: "json_schema",
      json_schema: { name: "out", description: "A number.", schema, strict },
    })),
  );
});

it("responses: an answer has the whole shape", async () => {
  const { status, body } = await world.respond({
    instructions: "CALLER",
    temperature: 0.5,
    max_output_tokens: 7,
    text: { format: { type: "json_object" } },
  });
  expect(status).toBe(200);
  expect(body).toMatchObject({
    id: expect.stringMatching(/^resp_run_/),
    object: "response",
    status: "completed",
    model: "ops",
    output: [
      {
        type: "message",
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text: "answer 0", annotations: [] }],
      },
    ],
    usage: { input_tokens: 11, output_tokens: 3, total_tokens: 14 },
    error: null,
    incomplete_details: null,
    previous_response_id: null,
  });
  const sent = world.model.asked[0]?.body;
  expect(sent).toMatchObject({
    temperature: 0.5,
    max_tokens: 7,
    response_format: { type: "json_object" },
  });
  expect(sent.messages[0].content).toMatch(/^OWN-INSTRUCTIONS[^]*CALLER/);
});

it("responses: items of every kind become one conversation", async () => {
  const input = [
    { role: "developer", content: "CALLER" },
    {
      type: "message",
      role: "user",
      content: [
        { type: "input_text", text: "Look." },
        { type: "input_image", image_url: dataUri(png(3, 3)) },
      ],
    },
    { type: "message", role: "assistant", content: [{ type: "output_text", text: "Well." }] },
    { type: "function_call", call_id: "c1", name: "clock", arguments: "{}" },
    { type: "function_call", call_id: "c2", name: "clock", arguments: "{}" },
    { type: "function_call_output", call_id: "c1", output: "1" },
    { type: "function_call_output", call_id: "c2", output: [{ type: "input_text", text: "2" }] },
  ];
  expect((await world.respond({ input })).status).toBe(200);
  const [asked] = world.model.asked;
  expect(asked?.roles).toEqual(["system", "user", "assistant", "tool", "tool"]);
  expect(asked?.body.messages[2].tool_calls).toHaveLength(2);
});

it("responses: an answer that was cut off says so", async () => {
  world.model.says = () => ({ text: ["x"], finish: "length" });
  const { body } = await world.respond({});
  expect([body.status, body.incomplete_details]).toEqual([
    "incomplete",
    { reason: "max_output_tokens" },
  ]);
  expect((await world.respond({ stream: true })).text).toContain("event: response.incomplete\n");
});

describe("what comes after a response", () => {
  it("continues it, and branches off if it is not the last", async () => {
    const one = (await world.respond({ input: "one" })).body;
    const two = (await world.respond({ input: "two", previous_response_id: one.id })).body;
    const other = (await world.respond({ input: "other", previous_response_id: one.id })).body;
    await world.respond({ input: "three", previous_response_id: two.id });
    await world.respond({ input: "more", previous_response_id: other.id });
    expect(told(2)).toEqual(["one", "answer 0", "other"]);
    expect(told(3)).toEqual(["one", "answer 0", "two", "answer 1", "three"]);
    expect(told(4)).toEqual(["one", "answer 0", "other", "answer 2", "more"]);
  });

  it("a branch names its own session, which continues with it", async () => {
    const one = await world.respond({ input: "one" });
    const two = await world.respond({ input: "two", previous_response_id: one.body.id });
    const branch = await world.respond({
      input: "other",
      previous_response_id: one.body.id,
      stream: true,
    });
    const [first, next, other] = [one, two, branch].map(
      ({ headers }) => headers.get("x-session-id") ?? "",
    );
    expect([next, other === first, other]).toEqual([first, false, expect.stringMatching(/^run_/)]);
    await world.chat({ messages: [{ role: "user", content: "go on" }], session_id: other });
    expect(told(3)).toEqual(["one", "answer 0", "other", "answer 2", "go on"]);
  });

  it("has the whole conversation that the first one was given", async () => {
    const input = [
      { role: "user", content: "a" },
      { role: "assistant", content: "b" },
      { role: "user", content: "c" },
    ];
    const { body } = await world.respond({ input });
    await world.respond({ input: "d", previous_response_id: body.id });
    expect(told(1)).toEqual(["a", "b", "c", "answer 0", "d"]);
  });

  it("is not there with `store: false`, and keeps nothing with it", async () => {
    const gone = (await world.respond({ store: false })).body;
    const { status, body } = await world.respond({ previous_response_id: gone.id });
    expect([status, body.error.code, body.error.param]).toEqual([
      404,
      "previous_response_not_found",
      "previous_response_id",
    ]);
    const one = (await world.respond({ input: "one" })).body;
    const aside = (
      await world.respond({ input: "aside", previous_response_id: one.id, store: false })
    ).body;
    expect((await world.respond({ previous_response_id: aside.id })).status).toBe(404);
    await world.respond({ input: "two", previous_response_id: one.id });
    expect(told(2)).toEqual(["one", "answer 1", "aside"]);
    expect(told(3)).toEqual(["one", "answer 1", "two"]);
  });

  it("is not another key's, nor another agent's", async () => {
    const { body } = await world.respond({});
    const headers = { key: OTHER_KEY };
    expect((await world.respond({ previous_response_id: body.id }, headers)).status).toBe(404);
    expect((await world.respond({ previous_response_id: body.id, model: "sales" })).status).toBe(
      404,
    );
    const reference = [
      { type: "item_reference", id: body.output[0].id },
      { role: "user", content: "x" },
    ];
    expect((await world.respond({ input: reference })).status).toBe(200);
    expect((await world.respond({ input: reference }, headers)).body.error).toMatchObject({
      param: "input[0].id",
      code: "item_not_found",
    });
  });

  it("takes calls by the ids of their items, with their results behind them", async () => {
    const calls = ["a", "b"].map((id) => ({ id, name: "look", arguments: `{"at":"${id}"}` }));
    world.model.says = (_asked, call) => (call === 0 ? { text: ["I look."], calls } : {});
    const { body } = await world.respond({ tools: [{ type: "function", name: "look" }] });
    const references = body.output.map(({ id }: { id: string }) => ({
      type: "item_reference",
      id,
    }));
    const results = calls.map(({ id }) => ({
      type: "function_call_output",
      call_id: id,
      output: "x",
    }));
    const input = [{ role: "user", content: "Hi." }, ...references, ...results];
    expect((await world.respond({ input })).status).toBe(200);
    const [, , said] = world.model.asked[1]?.body.messages ?? [];
    expect([said.content, said.tool_calls]).toEqual([
      "I look.",
      calls.map(({ id, ...made }) => ({ id, type: "function", function: made })),
    ]);
  });

  it.each([[[]], [[{ role: "user", content: "Hi." }]]])(
    "takes the results of a session's calls without the calls, behind %j",
    async (before) => {
      const calls = [{ id: "c1", name: "look", arguments: "{}" }];
      const conversation = `results-${before.length}`;
      world.model.says = (_asked, call) => (call === 0 ? { calls } : { text: ["Seen."] });
      await world.respond({ conversation, tools: [{ type: "function", name: "look" }] });
      const output = { type: "function_call_output", call_id: "c1", output: "x" };
      await world.respond({ conversation, input: [...before, output] });
      await world.respond({ conversation, input: "And?" });
      const roles = ["system", "user", "assistant", "tool", ...before.map(() => "user")];
      expect(world.model.asked.map((asked) => asked.roles).slice(1)).toEqual([
        roles,
        [...roles, "assistant", "user"],
      ]);
    },
  );

  it("may be a session's, by the usual names", async () => {
    const { headers } = await world.respond({ input: "one", conversation: "s" });
    expect(headers.get("x-session-id")).toBe("s");
    await world.respond({ input: "two", conversation: { id: "s" } });
    await world.chat({ session_id: "s" });
    expect(told(2)).toEqual(["one", "answer 0", "two", "answer 1", "Say it."]);
  });
});

it.each<[object, string]>([
  [{ input: "" }, "input"],
  [{ input: [] }, "input"],
  [{ input: undefined }, "input"],
  [{ input: [{ role: "user", content: [{ type: "input_file" }] }] }, "input[0].content[0]"],
  [{ input: [{ type: "function_call_output", call_id: "c", output: "x" }] }, "input"],
  [{ reasoning: { effort: "utmost" } }, "reasoning.effort"],
  [{ temperature: 3 }, "temperature"],
])("responses: %j is refused at %s", async (body, param) => {
  const { status, body: answer } = await world.respond(body);
  expect([status, answer.error.param]).toEqual([400, param]);
  expect(world.model.asked).toEqual([]);
});

it("responses: a repeat joins the turn of its own route only", async () => {
  const headers = { "idempotency-key": "k" };
  const one = await world.respond({}, headers);
  expect((await world.respond({}, headers)).body).toEqual(one.body);
  expect((await world.chat({}, headers)).status).toBe(409);
});

it("responses: a failure before the first word has a status, and after it an event", async () => {
  world.model.says = () => ({ status: 400 });
  expect((await world.respond({ stream: true })).status).toBe(502);
  world.model.says = () => ({ text: ["half"], cut: true });
  const { status, text } = await world.respond({ stream: true });
  expect(status).toBe(200);
  const [last = "", failed = ""] = text.trim().split("\n\n").slice(-2);
  expect(last).toMatch(/^event: error\n/);
  expect(JSON.parse(last.replace(/^.*\ndata: /, ""))).toEqual({
    type: "error",
    sequence_number: expect.any(Number),
    code: "upstream_error",
    message: expect.any(String),
    param: null,
    error: {
      type: "upstream_error",
      code: "upstream_error",
      message: expect.any(String),
      param: null,
    },
  });
  expect(JSON.parse(failed.replace(/^event: response.failed\ndata: /, ""))).toMatchObject({
    type: "response.failed",
    response: { status: "failed", error: { code: "upstream_error", message: expect.any(String) } },
  });
  expect(text).not.toContain("response.completed");
});

describe("an error names the item of the request that it is about", () => {
  const call = (id: string) => ({
    type: "function_call",
    call_id: id,
    name: "look",
    arguments: "{}",
  });
  const output = (id: string, found: unknown = "x") => ({
    type: "function_call_output",
    call_id: id,
    output: found,
  });
  const user = { role: "user", content: "Look." };
  const thought = { type: "reasoning", id: "rs_1", summary: [] };
  const image = { type: "input_image", image_url: "picture.png" };

  it.each<[string, unknown[], string, string?]>([
    ["an image", [thought, { role: "user", content: [image] }], "input[1].content[0].image_url"],
    [
      "an image of a result",
      [user, thought, call("a"), output("a", [{ type: "input_text", text: "x" }, image])],
      "input[3].output[1].image_url",
    ],
    [
      "a file",
      [thought, { role: "user", content: [{ type: "input_file" }] }],
      "input[1].content[0]",
    ],
    [
      "an image by an id",
      [{ role: "user", content: [{ type: "input_image", file_id: "file_1" }] }],
      "input[0].content[0].file_id",
    ],
    ["a call without a result", [thought, user, call("a"), call("b"), output("a")], "input[4]"],
    ["a result without a call", [user, thought, output("a")], "input[2].call_id"],
    ["a reference", [user, { type: "item_reference", id: "msg_no" }], "input[1].id"],
    ["a result of a wrong form", [user, call("a"), output("a", { ok: true })], "input[2].output"],
    ["a call without arguments", [{ ...call("a"), arguments: undefined }], "input[0].arguments"],
    ["an item that is not known", [user, { type: "functions_call" }], "input[1].type"],
    ["an item without a role", [{ content: "x" }], "input[0].role"],
  ])("%s", async (_name, input, param) => {
    const { status, body } = await world.respond({ input });
    expect([status, body.error.param]).toEqual([400, param]);
    expect(body.error.message).not.toMatch(/role `tool`|tool_call_id/);
    expect(world.model.asked).toEqual([]);
  });

  it("a message that comes between the results of calls follows them", async () => {
    const picture = { role: "user", content: "A picture of a." };
    const input = [user, call("a"), call("b"), output("a", "x"), picture, output("b", "y"), user];
    expect((await world.respond({ input, store: false })).status).toBe(200);
    const roles = ["system", "user", "assistant", "tool", "tool", "user", "user"];
    expect(world.model.asked[0]?.roles).toEqual(roles);
    expect(told(0)?.slice(2, 5)).toEqual([
      expect.stringContaining("x"),
      expect.stringContaining("y"),
      "A picture of a.",
    ]);
  });

  it("words that come between a call and its result belong to the call", async () => {
    const input = [user, call("a"), { role: "assistant", content: "I look." }, output("a")];
    expect((await world.respond({ input, store: false })).status).toBe(200);
    const [, , said, result] = world.model.asked[0]?.body.messages ?? [];
    expect([said.content, said.tool_calls[0].id, result.tool_call_id]).toEqual([
      "I look.",
      "a",
      "a",
    ]);
  });
});

describe("input as newer front ends send it", () => {
  it.each([{ input: undefined }, { input: [] }, { input: null }])(
    "instructions alone are the message (%j)",
    async (input) => {
      const { status, body } = await world.respond({ ...input, instructions: "Say hello." });
      expect([status, body.instructions, told(0)]).toEqual([200, "Say hello.", ["Say hello."]]);
    },
  );

  it("neither input nor instructions is refused", async () => {
    const { status, body } = await world.respond({ input: undefined });
    expect([status, body.error.param]).toEqual([400, "input"]);
  });

  it("takes an answer without words, and leaves out calls of other servers with a warning", async () => {
    const input = [
      { role: "user", content: "Look." },
      {
        type: "web_search_call",
        id: "ws_1",
        status: "completed",
        action: { type: "search", query: "x" },
      },
      { type: "message", role: "assistant", content: [] },
      { type: "function_call", call_id: "c1", name: "look", arguments: "{}" },
      {
        type: "function_call_output",
        call_id: "c1",
        output: [
          { type: "input_text", text: "found" },
          { type: "input_image", image_url: dataUri(png(10, 10)) },
        ],
      },
      { role: "user", content: "And?" },
    ];
    expect((await world.respond({ input })).status).toBe(200);
    const messages = world.model.asked[0]?.body.messages.slice(1) as {
      role: string;
      content: unknown;
    }[];
    expect(messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "user", "user"]);
    expect(messages[2]?.content).toMatch(/found\n\[a file, image\/png.*shown after the results\]/);
    expect(JSON.stringify(messages[3]?.content)).toContain("image_url");
    const [run] = (await world.admin("/admin/v1/runs")).body.runs;
    expect(run.warnings).toEqual([
      "items of the type web_search_call were left out: a tool of another server made them",
    ]);
  });

  it("takes thoughts in the form of other servers, and leaves out what programs have added to the format", async () => {
    const thought = {
      type: "reasoning",
      summary: null,
      content: [{ type: "output_text", text: "Hm." }],
    };
    const input = [
      { role: "user", content: "Look." },
      thought,
      { type: "front_end:code_interpreter", id: "ci_1", code: "1 + 1" },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "Well." }] },
      { role: "user", content: "And?" },
    ];
    expect((await world.respond({ input })).status).toBe(200);
    const [, , said, next] = world.model.asked[0]?.body.messages ?? [];
    expect([said, next.content]).toEqual([
      { role: "assistant", content: "Well.", reasoning_content: "Hm." },
      "And?",
    ]);
    const [run] = (await world.admin("/admin/v1/runs")).body.runs;
    expect(run.warnings).toEqual([
      "items of the type front_end:code_interpreter were left out: a tool of another server made them",
    ]);
  });

  it.each([
    [{ input: [{ role: "user", content: [] }] }, "input[0].content", "invalid_value"],
    [{ include: ["message.output_text.logprobs"] }, "include", "unsupported_parameter"],
    [{ functions: [{ name: "f" }] }, "functions", "unsupported_parameter"],
    [{ modalities: ["audio"] }, "modalities", "unsupported_parameter"],
    [{ logprobs: true }, "logprobs", "unsupported_parameter"],
  ])("%j is refused by its name", async (fields, param, code) => {
    const { status, body } = await world.respond(fields);
    expect([status, body.error.param, body.error.code]).toEqual([400, param, code]);
  });
});
