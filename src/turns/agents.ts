import { getRoom } from "../agent/messages.ts";
import type { Agent, Models } from "../agent/types.ts";
import type { ModelChoice } from "../config/schema/agents.ts";
import type { AgentConfig, Config } from "../config/schema/index.ts";
import type { Agents } from "./types.ts";

function toModelNames(choice: ModelChoice): Pick<Agent, "model" | "fallbacks"> {
  if (typeof choice === "string") return { model: choice };
  return {
    model: choice.primary,
    ...(choice.fallbacks.length > 0 && { fallbacks: choice.fallbacks }),
  };
}

/**
 * Returns the heartbeat of an agent: its own settings, then those of the defaults. An agent that says nothing of heartbeats, and
 * is not the first, has no instructions for them, so that it asks its model only if system events wait.
 */
function getHeartbeat({ agents: { defaults, list } }: Config, agentId: string): Agent["heartbeat"] {
  const own = list.find(({ id }) => id === agentId)?.heartbeat as
    | Partial<Agent["heartbeat"]>
    | undefined;
  const isFirst = list.length === 0 || list[0]?.id === agentId;
  const { instructions, ...rest } = defaults.heartbeat;
  const common = instructions !== undefined && (isFirst || own) ? { ...rest, instructions } : rest;
  return { ...common, ...own };
}

const IMPLICIT: AgentConfig = { id: "main", tools: [], knowledge: "tool", schedules: [] };

function toAgent(entry: AgentConfig, config: Config, models: Models): Agent {
  const { defaults } = config.agents;
  const { id, tools, knowledge, name = id, description, instructions } = entry;
  const { thinking = defaults.thinking, approve = defaults.approve } = entry;
  const names = toModelNames(entry.model ?? defaults.model ?? models.default.ref);
  const resolved = models.resolve(names.model, names.fallbacks);
  const window = models.getWindow(resolved.ok ? resolved.model : undefined);
  const agent = {
    id,
    tools,
    knowledge,
    approve,
    name,
    ...names,
    resolved,
    heartbeat: getHeartbeat(config, id),
    ...(thinking ? { thinking } : {}),
    ...(description ? { description } : {}),
    ...(instructions ? { instructions } : {}),
  };
  return { ...agent, room: getRoom(window, { agent }) };
}

/** The agents of a config; if it lists none, an implicit `main`. */
export function createAgents(config: Config, models: Models): Agents {
  const { list } = config.agents;
  const agents = (list.length > 0 ? list : [IMPLICIT]).map((agent) =>
    toAgent(agent, config, models),
  );
  const byId = new Map(agents.map((agent) => [agent.id, agent]));
  return { list: agents, default: agents[0] as Agent, get: byId.get.bind(byId) };
}
