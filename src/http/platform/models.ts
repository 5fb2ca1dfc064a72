import { toSeconds } from "../../core/clock.ts";
import type { Agent } from "../../agent/types.ts";
import type { Snapshot } from "../../intake/types.ts";
import { findAgent, listAllowedAgents } from "../../chat/api-keys.ts";
import { z } from "zod";
import type { HttpContext } from "../context.ts";
import { agentsAnswer, modelAnswer, modelsAnswer } from "./answer-schemas.ts";
import { noSuchModel } from "./problems.ts";
import { type ApiRoutes, defineRoute, toList } from "./types.ts";

const modelView = ({ id }: Agent, { progress }: HttpContext) => ({
  id,
  object: "model" as const,
  created: toSeconds(progress.startedAt),
  owned_by: "rouse",
});

/** True if the model that an agent asks first can be given images. */
function hasImages({ model }: Agent, { config }: Snapshot): boolean {
  const [provider = "", ...name] = model.split("/");
  const images = config.models.providers[provider]?.images ?? true;
  return typeof images === "boolean" ? images : images.includes(name.join("/"));
}

const agentView = (agent: Agent, { progress, snapshot }: HttpContext) => ({
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
  created: toSeconds(progress.startedAt),
});

export const PAGE_RANGE = "write a number from 1 to 100";
/** The number of rows of a list. */
export const pageSize = z.coerce
  .number(PAGE_RANGE)
  .int(PAGE_RANGE)
  .min(1, PAGE_RANGE)
  .max(100, PAGE_RANGE)
  .default(20)
  .describe("How many, at most 100; default 20.");

/** Which agents there are: what a key's user may know of them, never instructions, addresses or secrets. */
export const AGENT_ROUTES: ApiRoutes = {
  "/models": {
    GET: defineRoute({
      scope: "agents:read",
      operationId: "listModels",
      summary: "The agents that this key may use, as models",
      answer: modelsAnswer,
      handle: ({ key }, deps) => ({
        object: "list",
        data: listAllowedAgents(key, deps.snapshot().agents).map((agent) => modelView(agent, deps)),
      }),
    }),
  },
  "/models/:id": {
    GET: defineRoute({
      scope: "agents:read",
      operationId: "showModel",
      summary: "One of them",
      answer: modelAnswer,
      handle({ key, id }, deps) {
        const agent = findAgent(id, key, deps.snapshot().agents);
        if (!agent) throw noSuchModel();
        return modelView(agent, deps);
      },
    }),
  },
  "/agents": {
    GET: defineRoute({
      scope: "agents:read",
      operationId: "listAgents",
      summary: "The agents that this key may use",
      answer: agentsAnswer,
      handle: ({ key }, deps) =>
        toList(
          listAllowedAgents(key, deps.snapshot().agents).map((agent) => agentView(agent, deps)),
        ),
    }),
  },
};
