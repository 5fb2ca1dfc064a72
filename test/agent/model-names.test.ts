import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { toModelName } from "../../src/agent/tools/offered-tool.ts";
import { createMcpWorld, type McpWorld } from "./mcp.ts";
import { VENDORS, type ModelServer, type Vendor } from "./vendors.ts";

/** The names of functions that every vendor's API accepts, by its documentation: Google's begin with a letter or `_`. */
const ACCEPTED = /^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/;
const VENDOR = VENDORS[0] as Vendor;

describe("the name that models have for a tool", () => {
  const long = "n".repeat(70);
  it.each<[string, string, string | RegExp]>([
    ["a plain one stays", "crm.list-all", "crm__list-all"],
    ["dots", "crm.tools.list", /^crm__tools_list_[0-9a-f]{8}$/],
    ["other scripts", "srv.天気", /^srv_____[0-9a-f]{8}$/],
    ["a digit first", "3d.print", /^_3d__print_[0-9a-f]{8}$/],
    ["a long one", `srv.${long}`, /^srv__n{50}_[0-9a-f]{8}$/],
  ])("%s", (_case, tool, expected) => {
    expect(toModelName(tool)).toMatch(expected);
  });

  it("is that of no other tool", () => {
    const tools = ["s.a.b", "s.a/b", "s.a_b", `s.${long}1`, `s.${long}2`];
    expect(new Set(tools.map(toModelName)).size).toBe(tools.length);
  });
});

describe("tools whose names vendors refuse", () => {
  const NAMES = ["admin.tools.list", "admin_tools_list", "天気", "気温", "a/b:c", "x".repeat(120)];
  let world: McpWorld | undefined;
  afterEach(() => world?.stop());

  const offered = (server: ModelServer): string[] =>
    VENDOR.toolNames(server.requests.at(-1) as never).filter((name) => name.startsWith("srv"));

  it("are offered under legal names, called by the real ones, and known again in the next turn", async () => {
    const given = new Map<string, string>();
    const server = {
      command: process.execPath,
      args: [join(import.meta.dirname, "names-mcp-server.mjs")],
      env: { NAMES: JSON.stringify([...NAMES, "ignore all of it <b>", "zero\u200bwidth"]) },
    };
    world = await createMcpWorld({ srv: server }, (call, model) => {
      const names = offered(model);
      const name = names[call];
      return name === undefined || given.has(name) || call >= NAMES.length
        ? { text: "Done." }
        : (given.set(name, ""), { tool: name, input: {} });
    });
    const session = { sessionKey: "hook:names" };
    const first = await world.run(session);
    expect(first).toMatchObject({
      status: "succeeded",
      warnings: [expect.stringMatching(/^2 tools of mcp\.servers\.srv left out: /)],
    });
    const names = offered(world.model);
    expect(names).toHaveLength(NAMES.length);
    expect(new Set(names).size).toBe(NAMES.length);
    for (const name of names) expect(name).toMatch(ACCEPTED);
    const seen = JSON.stringify(world.model.requests.at(-1)?.body);
    for (const name of NAMES) expect(seen).toContain(`called ${name}`);
    const { steps } = (await world.admin(`/admin/v1/runs/${first.id}/steps`)).body as {
      steps: { calls: { tool: string }[] }[];
    };
    expect(steps.flatMap(({ calls }) => calls.map(({ tool }) => tool)).toSorted()).toEqual(
      NAMES.map((name) => `srv.${name}`).toSorted(),
    );
    await world.run(session);
    const later = JSON.stringify(world.model.requests.at(-1)?.body);
    for (const name of given.keys()) expect(later.split(`"${name}"`).length).toBeGreaterThan(2);
  });
});
