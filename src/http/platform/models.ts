import type { Agent } from "../../agent/types.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { ApiKey } from "../../chat/api-keys.ts";
import { type ApiProblem, badRequest, ProblemError } from "./problems.ts";
import { z } from "zod";
import type { Context } from "hono";
import { readQuery } from "./read.ts";
import { jsonResponse, type PlatformDeps, type PlatformEnv } from "./types.ts";

/** The agents that a key may use, in the config's order. */
export function listAllowedAgents(key: ApiKey, { agents }: Snapshot): readonly Agent[] {
  return agents.list.filter(({ id }) => key.agents?.includes(id) ?? true);
}

const unknown: ApiProblem = {
  status: 404,
  type: "invalid_request_error",
  code: "model_not_found",
  param: "model",
  message: "there is no such model for this key; `GET /v1/models` lists those there are",
};

/**
 * The agent that `model` names: its id, `agent:<id>`, or `default`. One that the key may not use is not there.
 * @throws ProblemError if there is none.
 */
export function findAgent(name: string, key: ApiKey, snapshot: Snapshot): Agent {
  const allowed = listAllowedAgents(key, snapshot);
  const named =
    allowed.find(({ id }) => id === name) ?? allowed.find(({ id }) => `agent:${id}` === name);
  const { default: first } = snapshot.agents;
  const agent =
    named ??
    (name === "default" ? (allowed.find(({ id }) => id === first.id) ?? allowed[0]) : undefined);
  if (!agent) throw new ProblemError(unknown);
  return agent;
}

const seconds = (ms: number): number => Math.floor(ms / 1000);

const modelView = ({ id }: Agent, { startedAt }: PlatformDeps) => ({
  id,
  object: "model" as const,
  created: seconds(startedAt),
  owned_by: "rouse",
});

/** `GET /v1/models` */
export function listModels(c: Context<PlatformEnv>, deps: PlatformDeps): Response {
  const agents = listAllowedAgents(c.get("caller").key, deps.snapshot());
  return jsonResponse(c, { object: "list", data: agents.map((agent) => modelView(agent, deps)) });
}

/** `GET /v1/models/{id}` */
export function showModel(c: Context<PlatformEnv>, deps: PlatformDeps): Response {
  return jsonResponse(
    c,
    modelView(findAgent(c.req.param("id") ?? "", c.get("caller").key, deps.snapshot()), deps),
  );
}

const MAX_LIMIT = 100;
const RANGE = `write a number from 1 to ${MAX_LIMIT}`;
export const agentsQuery = z.object({
  limit: z.coerce
    .number(RANGE)
    .int(RANGE)
    .min(1, RANGE)
    .max(MAX_LIMIT, RANGE)
    .default(20)
    .describe("How many, at most 100; default 20."),
  after: z.string().optional().describe("The id after which to go on."),
});

/** Whether the model that an agent asks first can be given images. */
function hasImages({ model }: Agent, { config }: Snapshot): boolean {
  const [provider = "", ...name] = model.split("/");
  const images = config.models.providers[provider]?.images ?? true;
  return typeof images === "boolean" ? images : images.includes(name.join("/"));
}

const agentView = (agent: Agent, { startedAt, snapshot }: PlatformDeps) => ({
  id: agent.id,
  object: "agent" as const,
  name: agent.name,
  description: agent.description ?? null,
  model: agent.model,
  capabilities: [
    "chat",
    "streaming",
    "client_tools",
    ...(hasImages(agent, snapshot()) ? ["images"] : []),
    ...(agent.tools.length > 0 ? ["tools"] : []),
  ],
  knowledge: agent.knowledge,
  created: seconds(startedAt),
});

/** `GET /v1/agents`: what a key's user may know of them; never instructions, addresses or secrets. */
export function listAgentModels(c: Context<PlatformEnv>, deps: PlatformDeps): Response {
  const { limit, after } = readQuery(c, agentsQuery);
  const agents = listAllowedAgents(c.get("caller").key, deps.snapshot());
  const start = after === undefined ? 0 : agents.findIndex(({ id }) => id === after) + 1;
  if (after !== undefined && start === 0)
    throw new ProblemError(badRequest("after", "after: there is no agent with this id"));
  const rows = agents.slice(start, start + limit);
  return jsonResponse(c, {
    object: "list",
    data: rows.map((agent) => agentView(agent, deps)),
    has_more: start + rows.length < agents.length,
  });
}
