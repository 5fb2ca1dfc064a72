/** The ids by which callers know calls of their own tools. */
import type { StepRecord, ToolCallRecord } from "../store/steps.ts";

const CALLER_ID = /^call_(run_[0-9a-v]+)_(\d+)_(\d+)$/;

const isOpen = ({ output }: ToolCallRecord): boolean => output === undefined;

/**
 * Returns the id under which the caller gets a call of its own tool. It is the model's id, unless the turn has called tools of
 * the agent as well: then it names the run, whose steps the caller does not have.
 */
export function toCallerCallId(call: ToolCallRecord, steps: readonly StepRecord[]): string {
  const isMixed = steps.some(({ calls }) => calls.some((one) => !isOpen(one)));
  return isMixed ? `call_${call.id.replaceAll(".", "_")}` : call.modelCallId;
}

/** Returns the run that an id names; undefined if it is the id of a model. */
export const getRunId = (callerId: string): string | undefined => CALLER_ID.exec(callerId)?.[1];

/** Returns the model's id of a call that a caller names; undefined if the steps do not have the call. */
export function getModelCallId(callerId: string, steps: readonly StepRecord[]): string | undefined {
  const [, runId, index, position] = CALLER_ID.exec(callerId) ?? [];
  const id = `${runId}.${index}.${position}`;
  return steps.flatMap(({ calls }) => calls).find((call) => call.id === id)?.modelCallId;
}
