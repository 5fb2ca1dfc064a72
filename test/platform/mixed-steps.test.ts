import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { eventsOf, OTHER_KEY, platformWorld, USER, type PlatformWorld } from "./world.ts";

/** A server of tools that writes a line for each call it gets. */
const SERVER = `
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";
const tools = [{ name: "weather", description: "The weather.", inputSchema: { type: "object", properties: {} }, annotations: { readOnlyHint: true } }];
const answers = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "town", version: "1" } }),
  "tools/list": () => ({ tools }),
  "tools/call": ({ name }) => {
    appendFileSync(process.env.CALLS, name + "\\n");
    return { content: [{ type: "text", text: "RAIN-IN-ULM" }] };
  },
};
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result: answers[method](params) }) + "\\n");
});
`;
const tool = { name: "clock", parameters: { type: "object", properties: {} } };
const CLOCK = { type: "function", function: tool };
const weather = { id: "call_1", name: "town__weather", arguments: "{}" };
const clock = { id: "call_2", name: "clock", arguments: "{}" };

let folder: string;
let world: PlatformWorld;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "rouse-mixed-"));
  writeFileSync(join(folder, "server.mjs"), SERVER);
  const town = {
    command: process.execPath,
    args: [join(folder, "server.mjs")],
    env: { CALLS: join(folder, "calls") },
  };
  world = await platformWorld({
    config: { mcp: { servers: { town } } },
    agents: [{ id: "ops", tools: ["town.weather"] }],
  });
});
beforeEach(() => {
  writeFileSync(join(folder, "calls"), "");
  world.model.reset(({ text }) => {
    if (!text.includes("RAIN-IN-ULM")) return { text: ["Let me see."], calls: [weather, clock] };
    return { text: [text.includes("NOON") ? "It rains at noon." : "It rains."] };
  });
});
afterAll(async () => {
  await world.close();
  rmSync(folder, { recursive: true });
});

/** The calls that the server of tools got. */
const served = (): string[] =>
  readFileSync(join(folder, "calls"), "utf8").split("\n").filter(Boolean);
// oxlint-disable-next-line typescript/no-explicit-any -- messages of every shape
const answered = (message: any, content = "NOON") => [
  ...USER,
  message,
  { role: "tool", tool_call_id: message.tool_calls[0].id, content },
];
const roles = (call: number) => world.model.asked[call]?.roles;

describe("a step with a tool of the agent and one of the caller", () => {
  it("continues after the caller's result with both results, and the agent's tool is called once", async () => {
    const first = await world.chat({ tools: [CLOCK] });
    const { message, finish_reason } = first.body.choices[0];
    expect([finish_reason, message.content]).toEqual(["tool_calls", "Let me see."]);
    expect(message.tool_calls).toMatchObject([
      { type: "function", function: { name: "clock", arguments: "{}" } },
    ]);
    const second = await world.chat({ tools: [CLOCK], messages: answered(message) });
    expect(second.content).toBe("It rains at noon.");
    expect(served()).toEqual(["weather"]);
    const [, , said, rain, noon] = world.model.asked[1]?.body.messages ?? [];
    expect(said.tool_calls.map(({ id }: { id: string }) => id)).toEqual(["call_1", "call_2"]);
    expect([rain.tool_call_id, noon.tool_call_id]).toEqual(["call_1", "call_2"]);
    // Both came from outside, and so they are inside the boundary.
    for (const { content } of [rain, noon])
      expect(content).toMatch(
        /^<<<EXTERNAL_CONTENT ([0-9a-f]{32})>>>[^]*<<<END_EXTERNAL_CONTENT \1>>>$/,
      );
  });

  it("does so in a stream, and once more after further turns", async () => {
    const events = eventsOf((await world.chat({ tools: [CLOCK], stream: true })).text);
    const [call] = events.flatMap((event) => event.choices?.[0]?.delta.tool_calls ?? []);
    const { index: _index, ...made } = call;
    const conversation = answered({
      role: "assistant",
      content: "Let me see.",
      tool_calls: [made],
    });
    const asked = { tools: [CLOCK], messages: conversation, stream: true };
    expect((await world.chat(asked)).content).toBe("It rains at noon.");
    await world.chat({
      tools: [CLOCK],
      messages: [...conversation, { role: "assistant", content: "It rains at noon." }, ...USER],
    });
    expect(roles(2)).toEqual(["system", "user", "assistant", "tool", "tool", "assistant", "user"]);
    expect(served()).toEqual(["weather"]);
  });

  it("does so in responses, with the items sent back and after an id", async () => {
    const tools = [{ type: "function", ...tool }];
    const first = await world.respond({ tools });
    const call = first.body.output.find(({ type }: { type: string }) => type === "function_call");
    const result = { type: "function_call_output", call_id: call.call_id, output: "NOON" };
    const input = [{ role: "user", content: "Hi." }, call, result];
    for (const body of [
      { input, store: false },
      { input: [result], previous_response_id: first.body.id },
    ])
      expect((await world.respond({ tools, ...body })).content).toBe("It rains at noon.");
    expect(served()).toEqual(["weather"]);
  });

  it("is part of a session that Rouse keeps", async () => {
    const headers = { "x-session-id": "s" };
    const { message } = (await world.chat({ tools: [CLOCK] }, headers)).body.choices[0];
    await world.chat({ tools: [CLOCK], messages: answered(message) }, headers);
    await world.chat({ tools: [CLOCK] }, headers);
    expect(roles(2)).toEqual(["system", "user", "assistant", "tool", "tool", "assistant", "user"]);
    expect(world.model.asked[2]?.text).toContain("NOON");
    expect(served()).toEqual(["weather"]);
  });

  it("is not there for another key, which has the call as it sends it", async () => {
    const { message } = (await world.chat({ tools: [CLOCK] })).body.choices[0];
    await world.chat({ tools: [CLOCK], messages: answered(message) }, { key: OTHER_KEY });
    const { text, body } = world.model.asked[1] ?? {};
    expect(text).not.toContain("RAIN-IN-ULM");
    // The id names a run, and is longer than some providers accept.
    expect(body.messages.at(-1).tool_call_id).toMatch(/^call_[0-9a-f]{24}$/);
    expect(body.messages.at(-1).tool_call_id).toBe(body.messages.at(-2).tool_calls[0].id);
  });
});
