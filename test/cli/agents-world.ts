import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { answerMcp } from "../agent/mcp.ts";
import { serve } from "../channels/wire.ts";
import { createWorld, type World } from "../e2e/world.ts";
import {
  startVendor,
  VENDORS,
  type ModelRequest,
  type ModelServer,
  type Said,
} from "../agent/vendors.ts";
import { createCli, type CliWorld } from "./world.ts";

/** A server of tools over HTTP that counts what reaches it. */
interface ToolServer {
  url: string;
  /** Requests of any kind. */
  requests: number;
  /** Calls of tools, with their inputs. */
  calls: { name: string; input: Record<string, unknown> }[];
  close(): Promise<void>;
}

type Answers = Record<string, (input: Record<string, unknown>) => string>;

/** Starts a server of tools (MCP, streamable HTTP) on loopback. Each tool takes an `id`. */
export async function startTools(answers: Answers): Promise<ToolServer> {
  const inputSchema = {
    type: "object",
    properties: { id: { type: "number" } },
    required: ["id"],
  };
  const tools = Object.keys(answers).map((name) => ({
    name,
    description: `Knows ${name}.`,
    inputSchema,
  }));
  const made: ToolServer = { url: "", requests: 0, calls: [], close: async () => undefined };
  const { url, close } = await serve((call) => {
    made.requests++;
    return answerMcp(call, tools, ({ name, arguments: input = {} }) => {
      made.calls.push({ name, input });
      return { content: [{ type: "text", text: answers[name]?.(input) ?? "" }] };
    });
  });
  return Object.assign(made, { url: `${url}/mcp`, close });
}

const compatible = VENDORS[0] as (typeof VENDORS)[number];

/** A request, as the fake model reads it. */
export interface Asked {
  instructions: string;
  /** The whole conversation. */
  text: string;
  /** Results of tools so far. */
  results: string[];
  tools: string[];
  request: ModelRequest;
}

function toAsked(request: ModelRequest): Asked {
  const turns = compatible.turns(request);
  return {
    instructions: compatible.instructions(request),
    text: turns.map(({ text }) => text).join("\n"),
    results: turns.filter(({ role }) => role === "tool").map(({ text }) => text),
    tools: compatible.toolNames(request),
    request,
  };
}

const ORDER_TOOLS: Answers = {
  get_order: ({ id }) =>
    JSON.stringify({
      id,
      total: Number(id) * 10,
      customer: { name: `Ada ${String(id)}`, email: `ada${String(id)}@shop.example` },
    }),
  get_stock: ({ id }) => `stock of ${String(id)}: 3`,
  get_history: ({ id }) => `orders before ${String(id)}: none`,
};

/** The order that the agent is asked about. */
const readId = ({ text }: Asked): number => Number(/---\s+(?:Order )?(\d+)\b/.exec(text)?.[1] ?? 0);

/** A model that asks three tools about the order, and sums up what they say. A prompt with "in one word" makes it worse. */
export function sumUp(asked: Asked): Said {
  const id = readId(asked);
  const next = ["get_order", "get_stock", "get_history"][asked.results.length];
  if (next !== undefined) return { tool: `shop__${next}`, input: { id } };
  if (asked.instructions.includes("in one word")) return { text: "Fine." };
  const total = /"total":(\d+)/.exec(asked.results[0]?.replaceAll("\\", "") ?? "")?.[1] ?? "?";
  return { text: `Order ${id} costs ${total}, 3 in stock, no orders before.` };
}

export interface AgentsWorld {
  cli: CliWorld;
  tools: ToolServer;
  model: ModelServer;
  config(change?: object): object;
  /** The config with other instructions for the agent. */
  withPrompt(instructions: string): object;
  /** Runs a gateway on the folder, and orders through it; returns the ids of their runs. */
  record(ids: readonly number[], path?: string): Promise<string[]>;
  stopGateway(): Promise<void>;
  close(): Promise<void>;
}

const HOOK = "test-hook-token-0123456789";

/** A folder with a shop's config, a fake model and a fake server of tools. */
export async function createAgentsWorld(
  says: (asked: Asked) => Said = sumUp,
  answers: Answers = ORDER_TOOLS,
): Promise<AgentsWorld> {
  const cli = await createCli();
  const tools = await startTools(answers);
  const model = await startVendor(compatible);
  model.handler = (request) => says(toAsked(request));
  const config = (change: object = {}): object => ({
    gateway: { port: 0, drainSeconds: 1 },
    hooks: {
      enabled: true,
      token: HOOK,
      tools: ["shop.*"],
      mappings: [
        {
          id: "shop.order",
          match: { path: "shop", payload: { type: "order" } },
          messageTemplate: "Order {{payload.id}} of {{payload.customer.email}} came in.",
          deliver: false,
          wakeMode: "next-heartbeat",
        },
      ],
    },
    mcp: { servers: { shop: { url: tools.url } } },
    models: {
      providers: {
        local: { type: "openai-compatible", baseUrl: model.baseUrl, apiKey: "k-0123456789" },
      },
      prices: { "local/big": { input: 1, output: 2 } },
    },
    agents: {
      defaults: { model: "local/big", heartbeat: { every: 0 } },
      list: [{ id: "desk", instructions: "Sum up each order.", tools: ["shop.*"] }],
    },
    ...change,
  });
  await cli.write("rouse.json5", config());
  let world: World | undefined;
  return {
    cli,
    tools,
    model,
    config,
    withPrompt(instructions) {
      const { agents } = config() as { agents: { list: object[] } };
      return config({ agents: { ...agents, list: [{ ...agents.list[0], instructions }] } });
    },
    async record(ids, path = "/hooks/shop") {
      const { gateway: _gateway, hooks, ...rest } = config() as { gateway: object; hooks: object };
      world ??= await createWorld({ dir: cli.dir, config: { ...rest, hooks } });
      const { until, post, get } = world;
      const runs: string[] = [];
      for (const id of ids) {
        const body = { type: "order", id, customer: { email: `ada${id}@shop.example` } };
        const asked =
          path === "/hooks/agent"
            ? { message: `Order ${id}: is it fine?`, deliver: false, wakeMode: "next-heartbeat" }
            : body;
        const { body: answer } = await post(path, asked);
        const run = (answer.runId ?? answer.results?.[0]?.runId) as string;
        await until(async () => (await get(`/hooks/runs/${run}`)).body.run.endedAt !== null);
        runs.push(run);
      }
      return runs;
    },
    async stopGateway() {
      await world?.stop();
      world = undefined;
    },
    async close() {
      await world?.stop();
      await tools.close();
      await model.close();
      await cli.close();
    },
  };
}

interface AgentRun {
  passed: boolean;
  misses: { field: string; reason: string }[];
  reply: string | null;
  tokens: number;
  calls: { tool: string; from: string }[];
  judge: { pass: boolean; reason: string } | null;
}
interface Tested {
  name: string;
  ok: boolean;
  runs: AgentRun[];
}
export interface Report {
  passed: number;
  failed: number;
  skipped: number;
  fixtures: (Tested & { before?: Tested })[];
  stopped: string | null;
  notRun: number;
}

export const readCase = async ({ cli }: AgentsWorld, name: string) =>
  JSON.parse(await readFile(join(cli.dir, "tests", `${name}.json5`), "utf8")) as Record<
    string,
    never
  > & {
    run: {
      calls: { tool: string; input: unknown; result: unknown }[];
      prompt?: unknown;
      reply?: unknown;
      tools?: object;
    };
    expect: { reply: object };
    request?: { json: { customer: { email: string } } };
  };

/** Records runs as cases, and stops the gateway: what follows needs none. `reply` takes the place of what is expected. */
export async function recordCases(
  of: AgentsWorld,
  ids: readonly number[],
  reply?: (id: number) => object,
): Promise<void> {
  const runs = await of.record(ids);
  for (const [index, run] of runs.entries()) {
    const id = ids[index] ?? 0;
    const name = `order-${String(id).padStart(2, "0")}`;
    const added = await of.cli.rouse(`test add ${run} --name ${name}`);
    if (added.code !== 0) throw new Error(added.err);
    if (!reply) continue;
    const content = await readCase(of, `shop/${name}`);
    await writeFile(
      join(of.cli.dir, "tests/shop", `${name}.json5`),
      JSON.stringify({ ...content, expect: { ...content.expect, reply: reply(id) } }),
    );
  }
  await of.stopGateway();
  of.tools.requests = 0;
  of.model.requests.length = 0;
}

export const all = (count: number): number[] =>
  Array.from({ length: count }, (_, index) => index + 1);
/** The report without its durations, which differ each time. */
export const steady = (report: Report): unknown =>
  JSON.parse(JSON.stringify(report, (key, value: unknown) => (key === "ms" ? undefined : value)));
export const json = (text: string): Report => JSON.parse(text) as Report;
