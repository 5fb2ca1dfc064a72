import { afterEach, describe, expect, it } from "vitest";
import fc from "fast-check";
import { z } from "zod";
import { createBoundary } from "../../src/agent/boundary.ts";
import { createToolBox } from "../../src/agent/tools/tool-box.ts";
import { systemClock } from "../../src/core/clock.ts";
import { createLogger } from "../../src/core/log.ts";
import { coversTool, patternsMeet } from "../../src/vocabulary/tool-names.ts";
import { definePlugin, type Tool } from "../../src/plugin/api.ts";
import { createWorld } from "../e2e/world.ts";
import { createModelWorld, type ModelWorld } from "./world.ts";

let world: ModelWorld | undefined;
afterEach(async () => {
  await world?.stop();
  world = undefined;
});

const NAMES = ["lookup", "list_open", "list_all", "delete_one", "delete_all"];
const tools = NAMES.map((name): Tool => ({
  name,
  description: "Does it.",
  input: z.object({}),
  execute: () => "done",
}));

async function start(
  own: string[],
  hooks: object,
  files: Record<string, object> = {},
): Promise<void> {
  world = await createModelWorld({
    plugins: [definePlugin({ id: "crm", tools: () => tools })],
    files,
    config: { hooks },
    agent: { tools: own },
  });
}

/** Sends an event to a hook, and returns the names of the tools that its run offered to the model. */
async function offered(path: string): Promise<string[]> {
  const of = world as ModelWorld;
  const { model, vendor } = of;
  const before = model.requests.length;
  await of.post(path, { message: "Go.", wakeMode: "next-heartbeat", deliver: false });
  await of.until(async () => model.requests.length > before);
  return vendor.toolNames(model.requests[before] as never).map((name) => name.replace("crm__", ""));
}

const mapping = {
  match: { path: "shop" },
  messageTemplate: "{{payload}}",
  deliver: false,
  wakeMode: "next-heartbeat",
};

describe("patterns of tools", () => {
  it.each<[own: string[], hookTools: string[], names: string[]]>([
    [["crm.*"], [], []],
    [[], ["crm.*"], []],
    [["crm.lookup"], ["crm.list_all"], []],
    [["crm.lookup"], ["crm.*"], ["lookup"]],
    [["crm.*", "!crm.delete_*"], ["crm.*"], ["lookup", "list_open", "list_all"]],
    [["!crm.delete_*", "crm.*"], ["crm.*"], ["lookup", "list_open", "list_all"]],
    [["crm.*"], ["crm.*_all"], ["list_all", "delete_all"]],
    [["crm.*"], ["crm.l*_*"], ["list_open", "list_all"]],
    [["crm.list_*"], ["crm.*", "!crm.*_all"], ["list_open"]],
    [["crm.list_*"], ["crm.delete_one", "crm.*_open"], ["list_open"]],
    [["crm.*", "!crm.*"], ["crm.*"], []],
  ])("%j of an agent, narrowed by hooks.tools %j, are %j", async (own, hookTools, names) => {
    const box = createToolBox({
      servers: {},
      tools: [{ plugin: "crm", value: tools }],
      clock: systemClock,
      log: createLogger("silent"),
      cwd: ".",
      env: {},
      fetch,
    });
    const info = { agentId: "a", sessionKey: "s", runId: "r", kind: "hook" as const };
    const picked = await box.pick([own, hookTools], {
      info,
      boundary: createBoundary(),
      waitMs: 0,
    });
    expect(picked.tools.map(({ tool }) => tool)).toEqual(names.map((name) => `crm.${name}`));
  });

  it("of a mapping take the place of hooks.tools for its runs alone, and add no tool to the agent's own", async () => {
    const mappings = [
      { ...mapping, tools: ["crm.*", "!crm.lookup"] },
      { ...mapping, match: { path: "none" }, tools: [] },
      { ...mapping, match: { path: "plain" } },
    ];
    await start(["crm.lookup", "crm.list_*"], { tools: ["crm.lookup"], mappings });
    expect(await offered("/hooks/shop")).toEqual(["list_open", "list_all"]);
    expect(await offered("/hooks/none")).toEqual([]);
    expect(await offered("/hooks/plain")).toEqual(["lookup"]);
    expect(await offered("/hooks/agent")).toEqual(["lookup"]);
  });

  it("that name nothing are problems of the config, with their place and the name that is meant", async () => {
    const problems = start(["crm.*", "crm.del*e_all", "!crm.lokup", "*.x"], {
      tools: ["!crm.lookup"],
      mappings: [{ ...mapping, tools: ["crm.lokup", "cmr.*"] }],
    });
    const message = await problems.then(
      () => "none",
      (error: Error) => error.message,
    );
    expect(message).not.toContain("tools[0]: no");
    expect(message).not.toContain("list[0].tools[1]");
    expect(message).toMatch(/agents\.list\[0\]\.tools\[2\]: .*Did you mean "lookup"\?/);
    expect(message).toMatch(/agents\.list\[0\]\.tools\[3\]: .*<server>\.<tool>/);
    expect(message).toMatch(/hooks\.tools: names no tool, it only takes some away/);
    expect(message).toMatch(/mappings\[0\]\.tools\[0\]: .*Did you mean "lookup"\?/);
    expect(message).toMatch(/mappings\[0\]\.tools\[1\]: .*Did you mean "crm"\?/);
  });

  it("of a mapping that no agent has are a warning", async () => {
    await start(["crm.list_*"], {
      mappings: [{ ...mapping, tools: ["crm.*_all", "crm.delete_*"] }],
    });
    const { warnings } = (await (world as ModelWorld).admin("/readyz?detail")).body;
    expect(warnings).toEqual([
      {
        path: "hooks.mappings[0].tools[1]",
        message: expect.stringMatching(/^no agent has "crm\.delete_\*"/),
      },
    ]);
  });

  it.each([
    ["nothing names for hook runs are a warning", {}, 1],
    ["hooks.tools leaves out on purpose are none", { tools: [] }, 0],
    ["a mapping names are none", { mappings: [{ ...mapping, tools: ["crm.list_*"] }] }, 0],
  ])("that %s", async (_, hooks, count) => {
    await start(["crm.list_*"], hooks);
    const { warnings } = (await (world as ModelWorld).admin("/readyz?detail")).body;
    expect(warnings).toHaveLength(count);
    if (count > 0)
      expect(warnings[0]).toEqual({
        path: "hooks.tools",
        message: expect.stringContaining('as in hooks.tools: ["crm.list_*"]'),
      });
  });

  it("of a preset are refused: it comes from others", async () => {
    const preset = {
      id: "acme",
      version: 1,
      preset: true,
      mappings: [{ ...mapping, tools: ["crm.*"] }],
    };
    const started = createWorld({
      plugins: [definePlugin({ id: "crm", tools: () => tools })],
      files: { "mappings/acme.json": preset },
      config: { hooks: { presets: ["acme"] }, agents: { list: [{ id: "ops", tools: ["crm.*"] }] } },
    });
    await expect(started).rejects.toThrow(
      /tools: the file of a preset names no tools: set `tools` where hooks\.presets uses it, or hooks\.tools/,
    );
  });

  it("of an entry of hooks.presets take the place of hooks.tools for the runs of that preset alone", async () => {
    const files = {
      "mappings/acme.json": { id: "acme", version: 1, preset: true, mappings: [mapping] },
    };
    const presets = [{ use: "acme", tools: ["crm.*", "!crm.lookup"] }];
    await start(["crm.lookup", "crm.list_*"], { tools: ["crm.lookup"], presets }, files);
    expect(await offered("/hooks/shop")).toEqual(["list_open", "list_all"]);
    expect(await offered("/hooks/agent")).toEqual(["lookup"]);
  });

  it("fit as a regular expression of theirs does, and meet if a name fits both", () => {
    const pattern = fc
      .array(fc.constantFrom("a", "b", "*"), { maxLength: 6 })
      .map((signs) => `s.${signs.join("")}`);
    const name = fc
      .array(fc.constantFrom("a", "b"), { maxLength: 8 })
      .map((signs) => `s.${signs.join("")}`);
    const toRegex = (text: string): RegExp =>
      new RegExp(`^${text.replace(".", "\\.").replaceAll(/\*+/g, ".*")}$`);
    fc.assert(
      fc.property(pattern, pattern, name, (one, other, tool) => {
        expect(coversTool([one], tool)).toBe(toRegex(one).test(tool));
        expect(coversTool([one, `!${other}`], tool)).toBe(
          toRegex(one).test(tool) && !toRegex(other).test(tool),
        );
        if (toRegex(one).test(tool) && toRegex(other).test(tool))
          expect(patternsMeet(one, other)).toBe(true);
      }),
    );
    expect([
      patternsMeet("s.a*", "s.*b"),
      patternsMeet("s.a*", "s.b*"),
      patternsMeet("s.ab", "s.a"),
    ]).toEqual([true, false, false]);
  });
});
