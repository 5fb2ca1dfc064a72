import type { Command } from "commander";
import { connected, read } from "./connect.ts";
import type { CliIo } from "./io.ts";
import { reading, type CommonOptions } from "./options.ts";
import { printJson, printTable } from "./print.ts";

async function listAgents(options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, ({ api }) => read(api.agents.$get()));
  if (options.json) return printJson(io, answer);
  const { agents } = answer;
  const rows = agents.map((agent) => [
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

export function register(program: Command, io: CliIo): void {
  const agents = program.command("agents").description("the agents of the config");
  reading(
    agents.command("list").description("agents with their models and tools"),
    "rouse agents list",
  ).action((options: CommonOptions) => listAgents(options, io));
}
