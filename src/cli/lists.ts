import type { Command } from "commander";
import { connected } from "./connect.ts";
import type { CliIo } from "./io.ts";
import { reading, type CommonOptions } from "./options.ts";
import { printJson, printTable } from "./print.ts";

async function listAgents(options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, (to) => to.request("agents", "GET", "agents"));
  if (options.json) return printJson(io, answer);
  const rows = answer.agents.map((agent) => [
    agent.id,
    agent.name,
    agent.model,
    agent.thinking ?? "–",
    agent.tools.join(" ") || "–",
    agent.standard ? "yes" : "–",
    agent.description ?? "",
  ]);
  printTable(io, ["AGENT", "NAME", "MODEL", "THINKING", "TOOLS", "MAIN", "DESCRIPTION"], rows);
}

async function listPlugins(options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, (to) => to.request("plugins", "GET", "plugins"));
  if (options.json) return printJson(io, answer);
  const rows = answer.plugins.map((plugin) => [plugin.id, plugin.channel ? "yes" : "–", plugin.configured ? "yes" : "–", plugin.origin]);
  printTable(io, ["PLUGIN", "CHANNEL", "CONFIGURED", "FROM"], rows);
}

export function registerAgents(program: Command, io: CliIo): void {
  const agents = program.command("agents").description("the agents of the config");
  reading(agents.command("list").description("agents with their models and tools"), "rouse agents list").action((options: CommonOptions) =>
    listAgents(options, io),
  );
}

export function registerPlugins(program: Command, io: CliIo): void {
  const plugins = program.command("plugins").description("the plugins that are loaded");
  reading(plugins.command("list").description("plugins and where they come from"), "rouse plugins list").action((options: CommonOptions) =>
    listPlugins(options, io),
  );
}
