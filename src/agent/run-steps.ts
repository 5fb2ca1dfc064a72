/** Takes a turn with a model: picks its tools, runs its steps, and makes its result of them. */
import type { StepRecord } from "../store/types.ts";
import {
  OWN_SOURCE,
  RECALL_TOOL,
  REMEMBER_TOOL,
  SCHEDULE_TOOL,
  SEND_FILE_TOOL,
} from "../vocabulary/tool-names.ts";
import { createBoundary } from "./boundary.ts";
import { MAX_STEPS, runLoop, type LoopEnd } from "./loop.ts";
import type { TurnContext } from "./model-request.ts";
import { createStepCall } from "./model-step.ts";
import {
  getReasoning,
  getSpoken,
  getStepText,
  isWordless,
  toCallerCallId,
  toHistoryMessages,
} from "./steps.ts";
import { offerOwnTools, type ToolBox } from "./tools/tool-box.ts";
import { createReadResult, READ_RESULT } from "./tools/tool-results.ts";
import type { Journal, ModelCandidate, TurnResult } from "./types.ts";
import { addUsage } from "./usage.ts";

/** The most that a turn waits for a server of tools. */
export const CONNECT_MS = 10_000;

/** Creates the journal of a turn that has one attempt, and whose steps are not stored. */
function createMemoryJournal(): Journal {
  return {
    steps: [],
    addStep: () => Promise.resolve(true),
    updateCalls: () => Promise.resolve(true),
    getWhole: () => Promise.resolve(undefined),
    getDecision: () => Promise.resolve(undefined),
  };
}

/** Rouse's own tools, which give way to a caller's tool of the same name. */
const OF_ROUSE: ReadonlySet<string> = new Set([
  READ_RESULT,
  SCHEDULE_TOOL,
  SEND_FILE_TOOL,
  REMEMBER_TOOL,
  RECALL_TOOL,
]);

interface StepDeps {
  candidates: readonly ModelCandidate[];
  toolBox: Pick<ToolBox, "pick">;
  /** The most text of one result that the model gets in the conversation, in bytes of UTF-8. */
  maxResultBytes: number;
}

/** Runs the steps of a turn, with the first of its models that answers. Rejects as `runLoop` does. */
export async function runSteps(
  turn: TurnContext,
  { candidates, toolBox, maxResultBytes }: StepDeps,
): Promise<TurnResult> {
  const { input, parts, warnings } = turn;
  const { info, signal, timeoutMs, callerTools = [], extensions = [], narrowedBy: by } = input;
  const journal = input.journal ?? createMemoryJournal();
  const boundary = createBoundary(input.boundaryId);
  const toolTurn = { info, boundary, waitMs: Math.min(CONNECT_MS, Math.ceil(timeoutMs / 2)) };
  const picked = await (input.pickTools?.(toolTurn) ?? toolBox.pick(input.tools, toolTurn));
  warnings.push(...picked.warnings);
  const callerNames = new Set(callerTools.map(({ name }) => name));
  const readers = input.journal ? [createReadResult(input.journal, maxResultBytes)] : [];
  const own = await offerOwnTools(
    [...extensions, { id: OWN_SOURCE, tools: readers, warning: "" }],
    toolTurn,
  );
  const tools = [
    ...own.filter(({ name }) => !OF_ROUSE.has(name) || !callerNames.has(name)),
    ...picked.tools,
  ];
  const { leftOut = [] } = picked;
  const end = await runLoop({
    runId: info.runId,
    ...(by !== undefined &&
      leftOut.length > 0 && {
        offer: {
          offered: tools.flatMap(({ name, tool }) => (name === READ_RESULT ? [] : tool)),
          leftOut,
          by,
        },
      }),
    tools: new Map(tools.map((tool) => [tool.name, tool])),
    callerTools: callerNames,
    journal,
    judge: (call) => input.judge?.({ ...call, context: parts }),
    onUnknown: input.onUnknown ?? "tell",
    maxResultBytes,
    ready: input.gate?.ready,
    signal: tools.length === 0 ? signal : AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    clock: turn.clock,
    traces: turn.traces,
    warnings,
    callModel: createStepCall(candidates, { ...turn, boundary, tools }),
  });
  return toTurnResult(end, warnings);
}

function toTurnResult(end: LoopEnd, warnings: string[]): TurnResult {
  if (end.kind === "lost") return { ok: false, code: "lost", asks: [], open: [] };
  if (end.kind === "waiting") return { ok: false, code: "waiting", asks: end.asks, open: end.open };
  if (end.kind === "given-up")
    return { ok: false, code: "outcome_unknown", message: end.message, retryable: false, warnings };
  const { steps, isLimited } = end;
  const last = steps.at(-1) as StepRecord;
  const said = getStepText(last);
  if (isLimited)
    warnings.push(`the turn reached its limit of ${MAX_STEPS} steps; the last one had no tools`);
  else if (last.finish === "length")
    warnings.push("the reply ends where the model's limit for one answer was reached");
  const open = last.calls.filter(({ output }) => output === undefined);
  const text =
    said === "" && isLimited
      ? getStepText(steps.findLast((step) => getStepText(step) !== "") ?? last)
      : said;
  if (text.trim() === "" && open.length === 0)
    warnings.push(
      `the model gave no words${steps.slice(0, -1).some(isWordless) ? ", also when it was asked once more" : ""}`,
    );
  return {
    ok: true,
    text,
    spoken: getSpoken(steps),
    reasoning: getReasoning(steps),
    calls: open.map((call) => ({
      id: toCallerCallId(call, steps),
      tool: call.name,
      input: call.input,
      ...(call.inputText === undefined ? {} : { inputText: call.inputText }),
    })),
    messages: steps.flatMap(toHistoryMessages),
    usage: addUsage(steps.map(({ usage }) => usage)),
    model: last.model,
    finish: isLimited ? "length" : last.finish,
    warnings,
    ...(last.calls.length === 0 ? { lastStep: last } : {}),
  };
}
