import type { Agent } from "../../agent/types.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { ApiKey } from "../../chat/api-keys.ts";
import type { ApiProblem, Result } from "./problems.ts";

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

/** The agent that `model` names: its id, `agent:<id>`, or `default`. One that the key may not use is not there. */
export function findAgent(name: string, key: ApiKey, snapshot: Snapshot): Result<Agent> {
  const allowed = listAllowedAgents(key, snapshot);
  const named = allowed.find(({ id }) => id === name) ?? allowed.find(({ id }) => `agent:${id}` === name);
  const { default: first } = snapshot.agents;
  const agent = named ?? (name === "default" ? (allowed.find(({ id }) => id === first.id) ?? allowed[0]) : undefined);
  return agent ? { ok: true, value: agent } : { ok: false, problem: unknown };
}
