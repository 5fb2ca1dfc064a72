import { afterAll, beforeAll, expect, it } from "vitest";
import { toUsage } from "../../src/agent/usage.ts";
import { createCli } from "../cli/world.ts";
import { startModel, type Model } from "./model.ts";
import { platformWorld, type PlatformWorld } from "./world.ts";

/** In dollars for a million tokens. */
const PRICES = {
  "local/big": { input: 2, cachedInput: 0.5, output: 8 },
  "second/small": { input: 1, output: 3 },
};

interface Counted {
  model: string;
  input: number;
  cached: number;
  output: number;
}

let world: PlatformWorld;
let servers: Model[] = [];
/** The usage that the providers counted. It is the truth that all else is compared with. */
const counted: Counted[] = [];
beforeAll(async () => {
  await start();
  await work();
});
afterAll(async () => {
  await world.close();
  await Promise.all(servers.map((server) => server.close()));
});

/** A provider that counts other tokens for each request. */
async function startCounting(name: string, own?: Model): Promise<Model> {
  const server = own ?? (await startModel());
  server.says = ({ body }, call) => {
    const one = {
      model: `${name}/${body.model}`,
      input: 1000 + 137 * call,
      cached: call % 2 === 0 ? 0 : 400,
      output: 50 + 31 * call,
    };
    counted.push(one);
    const { input, cached, output } = one;
    return {
      text: ["ok"],
      usage: {
        prompt_tokens: input,
        completion_tokens: output,
        total_tokens: input + output,
        prompt_tokens_details: { cached_tokens: cached },
      },
    };
  };
  return server;
}

async function start(): Promise<void> {
  servers = [
    await startCounting("local"),
    await startCounting("second"),
    await startCounting("free"),
  ];
  const [local, second, free] = servers.map(({ url }) => ({
    type: "openai-compatible",
    baseUrl: url,
    apiKey: "provider-key-0123456789",
  }));
  world = await platformWorld({
    agents: [
      { id: "ops" },
      { id: "sales", model: "second/small" },
      { id: "lab", model: "free/unpriced" },
    ],
    config: {
      models: { providers: { local, second, free }, prices: PRICES },
      hooks: {
        enabled: true,
        mappings: [
          {
            id: "shop",
            match: { path: "shop" },
            messageTemplate: "order",
            wakeMode: "next-heartbeat",
            deliver: false,
          },
          {
            id: "lab",
            match: { path: "lab" },
            messageTemplate: "sample",
            agentId: "lab",
            wakeMode: "next-heartbeat",
            deliver: false,
          },
        ],
      },
    },
  });
}

const cost = (calls: readonly Counted[]): number =>
  calls.reduce((sum, { model, input, cached, output }) => {
    const price: { input: number; cachedInput?: number; output: number } =
      PRICES[model as keyof typeof PRICES];
    return (
      sum +
      ((input - cached) * price.input +
        cached * (price.cachedInput ?? price.input) +
        output * price.output) /
        1e6
    );
  }, 0);
const sum = (calls: readonly Counted[], name: "input" | "cached" | "output"): number =>
  calls.reduce((total, call) => total + call[name], 0);
const of = (model: string): Counted[] => counted.filter((call) => call.model === model);
const rowOf = (key: string, calls: readonly Counted[], unpricedRuns = 0) => ({
  key,
  runs: calls.length,
  inputTokens: sum(calls, "input"),
  cachedInputTokens: sum(calls, "cached"),
  cacheWriteTokens: 0,
  outputTokens: sum(calls, "output"),
  costUsd:
    unpricedRuns === calls.length
      ? null
      : expect.closeTo(cost(calls.filter(({ model }) => model in PRICES)), 8),
  unpricedRuns,
});

/** Three hooks and three chats on a model with a price, two chats on another one, two hooks on one without a price. */
async function work(): Promise<void> {
  for (let n = 0; n < 3; n++) {
    await world.post("/hooks/shop", { n });
    await world.chat({ model: "ops", stream: n === 1 });
  }
  for (let n = 0; n < 2; n++) {
    await world.chat({ model: "sales" });
    await world.post("/hooks/lab", { n });
  }
  await world.until(async () => {
    const { runs } = (await world.admin("/admin/v1/runs")).body;
    return (
      runs.length === 10 && runs.every((run: { endedAt: string | null }) => run.endedAt !== null)
    );
  });
}

it("`rouse runs --usage`, its route and the metrics agree with what the providers counted", async () => {
  const [big, small, unpriced] = [of("local/big"), of("second/small"), of("free/unpriced")];
  expect([big.length, small.length, unpriced.length]).toEqual([6, 2, 2]);
  const usage = async (by: string) => (await world.admin(`/admin/v1/usage?by=${by}&since=1h`)).body;

  const byModel = await usage("model");
  expect(byModel.rows).toEqual([
    rowOf("local/big", big),
    rowOf("second/small", small),
    rowOf("free/unpriced", unpriced, 2),
  ]);
  expect(byModel.total).toEqual(rowOf("total", counted, 2));
  const byAgent = await usage("agent");
  expect(byAgent.rows.map(({ key, runs }: { key: string; runs: number }) => [key, runs])).toEqual([
    ["ops", 6],
    ["sales", 2],
    ["lab", 2],
  ]);
  const byMapping = await usage("mapping");
  expect(
    byMapping.rows.map(({ key, runs }: { key: string; runs: number }) => [key, runs]).toSorted(),
  ).toEqual([
    ["(api)", 5],
    ["lab", 2],
    ["shop", 3],
  ]);
  const today = new Date().toISOString().slice(0, 10);
  const byDay = await usage("day");
  expect(byDay.rows.reduce((runs: number, row: { runs: number }) => runs + row.runs, 0)).toBe(10);
  expect(byDay.rows[0].key).toBe(today);
  expect((await world.admin("/admin/v1/usage?by=hour")).status).toBe(400);

  const metrics = await (
    await fetch(`${world.url}/metrics`, {
      headers: { authorization: `Bearer ${world.gateway.operatorToken}` },
    })
  ).text();
  const series = (name: string, labels: Record<string, string>): number =>
    metrics
      .split("\n")
      .filter(
        (line) =>
          line.startsWith(`${name}{`) &&
          Object.entries(labels).every(([key, value]) => line.includes(`${key}="${value}"`)),
      )
      .reduce((total, line) => total + Number(line.split(" ").at(-1)), 0);
  for (const kind of ["input", "output"] as const)
    expect(series("rouse_tokens_total", { model: "local/big", kind })).toBe(sum(big, kind));
  expect(series("rouse_tokens_total", { model: "local/big", kind: "cached_input" })).toBe(
    sum(big, "cached"),
  );
  expect(series("rouse_cost_usd_total", { agent: "ops" })).toBeCloseTo(cost(big), 8);
  expect(series("rouse_cost_usd_total", { agent: "ops", mapping: "shop" })).toBeGreaterThan(0);
  expect([
    series("rouse_cost_usd_total", { agent: "lab" }),
    series("rouse_unpriced_runs_total", { mapping: "lab" }),
  ]).toEqual([0, 2]);
});

it("`rouse runs --usage` and `rouse runs` print costs, and say where one is unknown", async () => {
  const cli = await createCli();
  const rouse = (...args: string[]) => cli.rouse([...args, "--config", `${world.dir}/rouse.json5`]);
  const { code, out } = await rouse("runs", "--usage", "--by", "model", "--since", "1h");
  expect(code).toBe(0);
  const lines = out.split("\n").map((line) => line.split(/ {2,}/));
  expect(lines.find(([key]) => key === "local/big")?.slice(1, 5)).toEqual([
    "6",
    String(sum(of("local/big"), "input")),
    String(sum(of("local/big"), "cached")),
    String(sum(of("local/big"), "output")),
  ]);
  expect(lines.find(([key]) => key === "free/unpriced")?.at(-1)).toBe("unknown");
  expect(lines.find(([key]) => key === "total")?.at(-1)).toMatch(/^\$0\.\d{4} \+ unknown$/);
  expect(out).toContain("2 runs used a model whose price is unknown: set models.prices");
  const json = JSON.parse((await rouse("runs", "--usage", "--json")).out) as {
    total: object;
    by: string;
  };
  expect([json.by, json.total]).toEqual(["day", rowOf("total", counted, 2)]);

  const { runs } = (await world.admin("/admin/v1/runs")).body;
  const idOf = (model: string): string =>
    runs.find((run: { model: string }) => run.model === model).id;
  expect((await rouse("runs", idOf("local/big"))).out).toMatch(/^cost +\$0\.\d{4}$/m);
  expect((await rouse("runs", idOf("free/unpriced"))).out).toMatch(/^cost +unknown$/m);
  await cli.close();
});

it.each([
  [
    "counts below 0",
    { inputTokens: 1151, outputTokens: -35, totalTokens: 1116 },
    { inputTokens: 1151, totalTokens: 1116 },
  ],
  [
    "more cached input than input",
    { inputTokens: 100, outputTokens: 10, inputTokenDetails: { cacheReadTokens: 6500 } },
    { inputTokens: 100, outputTokens: 10, cachedInputTokens: 6500, costUsd: 0.00353 },
  ],
])("usage: what happens when a provider reports %s", (_what, reported, usage) => {
  expect(toUsage(reported, PRICES["local/big"])).toEqual(usage);
});
