import type { ModelMessage } from "ai";
import type { ModelProvider } from "../contract/kinds.ts";
import { safeError } from "../core/errors.ts";
import type { StepRecord } from "../store/types.ts";
import { NoAnswerError, type ModelFailure } from "./failure.ts";
import type { ModelStep } from "./loop.ts";
import { createTurnPrompt, isSurelyTooLong } from "./messages.ts";
import { callWithFallbacks, renderFallback } from "./model-call.ts";
import { createModelRequest, type ModelAnswer, type ModelRequestOptions } from "./model-request.ts";
import { callInSpan } from "./model-span.ts";
import { createSpeaker } from "./speaker.ts";
import { getStepText, toStepMessages } from "./steps.ts";
import { separateThoughts } from "./thoughts.ts";
import { READ_ON, READ_RESULT } from "./tools/tool-results.ts";
import type { ModelCandidate } from "./types.ts";
import { toUsage } from "./usage.ts";

/**
 * Marks the message of the turn and the last message; `own` is how many messages at the end are of the turn's steps. The next
 * step and the next turn of the session begin with all of them.
 */
function markMessages(
  messages: readonly ModelMessage[],
  own: number,
  marker: ModelProvider["cacheMarker"],
): ModelMessage[] {
  if (!marker) return [...messages];
  const marked = new Set([messages.length - own - 1, messages.length - 1]);
  return messages.map((message, index) =>
    marked.has(index) ? { ...message, providerOptions: marker } : message,
  );
}

/** A model of the turn with the messages that fit its window. */
interface PreparedModel {
  fit: ReturnType<typeof createTurnPrompt>;
  request: Awaited<ReturnType<typeof createModelRequest>>;
}

/** Thrown if no model gave an answer. */
export class StepFailedError extends Error {
  readonly failure: ModelFailure;

  constructor(failure: ModelFailure) {
    super(failure.message);
    this.name = "StepFailedError";
    this.failure = failure;
  }
}

/**
 * Makes a step of an answer. `isFinal`: a reader has its text, which cannot be taken back.
 * @throws NoAnswerError if the answer is empty or withheld.
 */
function toModelStep(
  { model, price }: ModelCandidate,
  { calls, usage, finish, messages: given }: ModelAnswer,
  { isFinal, ...times }: { isFinal: boolean } & Pick<ModelStep, "startedAt" | "endedAt">,
): ModelStep {
  const messages = JSON.parse(JSON.stringify(separateThoughts(given, { isFinal }))) as unknown[];
  const isEmpty = calls.length === 0 && getStepText({ messages }) === "";
  if (finish === "content-filter" && isEmpty) throw new NoAnswerError("withheld");
  if (finish === "error" || (finish === "other" && isEmpty)) throw new NoAnswerError("empty");
  return { model: model.ref, messages, calls, finish, usage: toUsage(usage, price), ...times };
}

/**
 * Creates the function that makes the model calls of a turn, one per step, with the first of `candidates` that answers. It
 * rejects with a `StepFailedError` if no candidate answers.
 */
export function createStepCall(
  candidates: readonly ModelCandidate[],
  options: ModelRequestOptions,
): (steps: readonly StepRecord[], isLast: boolean) => Promise<ModelStep> {
  const { input, boundary, parts, clock, log, deadline, warnings } = options;
  const { signal, timeoutMs } = input;
  const speaker = input.onText && createSpeaker(input.onText, input.onReasoning, input.onCall);
  const isFinal = input.onText !== undefined && input.onCall === undefined;
  const prepared = new Map<ModelCandidate, PreparedModel>();
  // Writing to a cache costs more: only if a later request begins with the same text.
  const isContinued =
    options.tools.some(({ name }) => name !== READ_RESULT) || input.history.length > 0;
  const wasCut = JSON.stringify(input.history).includes(READ_ON);

  const prepare = async (candidate: ModelCandidate): Promise<PreparedModel> => {
    const known = prepared.get(candidate);
    if (known) return known;
    const request = await createModelRequest(candidate, options, speaker);
    const { contextTokens: window, hasImages, provider } = candidate;
    const { imageOptions } = provider.kind;
    const fit = createTurnPrompt(input, {
      boundary,
      parts,
      window,
      hasImages,
      imageOptions,
      warnings,
    });
    const made = { fit, request };
    prepared.set(candidate, made);
    return made;
  };

  const ask = async (
    candidate: ModelCandidate,
    steps: readonly StepRecord[],
    isLast: boolean,
  ): Promise<ModelStep> => {
    if (
      candidate.isWindowKnown &&
      input.messages &&
      isSurelyTooLong(input, candidate.contextTokens)
    )
      throw new NoAnswerError("too_long");
    const { fit, request } = await prepare(candidate);
    const hasCut =
      wasCut || steps.some((step) => step.calls.some(({ stored }) => stored !== undefined));
    const own = steps.flatMap(toStepMessages);
    const messages = markMessages(
      fit(own),
      own.length,
      isContinued ? candidate.provider.kind.cacheMarker : undefined,
    );
    const startedAt = clock.now();
    const answer = await callInSpan(input, candidate, options.traces, () =>
      request(messages, { isLast, hasCut }),
    );
    return toModelStep(candidate, answer, { isFinal, startedAt, endedAt: clock.now() });
  };

  return async (steps, isLast) => {
    const attempt = (candidate: ModelCandidate): Promise<ModelStep> =>
      ask(candidate, steps, isLast).catch((error: unknown) => {
        log.debug({ err: safeError(error), model: candidate.model.ref }, "a model call failed");
        throw error;
      });
    const hasSpoken = (): boolean => speaker?.hasSpoken() ?? false;
    const made = await callWithFallbacks(candidates, attempt, {
      signal,
      clock,
      deadline,
      timeoutMs,
      hasSpoken,
      gate: input.gate,
    });
    if (!made.ok) throw new StepFailedError({ ...made.failure, failedAttempts: made.failed });
    const fallback = renderFallback(made.failed, made.candidate);
    if (fallback !== undefined && !warnings.includes(fallback)) warnings.push(fallback);
    return made.failed.length === 0 ? made.value : { ...made.value, failedAttempts: made.failed };
  };
}
