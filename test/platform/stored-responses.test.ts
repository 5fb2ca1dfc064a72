import OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { gate } from "./model.ts";
import {
  documentedFetch,
  KEY,
  OTHER_KEY,
  platformWorld,
  readAnswer,
  type PlatformWorld,
} from "./world.ts";

const SALES_KEY = "rk_sales-0123456789";
const CLOCK = {
  type: "function",
  name: "clock",
  description: "The time.",
  parameters: { type: "object", properties: {} },
};
let world: PlatformWorld;
beforeAll(async () => {
  world = await platformWorld({ keys: [{ id: "sales", key: SALES_KEY, agents: ["sales"] }] });
});
beforeEach(() => world.model.reset());
afterAll(() => world.close());

const read = async (id: string, key = KEY) =>
  readAnswer(await world.ask(`/v1/responses/${id}`, { key }));
const NOT_FOUND = [
  404,
  { type: "invalid_request_error", code: "response_not_found", param: "response_id" },
];

it("stored responses: a response is read again unchanged", async () => {
  world.model.says = () => ({
    reasoning: ["Well."],
    text: ["Let me see."],
    calls: [{ id: "call_9", name: "clock", arguments: '{"zone":"UTC"}' }],
  });
  const asked = {
    instructions: "CALLER",
    temperature: 0.5,
    max_output_tokens: 70,
    metadata: { order: "7" },
    tools: [CLOCK],
    tool_choice: "auto",
    reasoning: { summary: "auto" },
    conversation: "c1",
  };
  for (const stream of [false, true]) {
    const { body, text } = await world.respond({ ...asked, stream });
    const answered = stream
      ? JSON.parse(/event: response\.completed\ndata: (.*)/.exec(text)?.[1] ?? "").response
      : body;
    expect(answered.output).toHaveLength(3);
    expect(await read(answered.id)).toMatchObject({ status: 200, body: answered });
  }
});

it("stored responses: the official client retrieves one", async () => {
  const client = new OpenAI({ baseURL: `${world.url}/v1`, apiKey: KEY, fetch: documentedFetch });
  const made = await client.responses.create({ model: "ops", input: "Hi." });
  const found = await client.responses.retrieve(made.id);
  expect([found.id, found.output_text, found.status, found.usage?.input_tokens]).toEqual([
    made.id,
    "fine",
    "completed",
    11,
  ]);
  await expect(client.responses.retrieve("resp_run_nothing")).rejects.toMatchObject({
    status: 404,
    code: "response_not_found",
  });
});

it("stored responses: one in the background is answered at once, and read until it has ended", async () => {
  const held = gate();
  world.model.says = () => ({ text: ["late"], wait: () => held.passed });
  const client = new OpenAI({ baseURL: `${world.url}/v1`, apiKey: KEY, fetch: documentedFetch });
  const made = await client.responses.create({ model: "ops", input: "Hi.", background: true });
  expect([made.status, made.output]).toEqual(["in_progress", []]);
  expect((await client.responses.retrieve(made.id)).status).toMatch(/^(?:queued|in_progress)$/);
  held.open();
  const found = await world.until(async () => {
    const { status, output_text: text } = await client.responses.retrieve(made.id);
    return status === "completed" && text;
  });
  expect(found).toBe("late");
});

it("stored responses: one belongs to its key, and is not kept with store: false", async () => {
  const { id } = (await world.respond()).body;
  const chat = (await world.chat()).body.id.replace("chatcmpl-", "resp_");
  const unkept = (await world.respond({ store: false })).body.id;
  for (const [name, key] of [[id, OTHER_KEY], [chat], [unkept], ["resp_x"]] as [
    string,
    string?,
  ][]) {
    const { status, body } = await read(name, key);
    expect([status, body.error]).toMatchObject(NOT_FOUND);
  }
  expect((await read(id, "")).status).toBe(401);
  expect(
    (await read((await world.respond({ model: "sales" }, { key: SALES_KEY })).body.id, SALES_KEY))
      .status,
  ).toBe(200);
});

it("stored responses: one shows how far its turn is, and why it failed", async () => {
  const held = gate();
  world.model.says = () => ({ text: ["late"], wait: () => held.passed });
  const asked = world.respond();
  const run = await world.until(
    async () => (await world.admin("/admin/v1/runs?status=running")).body.runs[0],
  );
  expect((await read(`resp_${run.id}`)).body).toMatchObject({
    status: "in_progress",
    output: [],
    usage: null,
    error: null,
  });
  held.open();
  await asked;
  world.model.says = () => ({ status: 400 });
  expect((await world.respond()).status).toBe(502);
  const [failed] = (await world.admin("/admin/v1/runs?status=failed")).body.runs;
  const { body } = await read(`resp_${failed.id}`);
  expect(body).toMatchObject({
    status: "failed",
    output: [],
    error: { code: "provider_refused", message: expect.any(String) },
  });
});

it.each<[object, string, string]>([
  [{ background: true, store: false }, "background", "invalid_value"],
  [{ prompt: { id: "p1" } }, "prompt", "unsupported_parameter"],
  [{ top_logprobs: 3 }, "top_logprobs", "unsupported_parameter"],
  [{ conversation: "c1", previous_response_id: "resp_run_1" }, "conversation", "invalid_value"],
])("stored responses: %j is refused by its name", async (body, param, code) => {
  const { status, body: answer } = await world.respond(body);
  expect([status, answer.error.param, answer.error.code]).toEqual([400, param, code]);
  expect(world.model.asked).toEqual([]);
});

it("stored responses: one is not streamed again, and the error says so", async () => {
  const { body } = await world.respond();
  const { status, body: answer } = await read(`${body.id}?stream=true`);
  expect([status, answer.error.param, answer.error.code]).toEqual([
    400,
    "stream",
    "unsupported_parameter",
  ]);
});
