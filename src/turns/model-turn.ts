import type { TurnExtension, CallGate, PausedTurn } from "../agent/types.ts";
import { createJudge, getOfferedTools, type Judge } from "../people/judge.ts";
import { addUsage } from "../agent/usage.ts";
import { OPERATOR_TENANT } from "../config/checks.ts";
import { plainText } from "../core/text.ts";
import type { TurnRecord } from "../store/types.ts";
import {
  allCoverTool,
  SCHEDULE_TOOL_NAME,
  SEND_FILE_TOOL_NAME,
  type ToolPatterns,
} from "../vocabulary/tool-names.ts";
import { createMemoryTools } from "../people/tools.ts";
import { prepareHistory, type CheckpointRun } from "./session-history.ts";
import type { RunJournal } from "./journal.ts";
import { createTurnKnowledge } from "./knowledge.ts";
import { createSendFile } from "./channel/send-file.ts";
import type { CheckedTry, ModelTurn, Prepared, Try } from "./try.ts";

/** The parts that a turn is taken with. */
export interface ModelTurnParts {
  prepared: Prepared;
  journal: RunJournal;
  /** Asked before each model call. */
  gate: CallGate;
}

/** The gateway's own tools that the agent's `tools` name. */
function getOwnTools(
  tools: ToolPatterns,
  { kind, deps, run, steps }: Try,
  { findOrigin }: Pick<Judge, "findOrigin">,
): TurnExtension[] {
  const schedule = allCoverTool(tools, SCHEDULE_TOOL_NAME) ? [deps.scheduleTool] : [];
  const canSend = run.route?.status === "route" && allCoverTool(tools, SEND_FILE_TOOL_NAME);
  return [
    ...schedule,
    ...(canSend ? [createSendFile({ run, steps, ...kind }, deps.store)] : []),
    ...(kind.isOneShot ? [] : createMemoryTools(tools, run, deps, findOrigin)),
  ];
}

/** Reads the turns that the model sees before this one, with the usage of the summary that was made for the run. */
async function readTurns(
  prepared: Prepared,
  of: CheckpointRun,
  current: Try,
): Promise<{ history: readonly TurnRecord[]; notes: readonly string[] }> {
  const { history: read, warnings: notes } =
    prepared.isFitted && prepared.history
      ? { history: prepared.history, warnings: [] }
      : await prepareHistory(of, prepared.history);
  // A turn that goes on after people have decided has the history with which it began.
  Object.assign(prepared, { history: read, isFitted: true });
  const { checkpoint, turns } = read;
  // An earlier try of the run may have made the summary.
  current.summaryUsage =
    checkpoint?.runId === current.run.id ? checkpoint.checkpoint?.usage : undefined;
  return { history: checkpoint ? [checkpoint, ...turns] : turns, notes };
}

/** Asks the model: it sees the session's history and, by the agent's `knowledge`, the documents of the tenant. */
export async function takeModelTurn(
  { prepared, journal, gate }: ModelTurnParts,
  current: CheckedTry,
): Promise<ModelTurn | PausedTurn> {
  const {
    kind: { context, job, canAsk = true },
    agent,
    model,
    deps,
    signal,
    run,
    steps,
  } = current;
  const { id, kind, mapping, spec, boundaryId } = run;
  const { input, tenant = OPERATOR_TENANT, question } = prepared;
  const { timeoutMs = context.config.agents.defaults.timeoutSeconds * 1000 } = input;
  const of = { run, agent, context, deps, job, signal, timeoutMs, gate };
  const { history, notes } = await readTurns(prepared, of, current);
  const rulesOf = mapping === undefined ? {} : (context.mappings.settings(mapping) ?? {});
  const settings = { agent, config: context.config, mapping: rulesOf, kind };
  const tools = getOfferedTools(settings);
  const hasTools = tools.every((patterns) => patterns.length > 0);
  const rules = hasTools ? await deps.rules.list() : [];
  const { extensions, getCitations } = await createTurnKnowledge(
    { agent, tenant },
    deps.documents,
    { history, steps, ...input },
  );
  const judge = createJudge({
    ...input,
    ...settings,
    history,
    input: spec.input,
    isMain: spec.session.origin === "main",
    canAsk,
    rules,
  });
  const result = await context.runtime.runTurn({
    agent,
    model,
    signal,
    input: spec.input,
    unsafe: false,
    timeoutMs,
    ...(agent.thinking !== undefined && { thinking: agent.thinking }),
    history,
    tools,
    narrowedBy: rulesOf.tools ? `tools of the mapping ${mapping}` : "hooks.tools",
    judge: judge.judgeCall,
    info: { agentId: agent.id, sessionKey: spec.session.key, runId: id, kind },
    question: question ?? plainText(spec.input),
    extensions: hasTools ? [...extensions, ...getOwnTools(tools, current, judge)] : extensions,
    journal,
    gate,
    onUnknown: job ? "ask" : "tell",
    ...(boundaryId === undefined ? {} : { boundaryId }),
    ...input,
  });
  if (!result.ok)
    return "warnings" in result ? { ...result, warnings: [...notes, ...result.warnings] } : result;
  const { text, warnings } = judge.reviewTurn(result.text, {
    steps,
    context: result.context ?? [],
  });
  const { summaryUsage } = current;
  const usage = summaryUsage ? addUsage([summaryUsage, result.usage]) : result.usage;
  const citations = getCitations(`${result.spoken}\n${text}`);
  return {
    ...result,
    text,
    usage,
    warnings: [...notes, ...result.warnings, ...warnings],
    citations,
  };
}
