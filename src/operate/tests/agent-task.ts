import { ECHO } from "../../agent/models.ts";
import type { Agent, ResolvedModel, TurnInput } from "../../agent/types.ts";
import { getOfferedTools } from "../../people/judge.ts";
import { RouseError } from "../../core/errors.ts";
import { plainText } from "../../core/text.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { HookSpec } from "../../store/types.ts";
import { getEffect } from "../../intake/resolve.ts";
import { refuse } from "../records/operation.ts";
import { isFixture, type AgentCase, type Fixture } from "./fixture.ts";
import { readFixtureInput } from "./fixture-run.ts";
import { toPromptParts } from "./recorded-run.ts";

/** The task that a fixture gives to an agent, as a run of the config would have it. */
export type AgentTask = Omit<TurnInput, "agent" | "signal" | "info"> & { agent: Agent };

interface Asked
  extends
    Pick<HookSpec, "input" | "unsafe">,
    Partial<Pick<HookSpec, "instructions" | "thinking" | "timeoutSeconds" | "model">> {
  agentId: string;
  mapping: string | undefined;
}

async function readRequest(
  fixture: Fixture & AgentCase,
  snapshot: Snapshot,
): Promise<Asked | string> {
  const read = await readFixtureInput(fixture, snapshot);
  if (!read.ok) return `the mappings reject the request: ${read.reason}`;
  const { outcome, reason, actions } = await getEffect(read.input, snapshot);
  const wanted = fixture.run.action;
  const found =
    wanted === undefined ? actions.find(({ action }) => action.kind === "run") : actions[wanted];
  const made = `the mappings make no run of the request: the event is ${outcome}${reason === null ? "" : `, ${reason}`}`;
  if (found?.action.kind !== "run") return made;
  const { spec, mapping } = found.action;
  return { ...spec, agentId: spec.session.agentId, mapping };
}

function readPrompt({ run }: AgentCase, { agents }: Snapshot): Asked {
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
 * Resolves a model of a test.
 * @throws RouseError `usage` if there is none of the name, `config_invalid` if it is the built-in echo.
 */
export function resolveTestModel(name: string, { models }: Snapshot): ResolvedModel {
  const found = models.resolve(name);
  if (!found.ok) return refuse(`the model ${name}: ${found.message}`);
  if (found.model.ref !== ECHO.ref) return found.model;
  throw new RouseError({
    code: "config_invalid",
    message: "the config names no model: the built-in echo cannot be tested",
    issues: [
      {
        path: "agents.defaults.model",
        message: "name a model of models.providers, such as openai/gpt-5",
      },
    ],
  });
}

/**
 * Makes what an agent is asked in a fixture. A text says why there is nothing to ask.
 * @throws RouseError if the model does not exist or is the built-in echo.
 */
export async function buildTask(
  fixture: AgentCase,
  snapshot: Snapshot,
): Promise<AgentTask | string> {
  const asked = isFixture(fixture)
    ? await readRequest(fixture, snapshot)
    : readPrompt(fixture, snapshot);
  if (typeof asked === "string") return asked;
  const { config, agents, models } = snapshot;
  const agent = agents.get(asked.agentId);
  if (!agent) return `the config has no agent ${asked.agentId}`;
  const name = asked.model ?? agent.model;
  const model = resolveTestModel(name, snapshot);
  const { fallbacks } = agent;
  const withFallbacks =
    name === agent.model && fallbacks ? models.resolve(name, fallbacks) : undefined;
  const { mapping, input, unsafe, instructions, thinking = agent.thinking } = asked;
  const rules = mapping === undefined ? {} : (snapshot.mappings.settings(mapping) ?? {});
  const kind = fixture.request || mapping !== undefined ? "hook" : "api";
  return {
    agent,
    model: withFallbacks?.ok ? withFallbacks.model : model,
    input,
    question: plainText(input),
    history: [],
    // Context providers of plugins may ask other services.
    isPlain: true,
    ...(mapping === undefined ? { source: "user" } : { hook: mapping }),
    ...(instructions !== undefined && { instructions }),
    ...(thinking !== undefined && { thinking }),
    timeoutMs: (asked.timeoutSeconds ?? config.agents.defaults.timeoutSeconds) * 1000,
    unsafe,
    tools: getOfferedTools({ agent, config, mapping: rules, kind }),
  };
}
