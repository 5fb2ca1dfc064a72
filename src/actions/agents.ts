import type { Agent } from "../agent/types.ts";
import type { Config } from "../config/schema/index.ts";
import type { Agents } from "./types.ts";

/** The agents of a config, with their defaults resolved; where it lists none, an implicit `main`. */
export function createAgents(config: Config, standardModel: string): Agents {
  const { defaults, list } = config.agents;
  const entries = list.length > 0 ? list : [{ id: "main", tools: [], knowledge: "tool" as const }];
  const agents = entries.map((entry): Agent => {
    const agent: Agent = {
      id: entry.id,
      name: ("name" in entry ? entry.name : undefined) ?? entry.id,
      model: ("model" in entry ? entry.model : undefined) ?? defaults.model ?? standardModel,
      tools: entry.tools,
      knowledge: entry.knowledge,
    };
    const thinking = ("thinking" in entry ? entry.thinking : undefined) ?? defaults.thinking;
    if (thinking) agent.thinking = thinking;
    if ("description" in entry && entry.description) agent.description = entry.description;
    if ("instructions" in entry && entry.instructions) agent.instructions = entry.instructions;
    return agent;
  });
  const byId = new Map(agents.map((agent) => [agent.id, agent]));
  const standard = agents[0] as Agent;
  return { list: agents, standard, get: (id) => byId.get(id) };
}
