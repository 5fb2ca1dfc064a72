import type { ModelMessage } from "ai";
import type { StepRecord, ToolCallRecord } from "../store/steps.ts";
import { STEP_GAP } from "./speaker.ts";
import { withoutThoughts } from "./thoughts.ts";
import { toToolMessage } from "./tools/tool-results.ts";

/** A part of a message of the `ai` package, as it is kept. */
export interface KeptPart {
  type?: unknown;
  text?: unknown;
  toolCallId?: unknown;
  toolName?: unknown;
  providerOptions?: object;
}

/** Returns the parts of a message. */
export function getParts(message: unknown): KeptPart[] {
  const { content } = message as { content?: unknown };
  if (typeof content === "string") return [{ type: "text", text: content }];
  return Array.isArray(content) ? (content as KeptPart[]) : [];
}

/**
 * Matches the ids by which callers know calls of their own tools: run, step and place. OpenAI takes 40 characters, and
 * clients cut what is longer.
 */
const CALLER_ID = /^([0-9a-v]{35})_([0-9a-z])([0-9a-z]{1,2})$/;

/** Returns whether a step has parts that its provider may want to have again as they are: thoughts, signatures. */
const isSigned = ({ messages }: StepRecord): boolean =>
  withoutThoughts(messages)
    .flatMap(getParts)
    .some(
      ({ type, providerOptions = {} }) =>
        type === "reasoning" || Object.keys(providerOptions).some((name) => name !== "rouse"),
    );

/**
 * Returns the id under which the caller gets a call of its own tool. It is the model's id, unless the turn has what the caller
 * does not have, and the model's next step needs: calls of the agent's tools, or thoughts. Then it names the run.
 */
export function toCallerCallId(call: ToolCallRecord, steps: readonly StepRecord[]): string {
  const isMore = steps.some(
    (step) => isSigned(step) || step.calls.some(({ output }) => output !== undefined),
  );
  if (!isMore) return call.modelCallId;
  const [runId = "", ...numbers] = call.id.split(".");
  return `${runId.slice(4)}_${numbers.map((number) => Number(number).toString(36)).join("")}`;
}

/** Returns the run that an id names; undefined if it is the id of a model. */
export function getRunId(callerId: string): string | undefined {
  const found = CALLER_ID.exec(callerId);
  return found ? `run_${found[1]}` : undefined;
}

/** Returns the model's id of a call that a caller names; undefined if the steps do not have the call. */
export function getModelCallId(callerId: string, steps: readonly StepRecord[]): string | undefined {
  const numbers = CALLER_ID.exec(callerId)?.slice(2) ?? [];
  const id = [getRunId(callerId), ...numbers.map((number) => parseInt(number, 36))].join(".");
  return steps.flatMap(({ calls }) => calls).find((call) => call.id === id)?.modelCallId;
}

/** The request to a model that ended its turn without a word. Providers refuse an empty message, so it takes the place of one. */
const ASK_AGAIN: ModelMessage = {
  role: "user",
  content:
    "Your answer had no words. Write it now. If your instructions name words for having nothing to say, write those.",
};

/** Returns whether a step ends a turn and says nothing. */
export const isWordless = (step: Pick<StepRecord, "messages" | "calls">): boolean =>
  step.calls.length === 0 && getStepText(step).trim() === "";

/** Returns the messages of a step that is followed by another: the model's, and the results of its tool calls. */
export const toStepMessages = (step: StepRecord): ModelMessage[] =>
  isWordless(step)
    ? [ASK_AGAIN]
    : [
        ...(step.messages as ModelMessage[]),
        ...toToolMessage(step.calls.filter(({ output }) => output !== undefined)),
      ];

/** Returns the messages of a step for later turns, without the files of results and the thoughts of the model's text. */
export const toHistoryMessages = (step: StepRecord): ModelMessage[] =>
  isWordless(step)
    ? []
    : [
        ...(withoutThoughts(step.messages) as ModelMessage[]),
        ...toToolMessage(
          step.calls.filter(({ output }) => output !== undefined),
          { files: false },
        ),
      ];

/** Returns the text of a step. */
export const getStepText = ({ messages }: Pick<StepRecord, "messages">): string =>
  messages
    .flatMap(getParts)
    .map(({ type, text }) => (type === "text" ? String(text) : ""))
    .join("");

/** Returns what the model thought in the steps, as a reader of the stream gets it. */
export const getReasoning = (steps: readonly StepRecord[]): string =>
  steps
    .flatMap(({ messages }) => messages)
    .flatMap(getParts)
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
