import type { Agent, CallGate, PausedTurn, ResolvedModel } from "../agent/types.ts";
import { createJudge, getOfferedTools } from "../approvals/judge.ts";
import { OPERATOR_TENANT } from "../config/checks.ts";
import { plainText } from "../core/text.ts";
import type { RunRecord, StepRecord } from "../store/types.ts";
import type { RunJournal } from "./journal.ts";
import { createTurnKnowledge } from "./knowledge.ts";
import { createReadResult } from "./read-result.ts";
import type { ExecutorDeps, ModelTurn, Prepared, RunKind } from "./run-kind.ts";

/** What a turn is taken with. */
export interface ModelTurnParts {
  agent: Agent;
  model: ResolvedModel;
  prepared: Prepared;
  journal: RunJournal;
  /** Asked before each model call. */
  gate: CallGate;
}

/** The run whose turn is taken, and its steps so far. */
interface TurnRun {
  readonly kind: RunKind;
  readonly deps: ExecutorDeps;
  readonly signal: AbortSignal;
  readonly run: RunRecord;
  readonly steps: readonly StepRecord[];
}

/** Asks the model: it sees the session's history and, by the agent's `knowledge`, the documents of the tenant. */
export async function takeModelTurn(
  { agent, model, prepared, journal, gate }: ModelTurnParts,
  { kind: { context, job, canAsk }, deps, signal, run, steps }: TurnRun,
): Promise<ModelTurn | PausedTurn> {
  const { id, kind, mapping, spec, boundaryId } = run;
  const { input, tenant = OPERATOR_TENANT, question, history = await deps.store.list("turns", spec.session) } = prepared;
  const settings = { agent, config: context.config, mapping: context.getToolRules(mapping), kind };
  const tools = getOfferedTools(settings);
  const rules = tools.some((patterns) => patterns.length === 0) ? [] : await deps.rules.list();
  const thinking = spec.thinking ?? agent.thinking;
  const { extensions, citations } = await createTurnKnowledge({ agent, tenant }, deps.knowledge);
  const judge = createJudge({ ...input, ...settings, history, input: spec.input, canAsk, rules });
  const result = await context.runtime.runTurn({
    agent,
    model,
    signal,
    input: spec.input,
    unsafe: spec.unsafe,
    timeoutMs: (spec.timeoutSeconds ?? context.config.agents.defaults.timeoutSeconds) * 1000,
    ...(thinking === undefined ? {} : { thinking }),
    history,
    tools,
    judge: judge.judgeCall,
    info: { agentId: agent.id, sessionKey: spec.session.key, runId: id, kind },
    question: question ?? plainText(spec.input),
    extensions: [...extensions, createReadResult(run, deps.store, context.config.agents.defaults.toolResultBytes)],
    journal,
    gate,
    onUnknown: job ? "ask" : "tell",
    ...(boundaryId === undefined ? {} : { boundaryId }),
    ...input,
  });
  if (!result.ok) return result;
  const { text, warnings } = judge.reviewTurn(result.text, { steps, context: result.context ?? [] });
  return { ...result, text, warnings: [...result.warnings, ...warnings], citations };
}
