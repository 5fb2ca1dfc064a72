import { getModelCallId, getRunId } from "../agent/caller-calls.ts";
import { toHistoryMessages } from "../agent/steps.ts";
import type { ConversationMessage } from "../agent/types.ts";
import { sha256Hex } from "../core/secret.ts";
import type { StepRecord } from "../store/types.ts";
import type { EarlierRuns, RunOwner } from "./earlier-runs.ts";

/** Turns of one conversation that are looked up: those that come last. */
const MAX_RUNS = 100;

const getCallIds = (message: ConversationMessage): string[] => {
  if (message.role === "tool") return [message.callId];
  return message.role === "assistant" ? message.calls.map(({ id }) => id) : [];
};

/** An id that every provider accepts: those that name a run are longer than some do. */
const toShortId = (callerId: string): string => `call_${sha256Hex(callerId).slice(0, 24)}`;

/**
 * Puts the steps of a turn in place of what its caller has of it, if the turn has called tools of the agent beside those of
 * the caller: so the model sees their results, and does not call them again. What is no longer kept stays as the caller sent it.
 */
export async function restoreServerSteps(
  messages: readonly ConversationMessage[],
  runs: Pick<EarlierRuns, "getSteps">,
  owner: RunOwner,
): Promise<readonly ConversationMessage[]> {
  const runIds = [...new Set(messages.flatMap(getCallIds).flatMap((id) => getRunId(id) ?? []))];
  if (runIds.length === 0) return messages;
  const found = new Map<string, StepRecord[]>();
  for (const runId of runIds.slice(-MAX_RUNS)) {
    const steps = await runs.getSteps(runId, owner);
    if (steps) found.set(runId, [...steps]);
  }
  const getSteps = (callerId: string): readonly StepRecord[] | undefined =>
    found.get(getRunId(callerId) ?? "");
  const toId = (callerId: string): string => {
    if (getRunId(callerId) === undefined) return callerId;
    return getModelCallId(callerId, getSteps(callerId) ?? []) ?? toShortId(callerId);
  };
  return messages.map((message): ConversationMessage => {
    if (message.role === "tool") return { ...message, callId: toId(message.callId) };
    if (message.role !== "assistant") return message;
    const steps = message.calls.map(({ id }) => getSteps(id)).find((one) => one !== undefined);
    if (steps) return { role: "steps", messages: steps.flatMap(toHistoryMessages) };
    return { ...message, calls: message.calls.map((call) => ({ ...call, id: toId(call.id) })) };
  });
}
