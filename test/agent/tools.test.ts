import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { serve } from "../channels/wire.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { answerMcp } from "./mcp.ts";
import { startVendor, VENDORS, type ModelServer, type Said, type Vendor } from "./vendors.ts";

/** Lies beside the config: relative paths of a server's command start there. */
const MCP_SERVER = readFileSync(join(import.meta.dirname, "mcp-server.mjs"), "utf8");
const STDIO = {
  command: process.execPath,
  args: ["mcp-server.mjs"],
  env: { TOWN_KEY: "key-of-the-town" },
};

let world: World;
let server: ModelServer;
let mcp: { url: string; close(): Promise<void> } | undefined;
afterEach(async () => {
  await world.stop();
  await server.close();
  await mcp?.close();
  mcp = undefined;
});

async function start(
  vendor: Vendor,
  servers: object,
  tools: string[],
  says: (call: number) => Said,
  own = Object.keys(servers).map((name) => `${name}.*`),
): Promise<void> {
  server = await startVendor(vendor);
  let calls = 0;
  server.handler = () => says(calls++);
  world = await createWorld({
    files: { "mcp-server.mjs": MCP_SERVER },
    config: {
      hooks: { tools },
      mcp: { servers },
      models: {
        providers: {
          local: { type: vendor.type, baseUrl: server.baseUrl, apiKey: "k-0123456789" },
        },
      },
      agents: {
        defaults: { model: "local/big", heartbeat: { every: 0 } },
        list: [{ id: "ops", tools: own }],
      },
    },
  });
}

async function run(
  more: object = {},
): Promise<{ status: string; reply: string; warnings: string[] }> {
  return world.endedRun(await world.orderRun({ message: "Umbrella?", ...more }));
}

const weather = (call: number): Said =>
  call === 0 ? { tool: "town__weather", input: { town: "Ulm" } } : { text: "Take one." };

/** The same server over HTTP: one answer in JSON for each request. */
async function overHttp(): Promise<string> {
  const inputSchema = { type: "object", properties: { town: { type: "string" } } };
  mcp = await serve((call) =>
    answerMcp(call, [{ name: "weather", inputSchema }], ({ arguments: { town } }) => ({
      content: [
        { type: "text", text: `Rain in ${town}, said to ${String(call.headers["x-key"])}` },
      ],
    })),
  );
  return `${mcp.url}/mcp`;
}

describe("tools of MCP servers", () => {
  it.each(VENDORS.map((vendor) => [vendor.type, vendor] as const))(
    "are called by %s, and what they say reaches the model inside the run's boundary",
    async (_type, vendor) => {
      process.env["CANARY"] = "canary-environment";
      await start(vendor, { town: STDIO }, ["town.weather"], weather);
      expect(await run()).toMatchObject({ status: "succeeded", reply: "Take one.", warnings: [] });
      const [first, second] = server.requests;
      if (!first || !second) throw new Error("the tool's result did not go back");
      expect(vendor.toolNames(first)).toEqual(["town__weather"]);
      const text = JSON.stringify(second.body);
      const boundary = /<<<EXTERNAL_CONTENT ([0-9a-f]{32})>>>/.exec(
        JSON.stringify(first.body),
      )?.[1];
      expect(text).toMatch(
        new RegExp(
          `<<<EXTERNAL_CONTENT ${boundary}>>>[^<]*Rain in Ulm[^<]*key-of-the-town[^<]*<<<END_EXTERNAL_CONTENT ${boundary}>>>`,
        ),
      );
      // A server gets the variables that the config names, not the gateway's own.
      expect(text).not.toContain("canary-environment");
    },
  );

  it("come over HTTP as well, with the headers of the config", async () => {
    const vendor = VENDORS[0] as Vendor;
    await start(
      vendor,
      { town: { url: await overHttp(), headers: { "x-key": "key-4711" } } },
      ["town.*"],
      weather,
    );
    expect(await run()).toMatchObject({ status: "succeeded", reply: "Take one." });
    expect(JSON.stringify(server.requests[1]?.body)).toContain("Rain in Ulm, said to key-4711");
  });

  it("are none for a hook's run unless hooks.tools names them, whatever the agent has", async () => {
    await start(VENDORS[0] as Vendor, { town: STDIO }, [], () => ({ text: "No." }));
    await run();
    expect((VENDORS[0] as Vendor).toolNames(server.requests[0] as never)).toEqual([]);
  });

  it("of an agent narrow those of hooks.tools, and are a heartbeat's as well", async () => {
    const vendor = VENDORS[0] as Vendor;
    await start(vendor, { town: STDIO }, ["town.*"], () => ({ text: "Done." }), ["town.weather"]);
    await run();
    await world.post("/hooks/wake", { text: "x" });
    await world.until(async () => server.requests.length === 2);
    for (const request of server.requests)
      expect(vendor.toolNames(request)).toEqual(["town__weather"]);
  });

  it("that the model makes up are not run, and the turn continues", async () => {
    await start(VENDORS[0] as Vendor, { town: STDIO }, ["town.weather"], (call) =>
      call === 0 ? { tool: "town__erase", input: {} } : { text: "Sorry." },
    );
    expect(await run()).toMatchObject({ status: "succeeded", reply: "Sorry." });
    expect(JSON.stringify(server.requests[1]?.body)).not.toContain("erased");
  });

  it("whose server cannot be reached are named in a warning, and the turn continues without them", async () => {
    const missing = {
      town: { command: "/nowhere/mcp-server" },
      far: { url: "http://127.0.0.1:9/mcp" },
    };
    await start(VENDORS[0] as Vendor, missing, ["town.*", "far.*"], () => ({
      text: "I do not know.",
    }));
    expect(await run()).toMatchObject({
      status: "succeeded",
      reply: "I do not know.",
      warnings: [
        expect.stringContaining("mcp.servers.town"),
        expect.stringContaining("mcp.servers.far"),
      ],
    });
  });

  it("whose server never answers hold the turn up for no more than half of its time", async () => {
    mcp = await serve(() => "hang");
    const url = `${mcp.url}/mcp`;
    await start(VENDORS[0] as Vendor, { slow: { url } }, ["slow.*"], () => ({ text: "Without." }));
    const ended = await run({ timeoutSeconds: 1 });
    expect(ended).toMatchObject({
      status: "succeeded",
      reply: "Without.",
      warnings: [expect.stringContaining("mcp.servers.slow")],
    });
  });
});
