import type { ServerResponse } from "node:http";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { listenOn } from "../channels/wire.ts";
import { createShortWaits } from "../e2e/provider.ts";
import { eventsOf, MCP, platformWorld, type PlatformWorld } from "./world.ts";

const USAGE = { prompt_tokens: 11, completion_tokens: 3, total_tokens: 14 };
const WEATHER = {
  id: "call_1",
  type: "function",
  function: { name: "town__weather", arguments: '{"town":"Ulm"}' },
};

/** Sends the answer to the call with this number, counted from 0. */
type Script = (response: ServerResponse, call: number) => void;

let world: PlatformWorld;
let script: Script;
let calls = 0;
let close: () => Promise<void>;
let baseUrl: string;

beforeEach(async () => {
  calls = 0;
  const server = await listenOn((incoming, response) => {
    incoming.resume().on("end", () => script(response, calls++));
  });
  close = server.close;
  baseUrl = `${server.url}/v1`;
});
afterEach(async () => {
  await world.close();
  await close();
});

/** Starts a gateway whose agent may have a server of tools, which is a process of its own. */
async function start(tools: object = {}, type = "openai-compatible"): Promise<void> {
  world = await platformWorld({
    clock: createShortWaits().clock,
    agents: [{ id: "ops", tools: "mcp" in tools ? ["town.weather"] : [] }],
    config: {
      ...tools,
      models: { providers: { local: { type, baseUrl, apiKey: "k-0123456789" } } },
    },
  });
}
const WITH_TOOLS = { mcp: MCP };

const toBody = (message: object, finish: string): string =>
  JSON.stringify({
    id: "c1",
    object: "chat.completion",
    created: 1,
    model: "big",
    choices: [{ index: 0, finish_reason: finish, message }],
    usage: USAGE,
  });
const FINE = toBody({ role: "assistant", content: "fine" }, "stop");
const CALLING = toBody({ role: "assistant", content: null, tool_calls: [WEATHER] }, "tool_calls");

const json = (response: ServerResponse): ServerResponse =>
  response.writeHead(200, { "content-type": "application/json" });
const answer = (response: ServerResponse, body = FINE): void => void json(response).end(body);

/** Bodies that arrive in part: the connection breaks, with and without a length, or the server ends the body as if it was complete. */
const CUTS: [string, (response: ServerResponse, body: string) => void][] = [
  [
    "is cut after a part",
    (response, body) =>
      void json(response).write(body.slice(0, 60), () => setTimeout(() => response.destroy(), 20)),
  ],
  [
    "is cut before its announced length",
    (response, body) => {
      response.setHeader("content-length", String(body.length));
      json(response).write(body.slice(0, 60), () => setTimeout(() => response.destroy(), 20));
    },
  ],
  [
    "is cut before its first byte",
    (response) => void json(response).write("", () => setTimeout(() => response.destroy(), 20)),
  ],
  ["ends within its JSON", (response, body) => void json(response).end(body.slice(0, 60))],
];

const delta = (fields: object, finish: string | null = null): string =>
  `data: ${JSON.stringify({ id: "c1", object: "chat.completion.chunk", created: 1, model: "big", choices: [{ index: 0, delta: fields, finish_reason: finish }] })}\n\n`;
const TEXT = delta({ role: "assistant", content: "half" });
const TOOL = delta({ role: "assistant", tool_calls: [{ index: 0, ...WEATHER }] });
const stream = (response: ServerResponse, text: string): void =>
  void response.writeHead(200, { "content-type": "text/event-stream" }).end(text);
/** The number of tool calls in the newest run. */
async function countToolCalls(): Promise<number> {
  const [run] = (await world.admin("/admin/v1/runs")).body.runs;
  const { steps } = (await world.admin(`/admin/v1/runs/${run.id}/steps`)).body;
  return steps.flatMap((step: { calls: unknown[] }) => step.calls).length;
}

describe("an answer of a model whose body", () => {
  it.each(CUTS)("%s calls no tool a second time", async (_name, cut) => {
    await start(WITH_TOOLS);
    script = (response, call) =>
      [() => answer(response, CALLING), () => cut(response, FINE)][call]?.() ??
      (call > 1 && answer(response));
    const run = await world.hookRun();
    expect([run["status"], calls]).toEqual(["succeeded", 3]);
    expect(await countToolCalls()).toBe(1);
  });

  it.each(CUTS)("%s each time is reported as an outage of the provider", async (_name, cut) => {
    await start();
    script = (response) => cut(response, FINE);
    const { status, body } = await world.chat();
    expect([status, body.error.code]).toEqual([503, "provider_unavailable"]);
    expect(calls).toBeGreaterThan(3);
    expect(body.error.message).toBe("I cannot answer right now; my operator has been told.");
    const { error } = (await world.admin("/admin/v1/runs")).body.runs[0];
    expect(error).toMatchObject({
      code: "provider_unavailable",
      message: 'the provider "local" ended the connection before its answer was complete',
    });
    // The status of a request that succeeded says nothing about why it failed.
    expect(error.vendor?.status).toBeUndefined();
  });

  it("is complete and no JSON of the wire format is no outage", async () => {
    await start();
    script = (response) => answer(response, '{"choices":"none"}');
    expect((await world.chat()).status).toBe(502);
    const { error } = (await world.admin("/admin/v1/runs")).body.runs[0];
    expect(error.code).toBe("provider_error");
  });
});

describe("a stream of a model that ends", () => {
  it("with text and neither a finish reason nor [DONE] ends with the error, and is not asked for again", async () => {
    await start();
    script = (response) => stream(response, TEXT);
    const { text, content } = await world.chat({ stream: true });
    expect(content).toBe("half");
    const error = eventsOf(text).find((event) => event.error !== undefined)?.error;
    expect(error).toMatchObject({
      code: "upstream_error",
      message: "I cannot answer right now; my operator has been told.",
    });
    expect(calls).toBe(1);
    expect((await world.admin("/admin/v1/runs")).body.runs[0].error.code).toBe(
      "provider_unavailable",
    );
  });

  const half: [type: string, events: object[]][] = [
    [
      "openai",
      [
        { type: "response.created", response: { id: "r1", created_at: 1, model: "big" } },
        {
          type: "response.output_item.added",
          output_index: 0,
          item: { type: "message", id: "m1" },
        },
        {
          type: "response.output_text.delta",
          item_id: "m1",
          output_index: 0,
          content_index: 0,
          delta: "half",
        },
      ],
    ],
    [
      "anthropic",
      [
        {
          type: "message_start",
          message: {
            id: "m1",
            type: "message",
            role: "assistant",
            model: "big",
            content: [],
            stop_reason: null,
            stop_sequence: null,
            usage: { input_tokens: 11, output_tokens: 1 },
          },
        },
        { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
        { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "half" } },
      ],
    ],
    ["google", [{ candidates: [{ content: { role: "model", parts: [{ text: "half" }] } }] }]],
  ];
  it.each(half)("with text and no end ends with the error: %s", async (type, events) => {
    await start({}, type);
    const lines = events.map((event) => `data: ${JSON.stringify(event)}\n\n`);
    script = (response) => stream(response, lines.join(""));
    const { text, content } = await world.chat({ stream: true });
    expect(content).toBe("half");
    expect(eventsOf(text).some((event) => event.error !== undefined)).toBe(true);
    expect((await world.admin("/admin/v1/runs")).body.runs[0].error.code).toBe(
      "provider_unavailable",
    );
  });

  it("with calls of tools and neither a finish reason nor [DONE] is asked for again, and calls them once", async () => {
    await start(WITH_TOOLS);
    const whole = TOOL + delta({}, "tool_calls") + "data: [DONE]\n\n";
    const last = delta({ content: "fine" }) + delta({}, "stop") + "data: [DONE]\n\n";
    script = (response, call) => stream(response, [TOOL, whole][call] ?? last);
    const { content } = await world.chat({ stream: true });
    expect([content, calls]).toEqual(["fine", 3]);
    expect(await countToolCalls()).toBe(1);
  });

  it.each([
    ["at once", "data: [DONE]\n\n"],
    ["without a blank line", "data: [DONE]"],
    ["without a space", "data:[DONE]\n\n"],
  ])("with [DONE] and no finish reason is complete: [DONE] %s", async (_name, done) => {
    await start();
    script = (response) => stream(response, delta({ content: 'say "finish_reason":"x"' }) + done);
    const { text, content } = await world.chat({ stream: true });
    expect(content).toBe('say "finish_reason":"x"');
    expect(eventsOf(text).some((event) => event.error !== undefined)).toBe(false);
    expect(calls).toBe(1);
  });

  it("with [DONE] in two pieces and calls of tools is complete", async () => {
    await start(WITH_TOOLS);
    const last = delta({ content: "fine" }) + "data: [DONE]\n\n";
    script = (response, call) => {
      if (call > 0) return stream(response, last);
      response.writeHead(200, { "content-type": "text/event-stream" }).write(`${TOOL}data: [DO`);
      setTimeout(() => response.end("NE]\n\n"), 30);
    };
    const { text, content } = await world.chat({ stream: true });
    expect([content, calls]).toEqual(["fine", 2]);
    expect(eventsOf(text).some((event) => event.error !== undefined)).toBe(false);
    expect(await countToolCalls()).toBe(1);
  });
});
