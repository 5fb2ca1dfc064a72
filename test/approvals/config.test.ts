import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { checkSnapshot } from "../../src/gateway/validate-config.ts";
import { SYSTEM } from "../../src/cli/io.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "rouse-approvals-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const MCP = {
  servers: { bank: { url: "http://127.0.0.1:1/mcp" }, shop: { url: "http://127.0.0.1:1/mcp" } },
};
const TELEGRAM = {
  telegram: { token: "1:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", allowFrom: ["42"] },
};

/** The issues and warnings that a gateway would report for the config at its start. */
async function check(
  config: object,
): Promise<{ issues: Record<string, string>; warnings: Record<string, string> }> {
  writeFileSync(
    join(dir, "rouse.json5"),
    JSON.stringify({ mcp: MCP, hooks: { enabled: true, token: "0123456789abcdef" }, ...config }),
  );
  const found = await checkSnapshot({ cwd: dir, env: {}, ...SYSTEM });
  const byPath = (list: readonly { path: string; message: string }[]) =>
    Object.fromEntries(list.map(({ path, message }) => [path, message]));
  return found.ok
    ? { issues: {}, warnings: byPath(found.warnings) }
    : { issues: byPath(found.issues), warnings: {} };
}

it("a config names calls that wait by agent, by mapping and by preset", async () => {
  const { issues } = await check({
    tools: { untrusted: "withhold", approvers: ["operator", "telegram:42"], approvalTimeout: "3d" },
    channels: TELEGRAM,
    agents: {
      defaults: { approve: ["*:destructive"] },
      list: [
        { id: "main", tools: ["bank.*"], approve: ["bank.*", "!bank.balance", "shop.*:changing"] },
      ],
    },
    hooks: {
      enabled: true,
      token: "0123456789abcdef",
      presets: [{ use: "grafana", auth: "token", tools: ["bank.balance"], approve: ["bank.*"] }],
      mappings: [{ match: { path: "x" }, messageTemplate: "x", tools: ["bank.*"], approve: ["*"] }],
    },
  });
  expect(issues).toEqual({});
});

it("approvals: an entry that names no tool is a problem of the config, with its path", async () => {
  const { issues } = await check({
    agents: {
      defaults: { approve: ["bnak.*"] },
      list: [{ id: "main", approve: ["*:destuctive", "bank"] }],
    },
    hooks: {
      enabled: true,
      token: "0123456789abcdef",
      mappings: [
        {
          match: { path: "x" },
          messageTemplate: "x",
          tools: ["shopp.*"],
          approve: ["bank.*", "shpo.*:changing"],
        },
      ],
    },
  });
  expect(Object.keys(issues).toSorted()).toEqual([
    "agents.defaults.approve[0]",
    "agents.list[0].approve[0]",
    "agents.list[0].approve[1]",
    "hooks.mappings[0].approve[1]",
    "hooks.mappings[0].tools[0]",
  ]);
  expect(issues["agents.defaults.approve[0]"]).toContain('Did you mean "bank"?');
  expect(issues["agents.list[0].approve[0]"]).toContain(
    '":destuctive" is none of ":changing" and ":destructive". Did you mean "destructive"?',
  );
  expect(issues["hooks.mappings[0].tools[0]"]).toContain('Did you mean "shop"?');
});

it("approvers: an unknown approver is a problem of the config, one who cannot decide is a warning", async () => {
  expect(
    (await check({ tools: { approvers: ["opertor", "telegrm:42", "api:", "nobody"] } })).issues,
  ).toEqual({
    "tools.approvers[0]": expect.stringContaining('Did you mean "operator"?'),
    "tools.approvers[1]": expect.stringContaining('Did you mean "telegram"?'),
    "tools.approvers[2]": expect.stringContaining("names no key"),
    "tools.approvers[3]": expect.stringContaining(
      'write "operator", "api:<key id>" or "<channel>:<id of the person>"',
    ),
  });
  expect((await check({ tools: { approvers: [] } })).issues["tools.approvers"]).toContain(
    'name at least one, such as "operator"',
  );
  const { warnings } = await check({
    tools: { approvers: ["telegram:43", "slack:U1", "api:wbe", "telegram:42", "api:web"] },
    channels: TELEGRAM,
    platform: { apiKeys: [{ id: "web", key: "0123456789abcdef0" }] },
  });
  expect(warnings["tools.approvers[0]"]).toContain("is not in allowFrom of channels.telegram");
  expect(warnings["tools.approvers[1]"]).toContain("is not configured");
  expect(warnings["tools.approvers[2]"]).toContain('Did you mean "web"?');
  expect(Object.keys(warnings).filter((path) => path.startsWith("tools."))).toHaveLength(3);
});

it.each([
  [{ approvalTimeout: "soon" }, "tools.approvalTimeout"],
  [{ untrusted: "maybe" }, "tools.untrusted"],
  [{ aprovers: ["operator"] }, "tools.aprovers"],
])("approvals: the config %j is a problem", async (tools, path) => {
  expect(Object.keys((await check({ tools })).issues)).toEqual([path]);
});
