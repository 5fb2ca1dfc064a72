import { afterEach, expect, it } from "vitest";
import { z } from "zod";
import { definePlugin } from "../../src/plugin/api.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { startVendor, VENDORS, type ModelServer, type Vendor } from "./vendors.ts";

const VENDOR = VENDORS[0] as Vendor;

let world: World;
let server: ModelServer;
afterEach(async () => {
  await world.stop();
  await server.close();
});

const stock = {
  name: "stock",
  description: "Tells what is in stock.",
  input: z.object({}),
  readOnly: true,
  execute: () => "three left",
};

async function start(contextTokens: number, withTool: boolean, checkpoints = true): Promise<void> {
  server = await startVendor(VENDOR);
  server.handler = ({ body }) =>
    withTool && body.messages.at(-1).role === "user" ? { tool: "shop__stock", input: {} } : { text: "noted" };
  world = await createWorld({
    plugins: [definePlugin({ id: "shop", tools: () => [stock] })],
    config: {
      models: { providers: { local: { type: VENDOR.type, baseUrl: server.baseUrl, contextTokens } } },
      agents: { defaults: { model: "local/big", heartbeat: { every: 0 }, checkpoints }, list: [{ id: "ops", tools: ["shop.*"] }] },
      hooks: { tools: ["shop.*"] },
    },
  });
}

async function run(message: string): Promise<void> {
  const { body } = await world.post("/hooks/agent", { message, sessionKey: "hook:cache", wakeMode: "next-heartbeat", deliver: false });
  const { status } = await world.until(async () => {
    const found = (await world.admin(`/admin/v1/runs/${body.runId}`)).body.run;
    return found.endedAt !== null && found;
  });
  expect(status).toBe("succeeded");
}

/** How many messages at the beginning of two requests are byte for byte the same. */
function countCommon(before: readonly unknown[], after: readonly unknown[]): number {
  const first = before.findIndex((message, at) => JSON.stringify(message) !== JSON.stringify(after[at]));
  return first < 0 ? before.length : first;
}

it("each request of a session begins with all of the request before it, tool results and boundaries included", async () => {
  await start(128_000, true);
  for (let n = 1; n <= 4; n++) await run(`order ${n} from outside`);
  const requests = server.requests.map(({ body }) => body.messages as unknown[]);
  expect(requests).toHaveLength(8);
  for (const [at, request] of requests.slice(1).entries()) expect(countCommon(requests[at] ?? [], request)).toBe(requests[at]?.length);
  expect(JSON.stringify(requests.at(-1)).split("three left")).toHaveLength(5);
  // Each turn keeps a boundary of its own, around its input and around what its tool has said.
  const ids = [...JSON.stringify(requests.at(-1)).matchAll(/<<<EXTERNAL_CONTENT ([0-9a-f]{32})>>>/g)].map(([, id]) => id);
  expect([ids.length, new Set(ids).size]).toEqual([8, 4]);
});

it.each([true, false])(
  "a history that is too long is cut in large steps (checkpoints: %s), so that most requests begin like the one before",
  async (checkpoints) => {
    await start(12_000, false, checkpoints);
    for (let n = 1; n <= 16; n++) await run(`order-${n} ${"word ".repeat(150)}`);
    const all = server.requests.map(({ body }) => body.messages as unknown[]);
    const requests = all.filter((messages) => !JSON.stringify(messages[0]).includes("You summarise"));
    expect(all.length > requests.length).toBe(checkpoints);
    const whole = requests.slice(1).filter((request, at) => countCommon(requests[at] ?? [], request) === requests[at]?.length);
    const cut = requests.findIndex((request) => !JSON.stringify(request).includes("order-1 "));
    expect(cut).toBeGreaterThan(5);
    // From the first cut on every turn would begin otherwise if only what does not fit were left out.
    expect(requests.length - 1 - whole.length).toBeLessThanOrEqual(Math.ceil((requests.length - cut) / 3));
  },
);
