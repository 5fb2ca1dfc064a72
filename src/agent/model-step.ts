import type {
  LanguageModelMiddleware,
  ModelMessage,
  wrapLanguageModel,
  SystemModelMessage,
} from "ai";
import type { Part, ModelProvider, RequestChoices } from "../contract/kinds.ts";
import { readMonotonic, type Clock } from "../core/clock.ts";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { Ms, StepRecord } from "../store/types.ts";
import type { Traces } from "../core/http/trace-context.ts";
import type { Boundary } from "./boundary.ts";
import { NoAnswerError, type ModelFailure } from "./failure.ts";
import type { ModelStep } from "./loop.ts";
import { keepInputs, recordInputs, requestCalls, restoreInputs } from "./tools/call-inputs.ts";
import { mergingText, createSpeaker, type Speaker } from "./speaker.ts";
import { createModelSpans } from "./model-span.ts";
import {
  buildInstructions,
  createTurnPrompt,
  isSurelyTooLong,
  type TurnPrompt,
} from "./messages.ts";
import { callWithFallbacks, renderFallback } from "./model-call.ts";
import type { OfferedTool } from "./tools/offered-tool.ts";
import { getStepText, toStepMessages } from "./steps.ts";
import { toReasoning, watchThinking, type SdkWarning } from "./thinking.ts";
import { separateThoughts } from "./thoughts.ts";
import { boundToolResults, sendingWellFormed } from "./tools/bound-results.ts";
import { READ_ON, READ_RESULT } from "./tools/tool-results.ts";
import { describeCallerTools } from "./tools/tool-box.ts";
import type { ModelCandidate, NamedProvider, TurnInput, Sampling } from "./types.ts";
import { toUsage, type CountedTokens } from "./usage.ts";

/** Returns the settings that the providers' common interface has a name for. */
function toSamplingOptions(sampling: Sampling = {}) {
  const {
    stopSequences,
    toolChoice: _choice,
    parallelToolCalls: _calls,
    json: _json,
    ...plain
  } = sampling;
  return {
    ...plain,
    ...(stopSequences && { stopSequences: [...stopSequences] }),
  };
}

/** An answer in JSON as the model's text: whether it fits is for the caller to see, who has asked for it. */
function buildJsonOutput({ strict: _strict, ...named }: NonNullable<Sampling["json"]>) {
  return {
    name: "text",
    responseFormat: Promise.resolve({ type: "json" as const, ...named }),
    parseCompleteOutput: async ({ text }: { text: string }) => text,
    parsePartialOutput: async ({ text }: { text: string }) => ({ partial: text }),
    createElementStreamTransform: () => undefined,
  };
}

/** Returns what each provider has a name of its own for. */
function getChoices({ parallelToolCalls, json }: Sampling = {}): RequestChoices {
  return {
    ...(parallelToolCalls === undefined ? {} : { parallelToolCalls }),
    ...(json?.strict === undefined ? {} : { strictJson: json.strict }),
  };
}

type Marker = ModelProvider["cacheMarker"];

/** Marks the instructions: with the tools before them they are the same for all turns of an agent. */
function markInstructions(instructions: string, marker: Marker): string | SystemModelMessage {
  return marker && instructions !== ""
    ? { role: "system", content: instructions, providerOptions: marker }
    : instructions;
}

/**
 * Marks the message of the turn and the last message; `own` is how many messages at the end are of the turn's steps. The next
 * step and the next turn of the session begin with all of them.
 */
function markMessages(
  messages: readonly ModelMessage[],
  own: number,
  marker: Marker,
): ModelMessage[] {
  if (!marker) return [...messages];
  const marked = new Set([messages.length - own - 1, messages.length - 1]);
  return messages.map((message, index) =>
    marked.has(index) ? { ...message, providerOptions: marker } : message,
  );
}

const CHUNK_MS = 120_000;

type Model = Parameters<typeof wrapLanguageModel>[0]["model"];

interface StepCallOptions {
  input: TurnInput;
  /** The messages before the input. */
  parts: readonly Part[];
  boundary: Boundary;
  tools: readonly OfferedTool[];
  clock: Pick<Clock, "now" | "monotonic" | "sleep">;
  log: Logger;
  /** The deadline of the turn, in monotonic time. */
  deadline: Ms;
  /** Gets the provider's warnings, and what was left out to fit the model's window; each text once. */
  warnings: string[];
  getModel(candidate: ModelCandidate): Promise<Model>;
  traces: Traces;
}

/** The tools of a step: the last step has none, and `read_result` is offered once a result was cut. */
interface StepKind {
  isLast: boolean;
  hasCut: boolean;
}

/** The options that the calls of one model have in common. */
interface CandidateCall {
  prompt: TurnPrompt;
  /** `hasCut`: a result that the model sees was cut. */
  call(messages: ModelMessage[], step: StepKind): Promise<ModelStep>;
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

interface Answer {
  messages: readonly ModelMessage[];
  /** Of calls, as the model wrote them. */
  inputs: ReadonlyMap<string, string>;
  calls: ModelStep["calls"];
  usage: CountedTokens;
  finish: string;
  warnings: readonly SdkWarning[] | undefined;
}

/** Builds the options that the model calls of a turn have in common; the last call does not get `withTools`. */
async function buildCall({ input, tools }: StepCallOptions, { kind, settings }: NamedProvider) {
  const { isStepCount, jsonSchema } = await import("ai");
  const isWithoutCalls = input.sampling?.toolChoice === "none";
  // The agent's own tools win over a caller's of the same name.
  const caller = describeCallerTools(input.callerTools, jsonSchema);
  const own = Object.fromEntries(tools.map(({ name, definition }) => [name, definition]));
  const { [READ_RESULT]: _reader, ...uncut } = own;
  const getTools = ({ isLast, hasCut }: StepKind) =>
    isLast
      ? {}
      : {
          tools: { ...caller, ...(hasCut ? own : uncut) },
          ...(isWithoutCalls ? { toolChoice: "none" as const } : {}),
        };
  const always = {
    instructions: markInstructions(buildInstructions(input), kind.cacheMarker),
    ...toSamplingOptions(input.sampling),
    ...(input.sampling?.json ? { output: buildJsonOutput(input.sampling.json) } : {}),
    stopWhen: isStepCount(1),
    maxRetries: 0,
    abortSignal: input.signal,
    ...(input.thinking === undefined ? {} : { reasoning: toReasoning(input.thinking) }),
    providerOptions: kind.requestOptions?.(getChoices(input.sampling), settings) ?? {},
  };
  return { always, getTools };
}

/** Creates the function that calls one model. The tools have no `execute`, and nothing is retried. */
async function createCandidateCall(
  candidate: ModelCandidate,
  options: StepCallOptions,
  speaker: Speaker | undefined,
): Promise<CandidateCall> {
  const { input, parts, boundary, clock, warnings } = options;
  const { generateText, streamText, wrapLanguageModel } = await import("ai");
  // The SDK prints its warnings by default; here they become warnings of the run.
  (globalThis as { AI_SDK_LOG_WARNINGS?: unknown }).AI_SDK_LOG_WARNINGS ??= false;
  const { kind } = candidate.provider;
  const images = kind.imagesInResults ? "result" : "message";
  const thinking = watchThinking(input.thinking, kind.thinkingFields);
  const inputs = new Map<string, string>();
  const middleware: LanguageModelMiddleware[] = [
    recordInputs(inputs),
    requestCalls(input.sampling?.toolChoice),
    boundToolResults(boundary, candidate.hasImages ? images : "nowhere"),
    sendingWellFormed,
    restoreInputs,
  ];
  if (input.thinking !== undefined) middleware.push(thinking.middleware);
  // The last middleware is the innermost: it sees the request as it is sent.
  if (options.traces.isOn) middleware.push(createModelSpans(input, candidate, options.traces));
  const model = wrapLanguageModel({ model: await options.getModel(candidate), middleware });
  const { always, getTools } = await buildCall(options, candidate.provider);

  const ask = async (messages: ModelMessage[], step: StepKind): Promise<Answer> => {
    const totalMs = Math.max(1, options.deadline - readMonotonic(clock));
    const call = { ...always, ...getTools(step), messages };
    if (!speaker) {
      const result = await generateText({ ...call, model, timeout: { totalMs } });
      const { responseMessages, toolCalls, usage, finishReason: finish, warnings } = result;
      return { messages: responseMessages, calls: toolCalls, inputs, usage, finish, warnings };
    }
    speaker.begin();
    const merged = wrapLanguageModel({ model, middleware: mergingText });
    // Without `streamRetries` the SDK retries nothing: text that a reader has cannot be taken back.
    const stream = streamText({
      ...call,
      model: merged,
      timeout: { totalMs, chunkMs: CHUNK_MS },
      onError: () => undefined,
    });
    await speaker.read(stream.fullStream);
    // A stream that ends without the reason why was cut, whatever it held by then: calls of tools in it are not made either.
    if ((await stream.rawFinishReason) === undefined && (await stream.finishReason) === "other")
      throw new NoAnswerError("cut");
    return {
      messages: await stream.responseMessages,
      calls: await stream.toolCalls,
      inputs,
      usage: await stream.usage,
      finish: await stream.finishReason,
      warnings: await stream.warnings,
    };
  };

  return {
    prompt: createTurnPrompt(input, {
      boundary,
      parts,
      window: candidate.contextTokens,
      hasImages: candidate.hasImages,
      imageOptions: kind.imageOptions,
      warnings,
    }),
    async call(messages, step) {
      const startedAt = clock.now();
      const answer = await ask(messages, step);
      for (const text of thinking.warnings(answer.warnings))
        if (!warnings.includes(text)) warnings.push(text);
      // Text that a reader has cannot be taken back.
      const isFinal = input.onText !== undefined && input.onCall === undefined;
      const said = separateThoughts(answer.messages, { isFinal });
      const times = { startedAt, endedAt: clock.now() };
      return toModelStep(candidate, { ...answer, messages: said }, times);
    },
  };
}

/** @throws NoAnswerError if the answer is empty or withheld. */
function toModelStep(
  { model, price }: ModelCandidate,
  { usage, finish, ...answer }: Answer,
  times: Pick<ModelStep, "startedAt" | "endedAt">,
): ModelStep {
  // The loop adds the results of calls. Results that the SDK makes of invalid calls are left out.
  const said = answer.messages.filter(({ role }) => role === "assistant");
  const messages = JSON.parse(JSON.stringify(keepInputs(said, answer.inputs))) as unknown[];
  const isEmpty = answer.calls.length === 0 && getStepText({ messages }) === "";
  if (finish === "content-filter" && isEmpty) throw new NoAnswerError("withheld");
  if (finish === "error" || (finish === "other" && isEmpty)) throw new NoAnswerError("empty");
  const calls = answer.calls.map(({ toolCallId, toolName, input, invalid }) => ({
    toolCallId,
    toolName,
    input,
    inputText: answer.inputs.get(toolCallId),
    invalid,
  }));
  return { model: model.ref, messages, calls, finish, usage: toUsage(usage, price), ...times };
}

/**
 * Creates the function that makes the model calls of a turn, one per step, with the first of `candidates` that answers. It
 * rejects with a `StepFailedError` if no candidate answers.
 */
export function createStepCall(
  candidates: readonly ModelCandidate[],
  options: StepCallOptions,
): (steps: readonly StepRecord[], isLast: boolean) => Promise<ModelStep> {
  const { input, clock, log, deadline, warnings } = options;
  const { signal, timeoutMs } = input;
  const speaker = input.onText && createSpeaker(input.onText, input.onReasoning, input.onCall);
  const calls = new Map<ModelCandidate, CandidateCall>();
  // Writing to a cache costs more: only if a later request begins with the same text.
  const isContinued =
    options.tools.some(({ name }) => name !== READ_RESULT) || input.history.length > 0;
  const wasCut = JSON.stringify(input.history).includes(READ_ON);
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
    const { prompt, call } =
      calls.get(candidate) ?? (await createCandidateCall(candidate, options, speaker));
    calls.set(candidate, { prompt, call });
    const hasCut =
      wasCut || steps.some((step) => step.calls.some(({ stored }) => stored !== undefined));
    const own = steps.flatMap(toStepMessages);
    const messages = markMessages(
      prompt.fit(own),
      own.length,
      isContinued ? candidate.provider.kind.cacheMarker : undefined,
    );
    return call(messages, { isLast, hasCut });
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
