/** What steps come to together. */
import type { ModelMessage } from "ai";
import type { StepRecord } from "../store/steps.ts";
import type { Usage } from "../store/types.ts";
import { STEP_GAP } from "./speaker.ts";
import { toToolMessage } from "./tool-results.ts";

/** What the model said in a step and what tools answered, as a conversation has it. */
export const toStepMessages = ({ messages, calls }: StepRecord): ModelMessage[] => [
  ...(messages as ModelMessage[]),
  ...toToolMessage(calls.filter(({ output }) => output !== undefined)),
];

interface TextPart {
  type?: unknown;
  text?: unknown;
}

/** The words of a step. */
export const getStepText = ({ messages }: Pick<StepRecord, "messages">): string =>
  messages
    .flatMap((message) => {
      const { content } = message as { content?: unknown };
      if (typeof content === "string") return content;
      return Array.isArray(content) ? (content as TextPart[]).map(({ type, text }) => (type === "text" ? String(text) : "")) : [];
    })
    .join("");

/** All that the model said, as a stream's reader gets it. */
export const getSpoken = (steps: readonly StepRecord[]): string =>
  steps
    .map(getStepText)
    .filter((text) => text !== "")
    .join(STEP_GAP);

/** Adds up what steps used. A count that no step has stays absent. */
export function sumUsage(steps: readonly StepRecord[]): Usage {
  const total: Usage = {};
  for (const { usage } of steps)
    for (const [name, count] of Object.entries(usage) as [keyof Usage, number | undefined][])
      if (count !== undefined) total[name] = (total[name] ?? 0) + count;
  return total;
}
