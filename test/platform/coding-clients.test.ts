/** Requests of coding clients to `/v1/responses`: tools that are no functions, and the items of their calls. */
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { eventsOf, platformWorld, type PlatformWorld } from "./world.ts";

let world: PlatformWorld;
beforeAll(async () => {
  world = await platformWorld();
});
beforeEach(() => world.model.reset());
afterAll(() => world.close());

const HOSTED = [
  { type: "web_search", external_web_access: true },
  { type: "local_shell" },
  { type: "image_generation", output_format: "png" },
  { type: "mcp", server_label: "x", server_url: "https://x.example", authorization: "SECRET" },
  { type: "mcp", server_label: "y", server_url: "https://y.example" },
  { type: "made_up_tomorrow" },
];
const SHELL = { type: "function", name: "shell", parameters: { type: "object", properties: {} } };
const PATCH = {
  type: "custom",
  name: "apply_patch",
  description: "Edits files.",
  format: { type: "grammar", syntax: "lark", definition: "start: /.+/" },
};
const TOWN = {
  type: "namespace",
  name: "mcp__town",
  description: "A town.",
  tools: [SHELL, PATCH],
};
const PLAIN = { type: "namespace", name: "functions", tools: [{ ...SHELL, name: "exec" }] };
const named = (call: number) => world.model.asked[call]?.tools;

it("responses: hosted tools are left out, with a warning of the run", async () => {
  const { status, body } = await world.respond({ tools: [...HOSTED, SHELL] });
  expect([status, named(0)]).toEqual([200, ["shell"]]);
  expect(JSON.stringify(body)).not.toContain("SECRET");
  const [run] = (await world.admin("/admin/v1/runs")).body.runs;
  expect(run.warnings).toEqual(
    ["web_search", "local_shell", "image_generation", "mcp", "made_up_tomorrow"].map(
      (type) => `tools of the type ${type} were left out: Rouse does not carry them out`,
    ),
  );
  expect((await world.respond({ tools: HOSTED, tool_choice: "required" })).status).toBe(200);
});

it.each<[object, string]>([
  [{ tool_choice: { type: "web_search" } }, "tool_choice.type"],
  [{ tool_choice: { type: "allowed_tools", mode: "auto", tools: [] } }, "tool_choice.type"],
  [{ tool_choice: { type: "function" } }, "tool_choice.name"],
  [{ tools: [{ type: "function", name: "a b" }] }, "tools[0].name"],
  [{ tools: [{ type: "custom" }] }, "tools[0].name"],
  [{ tools: [{ name: "look" }] }, "tools[0].type"],
  [{ tools: [SHELL, { ...PATCH, name: "shell" }] }, "tools[1].name"],
  [{ tools: [{ ...TOWN, tools: [SHELL, SHELL] }] }, "tools[0].tools[1].name"],
])("responses: %j is refused by its field", async (fields, param) => {
  const { status, body } = await world.respond({ tools: HOSTED, ...fields });
  expect([status, body.error.param, world.model.asked]).toEqual([400, param, []]);
});

it.each<[string, object, object]>([
  ["a custom tool", { name: "apply_patch", arguments: '{"input":"*** Begin"}' }, {}],
  ["a custom tool, as words", { name: "apply_patch", arguments: "*** Begin" }, {}],
  [
    "a custom tool of a namespace",
    { name: "mcp__town__apply_patch", arguments: '{"input":"*** Begin"}' },
    { namespace: "mcp__town" },
  ],
])(
  "responses: a call of %s has its text, whole, streamed and read again",
  async (_what, made, at) => {
    world.model.says = () => ({ calls: [{ id: "c1", name: "", arguments: "", ...made }] });
    const tools = [PATCH, TOWN];
    const item = { type: "custom_tool_call", call_id: "c1", name: "apply_patch", ...at };
    const wanted = { ...item, input: "*** Begin", status: "completed" };
    const { body } = await world.respond({ tools });
    expect(body.output).toEqual([{ ...wanted, id: expect.stringMatching(/^ctc_/) }]);
    const again = await (await world.ask(`/v1/responses/${body.id}`)).json();
    expect((again as typeof body).output).toEqual(body.output);
    const events = eventsOf((await world.respond({ tools, stream: true })).text);
    const ofCall = events.filter(({ type }) => /custom_tool_call_input|output_item/.test(type));
    expect(ofCall).toMatchObject([
      { item: { ...item, input: "" } },
      { type: "response.custom_tool_call_input.delta", delta: "*** Begin" },
      { type: "response.custom_tool_call_input.done", input: "*** Begin" },
      { type: "response.output_item.done", item: wanted },
    ]);
    const sent = world.model.asked[0]?.body.tools[0].function;
    expect([sent.description, sent.parameters.properties.input]).toEqual([
      "Edits files.",
      { type: "string", description: "Follows this lark grammar:\nstart: /.+/" },
    ]);
  },
);

it("responses: tools of a namespace are functions to the model, and their caller gets both names", async () => {
  const names = ["mcp__town__shell", "exec"];
  world.model.says = () => ({
    calls: names.map((name) => ({ id: name, name, arguments: "{}" })),
  });
  const tools = [PLAIN, TOWN];
  const choice = { type: "function", name: "shell", namespace: "mcp__town" };
  const { body } = await world.respond({ tools, tool_choice: choice });
  expect(named(0)).toEqual(["exec", "mcp__town__shell", "mcp__town__apply_patch"]);
  expect(world.model.asked[0]?.body.tool_choice.function.name).toBe("mcp__town__shell");
  expect(body.output).toMatchObject([
    { type: "function_call", name: "shell", namespace: "mcp__town" },
    { type: "function_call", name: "exec" },
  ]);
  expect(body.output[1]).not.toHaveProperty("namespace");
});

it.each(["whole", "by ids", "as results alone"])(
  "responses: calls of custom tools come back with their results, %s",
  async (how) => {
    const call = { id: "c1", name: "mcp__town__apply_patch", arguments: '{"input":"*** Begin"}' };
    world.model.says = (_asked, count) => (count === 0 ? { calls: [call] } : { text: ["Done."] });
    const first = (await world.respond({ tools: [TOWN] })).body;
    const items = { whole: first.output, "by ids": [], "as results alone": [] }[how] as object[];
    if (how === "by ids") items.push({ type: "item_reference", id: first.output[0].id });
    const output = { type: "custom_tool_call_output", call_id: "c1", output: "Patched." };
    const ahead = how === "as results alone" ? [] : [{ role: "user", content: "Hi." }];
    const { status } = await world.respond({
      tools: [TOWN],
      input: [...ahead, ...items, output],
      ...(ahead.length === 0 && { previous_response_id: first.id }),
    });
    const [, , said, result] = world.model.asked[1]?.body.messages ?? [];
    expect([status, said?.tool_calls]).toEqual([
      200,
      [{ id: "c1", type: "function", function: { name: call.name, arguments: call.arguments } }],
    ]);
    expect([result?.tool_call_id, result?.content]).toEqual([
      "c1",
      expect.stringContaining("Patched."),
    ]);
  },
);

it("responses: items that only other servers have are left out of a conversation", async () => {
  const foreign = [
    "tool_search_call",
    "tool_search_output",
    "additional_tools",
    "local_shell_call",
  ];
  const input = [
    { role: "user", content: "Look." },
    ...foreign.map((type) => ({ type, id: "x", call_id: "c1", tools: [], output: [] })),
    { role: "user", content: "And?" },
  ];
  expect((await world.respond({ input })).status).toBe(200);
  expect(world.model.asked[0]?.roles).toEqual(["system", "user", "user"]);
});
