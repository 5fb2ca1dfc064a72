import { FORGOTTEN, joinParts, type TextPart } from "../../core/text.ts";
import { RouseError } from "../../core/errors.ts";
import { refuse } from "../records/operation.ts";
import type { RunDetail, stepView } from "../records/views.ts";
import { maskValue, type Mask } from "./masks.ts";
import { toTextLines } from "./fixture-run.ts";
import {
  toResultText,
  type RecordedCall,
  type WrittenRun,
  type ReplyExpectation,
} from "./recorded-run.ts";

type StepView = ReturnType<typeof stepView>;
type CallView = StepView["calls"][number];

/** A run that ended, with its steps and the whole texts of results that were cut. */
interface FinishedRun {
  run: RunDetail;
  steps: readonly StepView[];
  /** By the id with which a call names them. */
  results: ReadonlyMap<string, string>;
}

/** Reads on in results that were cut. A case has the whole results. */
const READER = "rouse.read_result";

/** The rubric of a case that was just recorded. */
const RUBRIC =
  "The reply states the same facts and comes to the same conclusion as the recorded reply, leaves out nothing that matters, and adds nothing that the task and the results of tools do not support. Its wording and its layout may differ.";

/** True if the call was one of a tool that the agent had, and has an answer. */
const isAnswered = ({ tool, output }: CallView): boolean =>
  output !== null && tool.includes(".") && tool !== READER;

/** The ids of results that were cut: their whole texts are asked for. */
export const getCutResults = (steps: readonly StepView[]): string[] =>
  steps.flatMap(({ calls }) => calls.filter(isAnswered).flatMap(({ stored }) => stored?.id ?? []));

function toText({ output, stored }: CallView, results: FinishedRun["results"]): string {
  const whole = stored === null ? undefined : results.get(stored.id);
  const parts = output?.parts ?? [];
  if (whole !== undefined) return whole;
  return parts
    .map((part) =>
      part.type === "text" ? part.text : `[a file, ${part.mediaType}: files are not recorded]`,
    )
    .join("\n");
}

/** A result as a file has it: JSON as it reads, if the agent gets the same text of it. */
function toResult(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && JSON.stringify(value) === text
      ? value
      : text;
  } catch {
    return text;
  }
}

function toCall(call: CallView, results: FinishedRun["results"]): RecordedCall {
  const { tool, input, output, readOnly } = call;
  return {
    tool,
    input: input as Record<string, unknown>,
    result: toText(call, results),
    ...(output?.isError && { isError: true }),
    ...(readOnly && { readOnly }),
  };
}

function toPrompt(input: readonly TextPart[]): NonNullable<WrittenRun["prompt"]> {
  const parts = joinParts(input).map(({ text, outside }) => (outside ? { outside: text } : text));
  return parts.length === 1 && typeof parts[0] === "string" ? parts[0] : parts;
}

function checkKept({ id, input, endedAt }: RunDetail, calls: readonly RecordedCall[]): void {
  if (endedAt === null) refuse(`${id} has not ended: record it when it has`);
  const texts = [...input.map(({ text }) => text), ...calls.map(({ input: given }) => given)];
  if (texts.some((text) => (text as unknown) === FORGOTTEN))
    throw new RouseError({
      code: "not_found",
      message: `what ${id} was given is no longer kept (hooks.retention)`,
    });
}

/** The parts of a run that may hold values to mask, by the names with which their fields begin. */
export const getMaskableRun = ({ prompt, calls, reply }: WrittenRun): Record<string, unknown> => ({
  run: { prompt, calls: calls.map(({ input, result }) => ({ input, result })), reply },
});

/** Masks a recorded run. Names of tools, agents and models stay. */
export function maskRun(run: WrittenRun, masks: readonly Mask[]): WrittenRun {
  const { prompt, instructions, reply } = run;
  const calls = run.calls.map(({ input, result }) => ({ input, result: toResultText(result) }));
  const masked = maskValue({ prompt, instructions, reply, calls }, masks);
  return {
    ...run,
    ...masked,
    calls: run.calls.map((call, index) => {
      const { input = call.input, result = "" } = masked.calls[index] ?? {};
      return { ...call, input, result: toResult(result) };
    }),
  };
}

/**
 * Makes the recording of a run that has ended.
 * @param hasRequest whether a recorded request gives what the agent is asked; else its prompt is part of the recording.
 * @throws RouseError `usage` if the run has not ended, `not_found` if what it was given is no longer kept.
 */
export function recordRun(
  { run, steps, results }: FinishedRun,
  hasRequest: boolean,
  action: number | undefined,
): WrittenRun {
  const calls = steps.flatMap((step) =>
    step.calls.filter(isAnswered).map((call) => toCall(call, results)),
  );
  checkKept(run, calls);
  const { startedAt, endedAt, usage, reply } = run;
  const asked = {
    prompt: toPrompt(run.input),
    agent: run.agentId,
    mapping: run.mapping ?? undefined,
    instructions: run.instructions ?? undefined,
    thinking: run.thinking ?? undefined,
  };
  const isTimed = startedAt !== null && endedAt !== null;
  return {
    id: run.id,
    ...(hasRequest ? { action } : asked),
    calls,
    reply: reply === null ? undefined : toTextLines(reply),
    model: run.model ?? undefined,
    tokens: usage?.totalTokens,
    costUsd: usage?.costUsd,
    seconds: isTimed ? (Date.parse(endedAt) - Date.parse(startedAt)) / 1000 : undefined,
  };
}

/** The expectation of a case that was just recorded: a judge compares with the recorded reply, and words can be added. */
export const prepareReply = ({ reply }: WrittenRun): ReplyExpectation => ({
  contains: [],
  ...(reply !== undefined && { judge: { rubric: RUBRIC } }),
});
