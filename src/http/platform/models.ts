import { z } from "zod";
import type { Context } from "hono";
import type { Agent } from "../../agent/types.ts";
import { agentOf, agentsOf } from "./agents.ts";
import { json } from "./json.ts";
import { badRequest, problemResponse } from "./problems.ts";
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
  const agents = agentsOf(c.get("caller").key, deps.snapshot());
  return json(c, { object: "list", data: agents.map((agent) => modelView(agent, deps)) });
}

/** `GET /v1/models/{id}` */
export function showModel(c: Context<PlatformEnv>, deps: PlatformDeps): Response {
  const { key, requestId } = c.get("caller");
  const agent = agentOf(c.req.param("id") ?? "", key, deps.snapshot());
  return agent.ok ? json(c, modelView(agent.value, deps)) : problemResponse(agent.problem, requestId);
}

const MAX_LIMIT = 100;
const RANGE = `write a number from 1 to ${MAX_LIMIT}`;
const page = z.object({
  limit: z.coerce.number(RANGE).int(RANGE).min(1, RANGE).max(MAX_LIMIT, RANGE).default(20),
  after: z.string().optional(),
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
export function listAgents(c: Context<PlatformEnv>, deps: PlatformDeps): Response {
  const { key, requestId } = c.get("caller");
  const query = page.safeParse(c.req.query());
  if (!query.success) {
    const issue = query.error.issues[0];
    const param = String(issue?.path[0] ?? "limit");
    return problemResponse(badRequest(param, `${param}: ${issue?.message ?? RANGE}`), requestId);
  }
  const { limit, after } = query.data;
  const agents = agentsOf(key, deps.snapshot());
  const start = after === undefined ? 0 : agents.findIndex(({ id }) => id === after) + 1;
  if (after !== undefined && start === 0) return problemResponse(badRequest("after", "after: there is no agent with this id"), requestId);
  const rows = agents.slice(start, start + limit);
  return json(c, { object: "list", data: rows.map((agent) => agentView(agent, deps)), has_more: start + rows.length < agents.length });
}
