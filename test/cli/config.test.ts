import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createCli, TOKEN, type CliWorld } from "./world.ts";

let cli: CliWorld;
beforeEach(async () => {
  cli = await createCli();
});
afterEach(() => cli.close());

describe("config validate", () => {
  it("prints all problems together, of whatever kind, with file, line and column", async () => {
    await mkdir(join(cli.dir, "mappings"));
    await cli.write(
      "mappings/ci.json",
      '{\n  "id": "ci",\n  "mappings": [\n    { "match": { "path": "ci" }, "messageTemplate": "{{ a( }}" }\n  ]\n}\n',
    );
    await cli.write("mappings/torn.json", '{ "id": "torn",\n  "mappings": [ }');
    await cli.write(
      "rouse.json5",
      `{
  // a comment with { in it
  gateway: { prot: 1, token: "\${NOT_SET}" },
  hooks: {
    enabled: true,
    token: { file: "gone" },
    presets: [
      { use: "github", agentId: "nobody" },
    ],
    mappings: [
      { id: "typo", match: { path: "a" }, messageTemplat: "x" },
      {
        id: "broken",
        match: { path: "b", when: "payload.a = (" },
        transform: { module: "missing.ts" },
      },
      { id: "n8n", match: { path: "n" }, messageTemplate: "{{ $json.body.title }}" },
      { id: "operator", match: { path: "c", payload: { n: { $gt: 1, $lessThan: 2 } } }, messageTemplate: "x" },
    ],
  },
  channels: { telegram: { allowFrm: [] } },
}
`,
    );
    const { code, out, err } = await cli.rouse("config validate");
    expect([code, out]).toEqual([3, ""]);
    const all = err.trimEnd().split("\n");
    // An expression is shown with the place of its error, below the problem.
    expect(err).toContain(`(S0203)\n    payload.a = (\n${" ".repeat(17)}^\n`);
    const lines = all.filter((line) => !line.startsWith("    "));
    const expected = [
      /^rouse\.json5:3:14 {2}gateway\.prot: is not known\. Did you mean "port"\?/,
      /^rouse\.json5:3:23 {2}gateway\.token: .*NOT_SET/,
      /^rouse\.json5:6:5 {2}hooks\.token: there is no file \S+;/,
      /^rouse\.json5:8:24 {2}hooks\.presets\[0\]\.agentId: names no agent/,
      /^rouse\.json5:11:43 {2}hooks\.mappings\[0\]\.messageTemplat: is not known\. Did you mean "messageTemplate"\?/,
      /^rouse\.json5:14:29 {2}hooks\.mappings\[1\]\.match\.when: is not valid JSONata at line 1, column 14: Expected "\)" before end of expression \(S0203\)$/,
      /^rouse\.json5:15:22 {2}hooks\.mappings\[1\]\.transform\.module: .*missing\.ts|not/,
      /^rouse\.json5:17:42 {2}hooks\.mappings\[2\]\.messageTemplate: \{\{ \$json\.body\.title \}\}: there is no variable \$json\. Write `payload`/,
      /^rouse\.json5:18:\d+ {2}hooks\.mappings\[3\]\.match\.payload\.n\.\$lessThan: is no operator/,
      /^rouse\.json5:21:27 {2}channels\.telegram\.allowFrm: is not known\. Did you mean "allowFrom"\?/,
      /^mappings\/ci\.json:4:34 {2}mappings\[0\]\.messageTemplate: .*JSONata/,
      /^mappings\/torn\.json:2:17 {2}is not valid JSON5/,
    ];
    for (const one of expected)
      expect(lines).toEqual(expect.arrayContaining([expect.stringMatching(one)]));
    for (const line of lines)
      expect(line).toMatch(/^(?:rouse\.json5|mappings\/\w+\.json):\d+:\d+ {2}/);
    expect(lines.filter((line) => line.includes("names no agent"))).toHaveLength(1);
    // A problem that only follows from a misspelled field is not reported.
    expect(err).not.toContain("hooks.mappings[0].messageTemplate:");
    expect(
      lines.filter((line) => line.includes("gateway.token") || line.includes("hooks.token")),
    ).toHaveLength(2);
    const json = await cli.json<{
      issues: object[];
    }>("config validate");
    expect(json.issues).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          path: "hooks.mappings[1].match.when",
          file: join(cli.dir, "rouse.json5"),
          line: 14,
          column: 29,
        }),
      ]),
    );
  });

  it.each<[name: string, text: string, wanted: string[]]>([
    [
      "an agent without an id",
      '{ agents: { list: [{ name: "x" }, { id: "b" }] }, hooks: { allowedAgentIds: ["b", "c"] } }',
      ["agents.list[0].id", "hooks.allowedAgentIds[1]"],
    ],
    [
      "an entry that is no mapping",
      '{ hooks: { mappings: ["x", { match: { path: "wake" }, messageTemplate: "x" }] } }',
      ["hooks.mappings[0]", "hooks.mappings[1].match.path"],
    ],
    [
      "a provider of no known type",
      '{ models: { providers: { p: { type: "q" } } }, agents: { defaults: { model: "p/x" } } }',
      ["models.providers.p.type"],
    ],
    ["a section that is none", "{ hooks: [], gateway: { host: 1 } }", ["hooks", "gateway.host"]],
    ["a file that holds no object", "[]", [""]],
  ])("names the problem alone: %s", async (_name, text, wanted) => {
    await cli.write("rouse.json5", text);
    const { issues } = await cli.json<{
      issues: { path: string }[];
    }>("config validate");
    expect(issues.map(({ path }) => path).toSorted()).toEqual(wanted.toSorted());
  });

  it("says where a warning stands, and that a good config is fine", async () => {
    await cli.write(
      "rouse.json5",
      `{\n  hooks: {\n    enabled: true, token: "${TOKEN}",\n    tools: ["town.*"],\n  },\n  mcp: { servers: { town: { command: "true" } } },\n}`,
    );
    const { code, out } = await cli.rouse("config validate");
    expect([code, out]).toEqual([
      0,
      expect.stringMatching(/warning: rouse\.json5:4:13 {2}hooks\.tools\[0\]: no agent has/),
    ]);
  });

  it("shows the same form on every command that reads the config", async () => {
    await cli.write("rouse.json5", "{\n  gatway: {} }");
    for (const command of [["agents"], ["config"], ["start"]]) {
      const { code, err } = await cli.rouse(command);
      expect([command, code, err]).toEqual([
        command,
        3,
        expect.stringContaining("rouse.json5:2:3  gatway: is not known."),
      ]);
    }
  });
});
