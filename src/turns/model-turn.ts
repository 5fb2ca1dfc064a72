import type { TurnExtension, CallGate, PausedTurn } from "../agent/types.ts";
import { createJudge, getOfferedTools, type Judge } from "../people/judge.ts";
import { addUsage } from "../agent/usage.ts";
import { OPERATOR_TENANT } from "../config/checks.ts";
import {
  allCoverTool,
  SCHEDULE_TOOL_NAME,
  SEND_FILE_TOOL_NAME,
  type ToolPatterns,
} from "../vocabulary/tool-names.ts";
import { createMemoryTools } from "../people/tools.ts";
import { toQuestion } from "./channel/channel-input.ts";
import { getSummaryUsage, prepareHistory, toTurns } from "./session-history.ts";
import type { RunJournal } from "./journal.ts";
import { createTurnKnowledge } from "./knowledge.ts";
import { createSendFile } from "./channel/send-file.ts";
import type { CheckedTry, ModelTurn, Prepared, Try } from "./try.ts";
import { createReadResult } from "../agent/tools/tool-box.ts";

/** What a turn is taken with. */
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
    ...(canSend ? [createSendFile({ run, steps, ...kind }, deps)] : []),
    ...(kind.isOneShot ? [] : createMemoryTools(tools, run, deps, findOrigin)),
  ];
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
  const { history: read, warnings: notes } =
    prepared.isFitted && prepared.history
      ? { history: prepared.history, warnings: [] }
      : await prepareHistory(of, prepared.history);
  // A turn that goes on after people have decided has the history with which it began.
  Object.assign(prepared, { history: read, isFitted: true });
  const history = toTurns(read);
  const used = getSummaryUsage(read, id);
  current.summaryUsage = used;
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
    question: question ?? toQuestion(spec.input),
    extensions: [
      ...extensions,
      createReadResult(run, deps.store, context.config.agents.defaults.toolResultBytes),
      ...(hasTools ? getOwnTools(tools, current, judge) : []),
    ],
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
  const usage = used ? addUsage([used, result.usage]) : result.usage;
  const citations = getCitations(`${result.spoken}\n${text}`);
  return {
    ...result,
    text,
    usage,
    warnings: [...notes, ...result.warnings, ...warnings],
    citations,
  };
}
