/** Answers of servers that speak OpenAI's chat completions in their own way. */
import { generateText, jsonSchema, streamText, type LanguageModel, type ToolSet } from "ai";
import { expect, it } from "vitest";
import compatible from "../../plugins/openai-compatible/index.ts";
import { keepInputs, recordInputs, restoreCalls } from "../../src/agent/tools/call-inputs.ts";
import type { ModelProvider } from "../../src/contract/kinds.ts";

const TOOLS: ToolSet = { look: { inputSchema: jsonSchema({ type: "object" }) } };
const call = (more: object, fn: object = {}) => ({
  id: "c1",
  type: "function",
  function: { name: "look", arguments: '{"at":1}', ...fn },
  ...more,
});

async function getModel(body: string, type: string): Promise<LanguageModel> {
  const [provider] = compatible.providers as [ModelProvider];
  const headers = { "content-type": type };
  const models = await provider.create(
    { name: "local", baseUrl: "http://127.0.0.1/v1", headers: {} },
    { fetch: async () => new Response(body, { headers }) },
  );
  return models("m") as LanguageModel;
}

async function ask(
  body: string,
  isStream: boolean,
  type = isStream ? "text/event-stream" : "application/json",
) {
  const settings = {
    model: await getModel(body, type),
    prompt: "?",
    tools: TOOLS,
    maxRetries: 0,
  };
  let isBroken = false;
  const result = isStream
    ? streamText({ ...settings, onError: () => void (isBroken = true) })
    : await generateText(settings);
  const calls = await result.toolCalls;
  expect(calls.filter(({ toolName }) => toolName !== "look")).toEqual([]);
  const ids = new Set(calls.map(({ toolCallId }) => toolCallId).filter((id) => id !== ""));
  expect(ids.size).toBe(calls.length);
  return {
    text: await result.text,
    calls: calls.map(({ input }) => input),
    finish: isBroken ? "error" : await result.finishReason,
  };
}

const TEXT = { text: "fine", calls: [], finish: "stop" };
const called = (...calls: unknown[]) => ({ text: "", calls, finish: "tool-calls" });

it.each<[string, object, object]>([
  [
    "arguments as an object",
    { message: { tool_calls: [call({}, { arguments: { at: 1 } })] } },
    called({ at: 1 }),
  ],
  ["no arguments", { message: { tool_calls: [call({}, { arguments: null })] } }, called({})],
  [
    "one id for two calls",
    { message: { tool_calls: [call({}), call({}, { arguments: '{"at":2}' })] } },
    called({ at: 1 }, { at: 2 }),
  ],
  [
    "an empty id",
    { message: { tool_calls: [call({ id: "" }), call({ id: "" })] } },
    called({ at: 1 }, { at: 1 }),
  ],
  ["one call beside a list", { message: { tool_calls: call({}) } }, called({ at: 1 })],
  ["a role that is empty", { message: { role: "", content: "fine" }, finish_reason: "stop" }, TEXT],
  ["an id that is a number", { message: { tool_calls: [call({ id: 7 })] } }, called({ at: 1 })],
  ...["look<|channel|>commentary", "functions.look", "functions.look:0", " look"].map(
    (name): [string, object, object] => [
      `the name ${name}`,
      { message: { tool_calls: [call({}, { name })] } },
      called({ at: 1 }),
    ],
  ),
  ["parts without a type", { message: { content: [{ text: "fi" }, "ne"] } }, TEXT],
  ["a finish reason that is empty", { message: { content: "fine" }, finish_reason: "" }, TEXT],
])("a whole answer with %s is read", async (_what, choice, wanted) => {
  const body = { id: 7, created: "now", error: null, choices: [choice], usage: null };
  expect(await ask(JSON.stringify(body), false)).toEqual(wanted);
});

it.each([
  ["an error in its choice", { finish_reason: "error", error: { code: 502, message: "Gone" } }],
  ["a finish reason that is an error", { finish_reason: "insufficient_system_resource" }],
])("a whole answer with %s is an error", async (_what, choice) => {
  const body = { choices: [{ message: { content: "half" }, ...choice }] };
  await expect(ask(JSON.stringify(body), false)).rejects.toThrow();
});

it.each([
  ["thoughts in the total alone", { completion_tokens: 3, total_tokens: 314 }, 303],
  ["a total that is smaller", { completion_tokens: 3, total_tokens: 0 }, 3],
  ["one count missing", { total_tokens: 314 }, undefined],
])("usage with %s is counted", async (_what, counts, wanted) => {
  const choices = [{ message: { content: "fine" }, finish_reason: "stop" }];
  const body = JSON.stringify({ choices, usage: { prompt_tokens: 11, ...counts } });
  const { usage } = await generateText({
    model: await getModel(body, "application/json"),
    prompt: "?",
  });
  expect(usage.outputTokens).toBe(wanted);
});

const delta = (fields: object, more: object = {}) => ({
  choices: [{ index: 0, delta: fields, ...more }],
});
const calls = (...pieces: object[]) => pieces.map((piece) => delta({ tool_calls: [piece] }));
const piece = (text: string, more: object = {}) => ({ ...more, function: { arguments: text } });
const START = delta({ role: "assistant", content: "fi" });
const REST = delta({ content: "ne" });
const END = delta({}, { finish_reason: "stop" });
const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
const DONE = delta({}, { finish_reason: "tool_calls" });
const BROKEN = { text: "fi", calls: [], finish: "error" };

it.each<[string, object[], object]>([
  ["an empty role", [delta({ role: "", content: "fine" }), END], TEXT],
  [
    "a message and no delta",
    [{ choices: [{ index: 0, message: { role: "assistant", content: "fine" } }] }, END],
    TEXT,
  ],
  [
    "the whole message at its end",
    [START, REST, { choices: [{ message: { content: "fine" }, finish_reason: "stop" }] }],
    TEXT,
  ],
  ["parts as content", [delta({ content: [{ type: "text", text: "fine" }] }), END], TEXT],
  ["no finish reason", [START, REST], TEXT],
  ["finish reasons that are empty", [delta({ content: "fine" }, { finish_reason: "" })], TEXT],
  ["no finish reason behind a call", calls({ index: 0, ...call({}) }), called({ at: 1 })],
  ["usage in a chunk without choices", [START, REST, END, { usage }], TEXT],
  ["choices that are null", [START, REST, END, { choices: null, usage }], TEXT],
  ["chunks of another kind", [{ sources: [] }, START, REST, { type: "ping" }, END], TEXT],
  [
    "the limit in other words",
    [START, REST, delta({}, { finish_reason: "MAX_TOKENS" })],
    { ...TEXT, finish: "length" },
  ],
  ["an error as its finish reason", [START, delta({}, { finish_reason: "error" })], BROKEN],
  ["an error in its choice", [START, delta({}, { error: { code: 502, message: "x" } })], BROKEN],
  ["an error that is a text", [START, { error: "unexpected EOF" }], BROKEN],
  ["an error without a nest", [START, { object: "error", message: "x", code: 400 }], BROKEN],
  ["usage and an error that are null", [{ ...START, usage: null, error: null }, REST, END], TEXT],
  [
    "arguments as an object",
    [...calls(call({ index: 0 }, { arguments: { at: 1 } })), DONE],
    called({ at: 1 }),
  ],
  [
    "a place that is a text, and ids that are numbers",
    [...calls(call({ index: "0", id: 7 })), DONE],
    called({ at: 1 }),
  ],
  [
    "no place of its calls",
    [...calls(call({}), call({ id: "c2" }, { arguments: '{"at":' }), piece("2}")), DONE],
    called({ at: 1 }, { at: 2 }),
  ],
  [
    "neither place nor id of its calls",
    [...calls(call({ id: "" }), call({ id: "" }, { arguments: '{"at":2}' })), DONE],
    called({ at: 1 }, { at: 2 }),
  ],
  [
    "one place for all calls",
    [...calls(call({ index: 0 }), call({ index: 0, id: "c2" }, { arguments: '{"at":2}' })), DONE],
    called({ at: 1 }, { at: 2 }),
  ],
  [
    "one place for all calls, and empty ids behind the first piece",
    [
      ...calls(
        call({ index: 0, id: "a" }, { arguments: "" }),
        piece('{"at":1}', { index: 0, id: "" }),
        call({ index: 0, id: "b" }, { arguments: "" }),
        piece('{"at":2}', { index: 0, id: "" }),
      ),
      DONE,
    ],
    called({ at: 1 }, { at: 2 }),
  ],
  [
    "the id and the name in each piece",
    [
      ...calls(
        call({ index: 0 }, { arguments: '{"at"' }),
        call({ index: 0 }, { arguments: ":1}" }),
      ),
      DONE,
    ],
    called({ at: 1 }),
  ],
  [
    "a call again at its end",
    [
      ...calls(
        call({ index: 0 }, { arguments: '{"at"' }),
        call({ index: 0 }, { arguments: ":1}" }),
        call({ index: 0 }),
      ),
      DONE,
    ],
    called({ at: 1 }),
  ],
  [
    "a number as content",
    [delta({ content: 4 }), delta({ content: "2" }), END],
    { ...TEXT, text: "42" },
  ],
  [
    "parts of another type as content",
    [delta({ content: [{ type: "output_text", text: "fine" }] }), END],
    TEXT,
  ],
  [
    "one id for two calls",
    [...calls(call({ index: 0 }), call({ index: 1 }, { arguments: '{"at":2}' })), DONE],
    called({ at: 1 }, { at: 2 }),
  ],
  [
    "a piece of a call without a function",
    [...calls({ index: 0, ...call({}) }, { index: 0 }), DONE],
    called({ at: 1 }),
  ],
])("a stream with %s is read", async (_what, chunks, wanted) => {
  const body = [...chunks.map((chunk) => JSON.stringify(chunk)), "[DONE]"].map(
    (data) => `data: ${data}\n\n`,
  );
  expect(await ask(body.join(""), true)).toEqual(wanted);
});

it.each<[string, (lines: string[]) => string]>([
  ["no space behind `data:`", (lines) => lines.map((line) => `data:${line}\n\n`).join("")],
  ["CRLF", (lines) => lines.map((line) => `data: ${line}\r\n\r\n`).join("")],
  [
    "comments and names of events",
    (lines) => lines.map((line) => `: ping\nevent: chunk\ndata: ${line}\n\n`).join(""),
  ],
  ["no line break at its end", (lines) => lines.map((line) => `data: ${line}`).join("\n\n")],
])("a stream with %s is read", async (_what, write) => {
  const lines = [START, REST].map((chunk) => JSON.stringify(chunk));
  expect(await ask(write([...lines, "[DONE]"]), true)).toEqual(TEXT);
});

it.each<[string, object, object]>([
  ["an answer", { message: { content: "fine" }, finish_reason: "stop" }, TEXT],
  [
    "calls",
    { message: { tool_calls: [call({})] }, finish_reason: "tool_calls" },
    called({ at: 1 }),
  ],
  ["an error", { error: { message: "too long" } }, { text: "", calls: [], finish: "error" }],
])("a whole answer in place of a stream is read: %s", async (_what, choice, wanted) => {
  const body = JSON.stringify({ choices: [choice], usage }, undefined, 1);
  expect(await ask(body, true, "application/json; charset=utf-8")).toEqual(wanted);
});

it("a stream of another type of content is read", async () => {
  const lines = [START, REST].map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`);
  expect(await ask(`${lines.join("")}data: [DONE]\n\n`, true, "text/plain")).toEqual(TEXT);
});

it.each([
  ["null", "{}"],
  ['"{\\"at\\":1}"', '{"at":1}'],
  ['{}{"at":1}', '{"at":1}'],
  ["", ""],
  ['"Ulm"', '"Ulm"'],
])("the arguments %s of a call are read as %s", async (input, wanted) => {
  const inputs = new Map<string, string>();
  const content = [{ type: "tool-call", toolCallId: "c1", toolName: "look", input }];
  const doGenerate = async () => ({ content }) as never;
  const read = await recordInputs(inputs).wrapGenerate?.({ doGenerate } as never);
  expect([read?.content, inputs.get("c1")]).toEqual([[{ ...content[0], input: wanted }], wanted]);
});

it.each([
  [[], { unread: "[]" }],
  [20, { unread: "20" }],
  [{ at: 1 }, { at: 1 }],
])(
  "the input %o of a call is an object in the history, as some providers demand",
  (input, wanted) => {
    const content = [{ type: "tool-call" as const, toolCallId: "c1", toolName: "look", input }];
    const [kept] = keepInputs([{ role: "assistant", content }], new Map());
    expect(kept?.content).toEqual([{ ...content[0], input: wanted }]);
  },
);

it("the id of a call of another vendor's model is replaced if an API does not take it", async () => {
  const send = async (toolCallId: string, plainCallIds: boolean) => {
    const prompt = ["assistant", "tool"].map((role) => ({
      role,
      content: [{ type: role === "tool" ? "tool-result" : "tool-call", toolCallId }],
    }));
    const sent = await restoreCalls({ plainCallIds }).transformParams?.({
      params: { prompt },
    } as never);
    return ((sent?.prompt ?? []) as typeof prompt).flatMap(({ content }) => content[0]?.toolCallId);
  };
  const kimi = "functions.look:0";
  expect(await send(kimi, false)).toEqual([kimi, kimi]);
  expect(await send("toolu_01-a", true)).toEqual(["toolu_01-a", "toolu_01-a"]);
  for (const id of [kimi, "x".repeat(65)]) {
    const [call, result] = await send(id, true);
    expect([call, /^[\w-]{1,64}$/.test(String(call))]).toEqual([result, true]);
  }
});

it("calls of several turns with one id get ids of their own if an API asks for that, and so do their results", async () => {
  const turn = ["assistant", "tool"].map((role) => ({
    role,
    content: [{ type: role === "tool" ? "tool-result" : "tool-call", toolCallId: "call_1" }],
  }));
  const send = async (plainCallIds: boolean) => {
    const params = { prompt: [...turn, ...turn, ...turn] };
    const sent = await restoreCalls({ plainCallIds }).transformParams?.({ params } as never);
    return ((sent?.prompt ?? []) as typeof turn).map(({ content }) => content[0]?.toolCallId);
  };
  expect(new Set(await send(false))).toEqual(new Set(["call_1"]));
  const [first, ofFirst, second, ofSecond, third, ofThird] = await send(true);
  expect([first, ofFirst, ofSecond, ofThird]).toEqual(["call_1", "call_1", second, third]);
  expect(new Set([first, second, third]).size).toBe(3);
});
