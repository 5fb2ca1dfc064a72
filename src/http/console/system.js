import { ask, h, state, table, time } from "./dom.js";

const MCP_COLUMNS = [
  ["name", (row) => row.name],
  ["state", (row) => state(row.state)],
  ["tools", (row) => row.tools],
  ["connected since", (row) => time(toIso(row.since))],
  ["last problem", (row) => row.error ?? "–"],
  ["next try", (row) => time(toIso(row.nextTryAt))],
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
