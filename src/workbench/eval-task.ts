import { ECHO } from "../agent/models.ts";
import type { Agent, ResolvedModel } from "../agent/types.ts";
import { getOfferedTools } from "../approvals/judge.ts";
import type { Thinking } from "../config/schema/common.ts";
import { RouseError } from "../core/errors.ts";
import type { TextPart } from "../core/text.ts";
import type { ToolPatterns } from "../core/tool-names.ts";
import type { Snapshot } from "../intake/types.ts";
import type { KnowledgeSearch } from "../runs/knowledge.ts";
import type { RunSpec } from "../store/types.ts";
import { getEffect } from "./effect.ts";
import type { EvalCase } from "./fixture.ts";
import { readFixtureInput } from "./fixture-run.ts";
import { toPromptParts } from "./recorded-run.ts";

/** What an evaluation changes besides the config. */
export interface EvalChange {
  /** The agent that takes every case. */
  agent?: string | undefined;
  /** The model that answers, in place of that of the agent or the mapping. */
  model?: string | undefined;
  /** Takes the place of the agents' `instructions`. */
  prompt?: string | undefined;
  /** Searches documents as they are now, in place of the recorded searches. */
  documents?: KnowledgeSearch | undefined;
}

/** What an agent is asked in a case, as a run of the config would have it. */
export interface EvalTask {
  agent: Agent;
  model: ResolvedModel;
  input: readonly TextPart[];
  mapping: string | undefined;
  instructions: string | undefined;
  thinking: Thinking | undefined;
  timeoutMs: number;
  unsafe: boolean;
  tools: ToolPatterns;
}

type Asked = Pick<RunSpec, "input" | "unsafe"> &
  Partial<Pick<RunSpec, "instructions" | "thinking" | "timeoutSeconds" | "model">> & {
    agentId: string;
    mapping: string | undefined;
  };

async function readRequest(
  evalCase: EvalCase,
  request: NonNullable<EvalCase["request"]>,
  snapshot: Snapshot,
): Promise<Asked | string> {
  const read = await readFixtureInput({ ...evalCase, request }, snapshot);
  if (!read.ok) return `the mappings reject the request: ${read.reason}`;
  const { outcome, reason, actions } = await getEffect(read.input, snapshot);
  const wanted = evalCase.run.action;
  const found =
    wanted === undefined ? actions.find(({ action }) => action.kind === "run") : actions[wanted];
  const made = `the mappings make no run of the request: the event is ${outcome}${reason === null ? "" : `, ${reason}`}`;
  if (found?.action.kind !== "run") return made;
  const { spec, mapping } = found.action;
  return { ...spec, agentId: spec.session.agentId, mapping };
}

function readPrompt({ run }: EvalCase, { agents }: Snapshot): Asked {
  const { prompt = "", agent = agents.default.id, mapping, instructions, thinking } = run;
  return {
    input: toPromptParts(prompt),
    unsafe: false,
    agentId: agent,
    mapping,
    ...(instructions !== undefined && { instructions }),
    ...(thinking !== undefined && { thinking }),
  };
}

/**
 * Finds the agent of an evaluation.
 * @throws RouseError `usage` if the config has none of the id.
 */
export function checkAgentName(id: string, { agents }: Snapshot): void {
  if (agents.get(id)) return;
  const known = agents.list.map((agent) => agent.id).join(", ");
  throw new RouseError({
    code: "usage",
    message: `--agent ${id}: the config has no such agent; it has ${known}`,
  });
}

/**
 * Resolves a model of an evaluation.
 * @throws RouseError `usage` if there is none of the name, or if it is the built-in echo.
 */
export function resolveEvalModel(
  name: string,
  option: string,
  { models }: Snapshot,
): ResolvedModel {
  const found = models.resolve(name);
  if (!found.ok)
    throw new RouseError({ code: "usage", message: `${option} ${name}: ${found.message}` });
  if (found.model.ref !== ECHO.ref) return found.model;
  throw new RouseError({
    code: "config_invalid",
    message: "the config names no model: the built-in echo cannot be evaluated",
    issues: [
      {
        path: "agents.defaults.model",
        message: "name a model of models.providers, such as openai/gpt-5",
      },
    ],
  });
}

/**
 * Makes what an agent is asked in a case. A text says why there is nothing to ask.
 * @throws RouseError if the model does not exist or is the built-in echo.
 */
export async function buildTask(
  evalCase: EvalCase,
  snapshot: Snapshot,
  change: EvalChange,
): Promise<EvalTask | string> {
  const { request } = evalCase;
  const asked = request
    ? await readRequest(evalCase, request, snapshot)
    : readPrompt(evalCase, snapshot);
  if (typeof asked === "string") return asked;
  const { config, agents, models } = snapshot;
  const own = agents.get(change.agent ?? asked.agentId);
  if (!own) return `the config has no agent ${change.agent ?? asked.agentId}`;
  const agent = change.prompt === undefined ? own : { ...own, instructions: change.prompt };
  const name = change.model ?? asked.model ?? agent.model;
  const model = resolveEvalModel(
    name,
    change.model === undefined ? "the model" : "--model",
    snapshot,
  );
  const { fallbacks } = agent;
  const withFallbacks =
    name === agent.model && fallbacks ? models.resolve(name, fallbacks) : undefined;
  const { mapping } = asked;
  const kind = request || mapping !== undefined ? "hook" : "api";
  return {
    agent,
    model: withFallbacks?.ok ? withFallbacks.model : model,
    input: asked.input,
    mapping,
    instructions: asked.instructions,
    thinking: asked.thinking ?? agent.thinking,
    timeoutMs: (asked.timeoutSeconds ?? config.agents.defaults.timeoutSeconds) * 1000,
    unsafe: asked.unsafe,
    tools: getOfferedTools({ agent, config, mapping: snapshot.getToolRules(mapping), kind }),
  };
}
