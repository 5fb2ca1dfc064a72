import { allowedTools } from "../agent/tools.ts";
import type { Agent, ResolvedModel, TurnInput, TurnResult } from "../agent/types.ts";
import { OPERATOR_TENANT } from "../config/checks.ts";
import { plainText } from "../core/text.ts";
import type { RunRecord } from "../store/types.ts";
import { gatherKnowledge, type Passage } from "./knowledge.ts";
import type { ActionContext, TurnDeps } from "./types.ts";

/** A turn that has an answer, and the passages that the model was given for it. */
export type AnsweredTurn = Extract<TurnResult, { ok: true }> & { citations: readonly Passage[] };
export type ModelTurn = AnsweredTurn | Extract<TurnResult, { ok: false }>;

/** What a run's turn is carried out with. */
export interface TurnParts {
  agent: Agent;
  model: ResolvedModel;
  context: ActionContext;
  deps: Pick<TurnDeps, "store" | "knowledge">;
  signal: AbortSignal;
  /** What an agent with `knowledge: "auto"` is given passages for; default the run's input. */
  question?: string;
}

function buildInput(run: RunRecord, { agent, model, context, signal }: TurnParts): Omit<TurnInput, "history"> {
  const { spec, kind } = run;
  const { hooks, agents } = context.config;
  // What a person in allowFrom says on a channel is not outside text.
  const isOutside = kind !== "channel";
  const thinking = spec.thinking ?? agent.thinking;
  return {
    agent,
    input: spec.input,
    unsafe: spec.unsafe,
    tools: allowedTools(agent, hooks.tools, isOutside),
    model,
    timeoutMs: (spec.timeoutSeconds ?? agents.defaults.timeoutSeconds) * 1000,
    signal,
    // The trusted line names the mapping: its id is the operator's word. The path may be the sender's, if the mapping takes any.
    ...(isOutside ? { hook: run.mapping ?? spec.hook } : { source: spec.hook }),
    ...(spec.instructions === undefined ? {} : { instructions: spec.instructions }),
    ...(thinking === undefined ? {} : { thinking }),
    ...(kind === "heartbeat" ? { heartbeat: true } : {}),
  };
}

/**
 * Carries out the turn of a hook run, a heartbeat or a channel's message: the model sees the session's history and, by the
 * agent's `knowledge`, the operator's documents that this agent may search. Never throws for what the model does.
 */
export async function takeModelTurn(run: RunRecord, parts: TurnParts): Promise<ModelTurn> {
  const { agent, context, deps, question = plainText(run.spec.input) } = parts;
  const known = await gatherKnowledge({ agent, tenant: OPERATOR_TENANT, question }, deps.knowledge);
  const result = await context.runtime.runTurn({
    ...buildInput(run, parts),
    history: await deps.store.getTurns(run.spec.session),
    passages: known.passages,
    ownTools: known.tools,
  });
  const warnings = [...known.warnings, ...result.warnings];
  return result.ok ? { ...result, warnings, citations: known.citations } : { ...result, warnings };
}
