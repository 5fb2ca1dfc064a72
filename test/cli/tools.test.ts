import { join } from "node:path";
import { z } from "zod";
import { afterAll, beforeAll, expect, it } from "vitest";
import { definePlugin, type Tool } from "../../src/plugin/api.ts";
import { createMcpWorld, type McpWorld } from "../agent/mcp.ts";
import { createCli, type CliWorld } from "./world.ts";

const tool = (name: string, more: Partial<Tool>): Tool => ({
  name,
  description: name,
  input: z.strictObject({ id: z.string() }),
  execute: ({ id }: { id: string }) => `Ann has ${id}.`,
  ...more,
});
const TOOLS = [
  tool("lookup", { readOnly: true }),
  tool("audit", { readOnly: true }),
  tool("erase", {
    execute() {
      throw new Error("the CRM is closed");
    },
  }),
];

let cli: CliWorld;
let world: McpWorld;
beforeAll(async () => {
  cli = await createCli();
  const servers = {
    town: {
      command: process.execPath,
      args: [join(import.meta.dirname, "../agent/mcp-server.mjs")],
    },
    lost: { command: "/nowhere/mcp" },
  };
  const mapping = { messageTemplate: "Go.", deliver: false, wakeMode: "next-heartbeat" };
  world = await createMcpWorld(servers, () => ({ text: "Done." }), {
    dir: cli.dir,
    plugins: [definePlugin({ id: "crm", tools: () => TOOLS })],
    agent: { tools: ["town.*", "crm.*", "rouse.recall", "!crm.audit"], approve: ["crm.lookup"] },
    config: {
      hooks: {
        tools: ["town.weather"],
        mappings: [
          { ...mapping, id: "shop", match: { path: "shop" }, tools: ["crm.*", "rouse.recall"] },
          { ...mapping, id: "none", match: { path: "none" }, tools: [] },
        ],
      },
    },
  });
});
afterAll(async () => {
  await world.stop();
  await cli.close();
});

/** The rows of a table, by their second column. */
const rowsOf = (out: string): Map<string | undefined, string[]> =>
  new Map(
    out.split("\n").map((line) => {
      const [, name, ...cells] = line.split(/ {2,}/);
      return [name, cells];
    }),
  );

it("`rouse tools` says of each tool its source, who is offered it or by which key not, and what needs approval", async () => {
  const { code, out } = await cli.rouse("tools --agent ops");
  expect(code).toBe(0);
  const rows = rowsOf(out);
  expect(rows.get("town.weather")).toEqual([
    "mcp.servers.town",
    "yes; no in shop; no in none",
    "yes",
    "yes",
    "–",
  ]);
  expect(rows.get("town.erase")).toEqual([
    "mcp.servers.town",
    "no: hooks.tools",
    "yes",
    "yes",
    "outside text",
  ]);
  expect(rows.get("crm.lookup")).toEqual([
    "plugin crm",
    "no: hooks.tools; yes in shop",
    "yes",
    "yes",
    "always",
  ]);
  const none = "no: agents.list[0].tools";
  expect(rows.get("crm.audit")).toEqual(["plugin crm", none, "no", "no", "–"]);
  expect(rows.get("rouse.schedule")).toEqual(["built in", none, "no", "no", "–"]);
  expect(rows.get("rouse.recall")?.slice(0, 2)).toEqual([
    "built in",
    "no: hooks.tools; yes in shop",
  ]);
  expect(rows.get("knowledge.knowledge_search")).toEqual(["built in", "yes", "yes", "yes", "–"]);
  expect(out).toMatch(/^warning: the tools of mcp\.servers\.lost are missing: .*ENOENT/m);
  const json = await cli.rouse("tools --json");
  expect(JSON.parse(json.out)).toMatchObject({
    agents: [{ agentId: "ops", tools: expect.any(Array) }],
  });
  await cli.fails("tools --agent nobody", 1, "rouse agents");
});

it("`rouse tools test` calls a tool once and prints its answer or its error", async () => {
  const found = await cli.rouse(["tools", "test", "town.weather", '{"town":"Ulm"}']);
  expect([found.code, found.out]).toEqual([0, expect.stringContaining("result: Rain in Ulm.")]);
  const failed = await cli.rouse(["tools", "test", "crm.erase", '{"id":"7"}', "--yes"]);
  expect([failed.code, failed.out]).toEqual([1, "error: the CRM is closed\n"]);
  const unfit = await cli.rouse("tools test crm.audit --json");
  expect([unfit.code, JSON.parse(unfit.out)]).toEqual([
    1,
    expect.objectContaining({
      tool: "crm.audit",
      output: { isError: true, parts: [{ type: "text", text: expect.stringContaining("id: ") }] },
    }),
  ]);
  const call = async (...args: string[]): Promise<string> => {
    const { code, err } = await cli.rouse(["tools", "test", ...args]);
    expect(code).not.toBe(0);
    return err;
  };
  expect(await call("crm.lookup", "[1]")).toContain("JSON object");
  expect(await call("crm.other")).toContain("rouse tools");
  expect(await call("lost.any")).toContain("ENOENT");
  expect(await call("rouse.recall")).toContain("rouse chat");
});

it("a tool that changes something or needs an approval is called after a yes on the terminal, or with --yes", async () => {
  const args = ["tools", "test", "crm.lookup", '{"id":"7"}'];
  await cli.fails(args, 2, "--yes");
  const asked: string[] = [];
  const answer = (said: string) => (question: string) => {
    asked.push(question);
    return Promise.resolve(said);
  };
  const no = await cli.rouse(args, { ask: answer("") });
  expect([no.code, no.err]).toEqual([2, expect.stringContaining("was not called")]);
  const yes = await cli.rouse(args, { ask: answer("y") });
  expect([yes.code, yes.out]).toEqual([0, "result: Ann has 7.\n"]);
  expect(asked).toEqual([
    expect.stringContaining("crm.lookup"),
    expect.stringContaining("crm.lookup"),
  ]);
});

it.each([
  [
    "shop",
    "tools offered: rouse.recall, crm.lookup, crm.erase; left out by tools of the mapping shop: town.*",
  ],
  ["none", "tools offered: none (tools of the mapping none)"],
  [
    "agent",
    "tools offered: town.weather; left out by hooks.tools: town.erase, crm.*, rouse.recall",
  ],
])("a run of the hook %s says which tools it was offered", async (path, sentence) => {
  const { body } = await world.post(`/hooks/${path}`, {
    message: "Go.",
    deliver: false,
    wakeMode: "next-heartbeat",
  });
  await world.until(async () => {
    const { run } = (await world.get(`/hooks/runs/${body.runId}`)).body;
    return run.endedAt !== null;
  });
  const { steps } = (await world.admin(`/admin/v1/runs/${body.runId}/steps`)).body;
  expect(steps[0].tools).toBe(sentence);
  expect((await cli.rouse(["runs", body.runId])).out).toContain(`  ${sentence}\n`);
  expect((await cli.rouse(["explain", body.eventId])).out).toContain(`  ${sentence}\n`);
});
