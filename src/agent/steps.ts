/** The messages and the text of steps. */
import type { ModelMessage } from "ai";
import type { StepRecord } from "../store/steps.ts";
import { STEP_GAP } from "./speaker.ts";
import { toToolMessage } from "./tool-results.ts";

/** Returns the messages of a step: the model's, and the results of its tool calls. */
export const toStepMessages = ({ messages, calls }: StepRecord): ModelMessage[] => [
  ...(messages as ModelMessage[]),
  ...toToolMessage(calls.filter(({ output }) => output !== undefined)),
];

/** Returns the messages of a step for later turns, without the files of results. */
export const toHistoryMessages = ({ messages, calls }: StepRecord): ModelMessage[] => [
  ...(messages as ModelMessage[]),
  ...toToolMessage(
    calls.filter(({ output }) => output !== undefined),
    { files: false },
  ),
];

interface TextPart {
  type?: unknown;
  text?: unknown;
}

/** Returns the text of a step. */
export const getStepText = ({ messages }: Pick<StepRecord, "messages">): string =>
  messages
    .flatMap((message) => {
      const { content } = message as { content?: unknown };
      if (typeof content === "string") return content;
      return Array.isArray(content)
        ? (content as TextPart[]).map(({ type, text }) => (type === "text" ? String(text) : ""))
        : [];
    })
    .join("");

/** Returns what the model thought in the steps, as a reader of the stream gets it. */
export const getReasoning = (steps: readonly StepRecord[]): string =>
  steps
    .flatMap(({ messages }) => messages)
    .flatMap((message) => {
      const { content } = message as { content?: unknown };
      return Array.isArray(content) ? (content as TextPart[]) : [];
    })
    .flatMap(({ type, text }) =>
      type === "reasoning" && typeof text === "string" && text !== "" ? [text] : [],
    )
    .join(STEP_GAP);

/** Returns the whole text of the steps, as a reader of the stream gets it. */
export const getSpoken = (steps: readonly StepRecord[]): string =>
  steps
    .map(getStepText)
    .filter((text) => text !== "")
    .join(STEP_GAP);
