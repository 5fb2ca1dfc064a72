import { z } from "zod";
import type { Context } from "hono";
import type { Agent } from "../../agent/types.ts";
import { findAgent, listAllowedAgents } from "./agents.ts";
import { jsonResponse } from "./json.ts";
import { badRequest, ProblemError, unwrapResult } from "./problems.ts";
import { readQuery } from "./read.ts";
import type { PlatformDeps, PlatformEnv } from "./types.ts";

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
  return jsonResponse(c, modelView(unwrapResult(findAgent(c.req.param("id") ?? "", c.get("caller").key, deps.snapshot())), deps));
}

const MAX_LIMIT = 100;
const RANGE = `write a number from 1 to ${MAX_LIMIT}`;
export const agentsQuery = z.object({
  limit: z.coerce.number(RANGE).int(RANGE).min(1, RANGE).max(MAX_LIMIT, RANGE).default(20).describe("How many, at most 100; default 20."),
  after: z.string().optional().describe("The id after which to go on."),
});

const agentView = (agent: Agent, { startedAt }: PlatformDeps) => ({
  id: agent.id,
  object: "agent" as const,
  name: agent.name,
  description: agent.description ?? null,
  model: agent.model,
  capabilities: ["chat", "streaming", "client_tools", "images", ...(agent.tools.length > 0 ? ["tools"] : [])],
  knowledge: agent.knowledge,
  created: seconds(startedAt),
});

/** `GET /v1/agents`: what a key's user may know of them; never instructions, addresses or secrets. */
export function listAgentModels(c: Context<PlatformEnv>, deps: PlatformDeps): Response {
  const { limit, after } = readQuery(c, agentsQuery);
  const agents = listAllowedAgents(c.get("caller").key, deps.snapshot());
  const start = after === undefined ? 0 : agents.findIndex(({ id }) => id === after) + 1;
  if (after !== undefined && start === 0) throw new ProblemError(badRequest("after", "after: there is no agent with this id"));
  const rows = agents.slice(start, start + limit);
  return jsonResponse(c, {
    object: "list",
    data: rows.map((agent) => agentView(agent, deps)),
    has_more: start + rows.length < agents.length,
  });
}
