import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { serve } from "../channels/wire.ts";
import { answerMcp } from "./mcp.ts";
import { VENDORS, type Said, type Vendor } from "./vendors.ts";
import { createModelWorld, type ModelWorld } from "./world.ts";

/** Lies beside the config: relative paths of a server's command start there. */
const MCP_SERVER = readFileSync(join(import.meta.dirname, "mcp-server.mjs"), "utf8");
const STDIO = {
  command: process.execPath,
  args: ["mcp-server.mjs"],
  env: { TOWN_KEY: "key-of-the-town" },
};

let world: ModelWorld;
let mcp: { url: string; close(): Promise<void> } | undefined;
afterEach(async () => {
  await world.stop();
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
  let calls = 0;
  world = await createModelWorld({
    vendor,
    handler: () => says(calls++),
    files: { "mcp-server.mjs": MCP_SERVER },
    config: { hooks: { tools }, mcp: { servers } },
    agent: { tools: own },
  });
}

const run = (more: object = {}) => world.run({ message: "Umbrella?", ...more });

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
      const [first, second] = world.model.requests;
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
    expect(JSON.stringify(world.model.requests[1]?.body)).toContain(
      "Rain in Ulm, said to key-4711",
    );
  });

  it("of an agent narrow those of hooks.tools, and are a heartbeat's as well", async () => {
    const vendor = VENDORS[0] as Vendor;
    await start(vendor, { town: STDIO }, ["town.*"], () => ({ text: "Done." }), ["town.weather"]);
    await run();
    await world.post("/hooks/wake", { text: "x" });
    await world.until(async () => world.model.requests.length === 2);
    for (const request of world.model.requests)
      expect(vendor.toolNames(request)).toEqual(["town__weather"]);
  });

  it("that the model makes up are not run, and the turn continues", async () => {
    await start(VENDORS[0] as Vendor, { town: STDIO }, ["town.weather"], (call) =>
      call === 0 ? { tool: "town__erase", input: {} } : { text: "Sorry." },
    );
    expect(await run()).toMatchObject({ status: "succeeded", reply: "Sorry." });
    expect(JSON.stringify(world.model.requests[1]?.body)).not.toContain("erased");
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
