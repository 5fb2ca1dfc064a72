import { ask, h, state, table, time } from "./dom.js";

const MCP_COLUMNS = [
  ["name", (row) => row.name],
  ["state", (row) => state(row.state)],
  ["tools", (row) => row.tools],
  ["connected since", (row) => time(toIso(row.since))],
  ["last problem", (row) => row.error ?? "–"],
  ["next try", (row) => time(toIso(row.nextTryAt))],
];

const BREAKER_COLUMNS = [
  ["model or channel", (row) => row.of],
  ["state", (row) => state(row.state)],
  ["away since", (row) => time(row.since)],
  ["next test", (row) => time(row.nextTest)],
  ["waiting", (row) => row.waiting],
  ["calls at the same time", (row) => `${row.running}${row.limit === null ? "" : ` of ${row.limit}`}`],
];

const toIso = (ms) => (ms === undefined ? undefined : new Date(ms).toISOString());

async function showSystem() {
  const [{ agents }, { channels }, { plugins }, { mappings }, { status }] = await Promise.all(
    ["agents", "channels", "plugins", "mappings", "status"].map((name) => ask(`/${name}`)),
  );
  return [
    h("h2", {}, "Agents"),
    table(
      agents,
      [
        ["id", (row) => row.id],
        ["name", (row) => row.name],
        ["model", (row) => row.model],
        ["tools", (row) => row.tools.join(", ")],
      ],
      "None.",
    ),
    h("h2", {}, "Channels"),
    table(
      channels,
      [
        ["name", (row) => row.name],
        ["configured", (row) => (row.loaded ? "yes" : "no")],
        ["default recipient", (row) => row.defaultTo ?? "–"],
      ],
      "None.",
    ),
    h("h2", {}, "Breakers"),
    table(status.breakers, BREAKER_COLUMNS, "No model and no channel is away."),
    h("h2", {}, "MCP servers"),
    table(status.mcpServers, MCP_COLUMNS, "None."),
    h("h2", {}, "Mappings"),
    table(
      mappings,
      [
        ["id", (row) => row.id],
        ["from", (row) => row.origin],
        ["paths", (row) => row.paths.join(", ")],
        ["action", (row) => row.action],
      ],
      "None.",
    ),
    h("h2", {}, "Plugins"),
    table(
      plugins,
      [
        ["id", (row) => row.id],
        ["from", (row) => row.origin],
        ["configured", (row) => (row.configured ? "yes" : "no")],
      ],
      "None.",
    ),
  ];
}

export const system = { title: "System", show: showSystem };
