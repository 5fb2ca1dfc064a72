import { afterEach, expect, it } from "vitest";
import { z } from "zod";
import { definePlugin, type ContextProvider } from "../../src/plugin/api.ts";
import { VENDORS, type ModelRequest, type Vendor } from "./vendors.ts";
import { createModelWorld, type ModelWorld } from "./world.ts";

const ANTHROPIC = VENDORS.find(({ type }) => type === "anthropic") as Vendor;

let world: ModelWorld;
afterEach(() => world.stop());

const stock = {
  name: "stock",
  description: "Tells what is in stock.",
  input: z.object({}),
  readOnly: true,
  execute: () => "three left",
};

/** Passages for each question, one of them with a word that only outside text has. */
const passages: ContextProvider = ({ question }) => [
  { text: "Passages that may help:", from: "operator" },
  { text: `Passage about ${question}`, from: "outside", label: "document handbook" },
];

interface Options {
  vendor?: Vendor;
  withContext?: boolean;
  checkpoints?: boolean;
  retention?: string;
}

async function start(
  contextTokens: number,
  withTool: boolean,
  { vendor, withContext = false, checkpoints = true, retention }: Options = {},
): Promise<void> {
  world = await createModelWorld({
    ...(vendor && { vendor }),
    handler: ({ body }) =>
      withTool && isInput(body.messages.at(-1))
        ? { tool: "shop__stock", input: {} }
        : { text: "noted" },
    plugins: [
      definePlugin({
        id: "shop",
        setup: () => ({ tools: [stock], ...(withContext && { context: passages }) }),
      }),
    ],
    provider: { contextTokens },
    agent: { tools: ["shop.*"] },
    config: {
      agents: { defaults: { checkpoints } },
      hooks: { tools: ["shop.*"], ...(retention !== undefined && { retention }) },
    },
  });
}

/** True if the message is an input and not the result of a tool. */
const isInput = ({ role, content }: { role: string; content: unknown }): boolean =>
  role === "user" && !JSON.stringify(content).includes('"tool_result"');

async function run(message: string): Promise<void> {
  expect(await world.run({ message, sessionKey: "hook:cache" })).toMatchObject({
    status: "succeeded",
  });
}

/** The number of messages at the beginning of two requests that are byte for byte the same. */
function countCommon(before: readonly unknown[], after: readonly unknown[]): number {
  const first = before.findIndex(
    (message, at) => JSON.stringify(message) !== JSON.stringify(after[at]),
  );
  return first < 0 ? before.length : first;
}

it("each request of a session begins with all of the request before it, tool results and boundaries included", async () => {
  await start(128_000, true);
  for (let n = 1; n <= 4; n++) await run(`order ${n} from outside`);
  const requests = world.model.requests.map(({ body }) => body.messages as unknown[]);
  expect(requests).toHaveLength(8);
  for (const [at, request] of requests.slice(1).entries())
    expect(countCommon(requests[at] ?? [], request)).toBe(requests[at]?.length);
  expect(JSON.stringify(requests.at(-1)).split("three left")).toHaveLength(5);
  // Each turn keeps a boundary of its own, around its input and around what its tool has said.
  const ids = [
    ...JSON.stringify(requests.at(-1)).matchAll(/<<<EXTERNAL_CONTENT ([0-9a-f]{32})>>>/g),
  ].map(([, id]) => id);
  expect([ids.length, new Set(ids).size]).toEqual([8, 4]);
});

it.each([true, false])(
  "a history that is too long is cut in large steps (checkpoints: %s), so that most requests begin like the one before",
  async (checkpoints) => {
    await start(12_000, false, { checkpoints });
    for (let n = 1; n <= 16; n++) await run(`order-${n} ${"word ".repeat(150)}`);
    const all = world.model.requests.map(({ body }) => body.messages as unknown[]);
    const requests = all.filter(
      (messages) => !JSON.stringify(messages[0]).includes("You summarise"),
    );
    expect(all.length > requests.length).toBe(checkpoints);
    const whole = requests
      .slice(1)
      .filter((request, at) => countCommon(requests[at] ?? [], request) === requests[at]?.length);
    const cut = requests.findIndex((request) => !JSON.stringify(request).includes("order-1 "));
    expect(cut).toBeGreaterThan(5);
    // From the first cut on every turn would begin otherwise if only what does not fit were left out.
    expect(requests.length - 1 - whole.length).toBeLessThanOrEqual(
      Math.ceil((requests.length - cut) / 3),
    );
  },
);

it("passages of past turns stay as they were rendered, inside the boundary of their turn", async () => {
  await start(128_000, true, { withContext: true });
  for (let n = 1; n <= 3; n++) await run(`order ${n} from outside`);
  const requests = world.model.requests.map(({ body }) => body.messages as unknown[]);
  expect(requests).toHaveLength(6);
  for (const [at, request] of requests.slice(1).entries())
    expect(countCommon(requests[at] ?? [], request)).toBe(requests[at]?.length);
  const last = JSON.stringify(requests.at(-1));
  for (let n = 1; n <= 3; n++)
    expect(last.split(`Passage about order ${n} from outside`)).toHaveLength(2);
  const ids = [...last.matchAll(/<<<EXTERNAL_CONTENT ([0-9a-f]{32})>>>/g)].map(([, id]) => id);
  expect([ids.length, new Set(ids).size]).toEqual([9, 3]);
});

it("passages of past turns are not kept if bodies are not", async () => {
  await start(128_000, false, { withContext: true, retention: "0" });
  for (let n = 1; n <= 2; n++) await run(`order ${n} from outside`);
  const last = JSON.stringify(world.model.requests.at(-1)?.body.messages);
  expect(last).toContain("Passage about order 2");
  expect(last).not.toContain("order 1 from outside");
});

it("prompt cache: a provider that needs marks gets them on the instructions, the turn's message and the last message", async () => {
  await start(128_000, true, { vendor: ANTHROPIC });
  for (let n = 1; n <= 2; n++) await run(`order ${n}`);
  const marked = world.model.requests.map(({ body }) => {
    const found = (value: unknown): boolean =>
      JSON.stringify(value).includes('"cache_control":{"type":"ephemeral"}');
    return {
      system: found(body.system),
      messages: (body.messages as unknown[]).flatMap((one, at) => (found(one) ? [at] : [])),
    };
  });
  expect(marked).toEqual([
    { system: true, messages: [0] },
    { system: true, messages: [0, 2] },
    { system: true, messages: [4] },
    { system: true, messages: [4, 6] },
  ]);
  // Without the marks each request begins with all of the one before it.
  const bare = world.model.requests.map(
    ({ body }) =>
      JSON.parse(
        JSON.stringify(body.messages).replaceAll(',"cache_control":{"type":"ephemeral"}', ""),
      ) as unknown[],
  );
  for (const [at, request] of bare.slice(1).entries())
    expect(countCommon(bare[at] ?? [], request)).toBe(bare[at]?.length);
});

it("prompt cache: only the instructions are marked if no later request begins with the one that is sent", async () => {
  const counted = {
    input_tokens: 100,
    cache_creation_input_tokens: 2000,
    cache_read_input_tokens: 500,
    output_tokens: 10,
  };
  world = await createModelWorld({
    vendor: ANTHROPIC,
    handler: ({ body }, response) => {
      response.setHeader("content-type", "application/json");
      response.end(
        JSON.stringify({ ...ANTHROPIC.answer({ text: "noted" }, body.model), usage: counted }),
      );
      return undefined;
    },
    prices: { "local/big": { input: 4, cachedInput: 1, cacheWrite: 5, output: 20 } },
  });
  await run("order 1");
  const { body } = world.model.requests[0] as ModelRequest;
  expect(JSON.stringify(body.system)).toContain("cache_control");
  expect(JSON.stringify(body.messages)).not.toContain("cache_control");
  const [{ usage }] = (await world.admin("/admin/v1/runs")).body.runs;
  expect(usage).toMatchObject({
    inputTokens: 2600,
    cachedInputTokens: 500,
    cacheWriteTokens: 2000,
    outputTokens: 10,
  });
  expect(usage.costUsd).toBeCloseTo((100 * 4 + 500 * 1 + 2000 * 5 + 10 * 20) / 1e6, 8);
});
