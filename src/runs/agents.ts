import type { Agent } from "../agent/types.ts";
import type { Config } from "../config/schema/index.ts";
import type { ModelChoice } from "../config/schema/agents.ts";
import type { Agents } from "./types.ts";

function toModelNames(choice: ModelChoice): Pick<Agent, "model" | "fallbacks"> {
  if (typeof choice === "string") return { model: choice };
  return {
    model: choice.primary,
    ...(choice.fallbacks.length > 0 && { fallbacks: choice.fallbacks }),
  };
}

/** The agents of a config, with their defaults resolved; if it lists none, an implicit `main`. */
export function createAgents(config: Config, defaultModel: string): Agents {
  const { defaults, list } = config.agents;
  const entries: typeof list =
    list.length > 0 ? list : [{ id: "main", tools: [], knowledge: "tool", schedules: [] }];
  const agents = entries.map(
    ({
      id,
      tools,
      knowledge,
      name,
      model,
      thinking = defaults.thinking,
      approve = defaults.approve,
      description,
      instructions,
    }): Agent => ({
      id,
      tools,
      knowledge,
      approve,
      name: name ?? id,
      ...toModelNames(model ?? defaults.model ?? defaultModel),
      ...(thinking ? { thinking } : {}),
      ...(description ? { description } : {}),
      ...(instructions ? { instructions } : {}),
    }),
  );
  const byId = new Map(agents.map((agent) => [agent.id, agent]));
  return { list: agents, default: agents[0] as Agent, get: (id) => byId.get(id) };
}
