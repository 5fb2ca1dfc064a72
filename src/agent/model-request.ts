/** Asks one model: the settings of its calls, the middleware between the SDK and the model, and the answer. */
import type {
  JSONSchema7,
  LanguageModelMiddleware,
  ModelMessage,
  Schema,
  SystemModelMessage,
  ToolSet,
} from "ai";
import type { ModelProvider, Part, RequestChoices } from "../contract/kinds.ts";
import { readMonotonic, type Clock } from "../core/clock.ts";
import type { Traces } from "../core/http/trace-context.ts";
import type { Logger } from "../core/log.ts";
import type { Boundary } from "./boundary.ts";
import { NoAnswerError } from "./failure.ts";
import type { ModelStep } from "./loop.ts";
import { buildInstructions } from "./messages.ts";
import { mergingText, type Speaker } from "./speaker.ts";
import { toReasoning, watchThinking, type SdkWarning } from "./thinking.ts";
import { boundToolResults, sendingWellFormed } from "./tools/bound-results.ts";
import { keepInputs, recordInputs, requestCalls, restoreCalls } from "./tools/call-inputs.ts";
import { READ_RESULT } from "./tools/tool-results.ts";
import type {
  CallerTool,
  ModelCandidate,
  NamedProvider,
  PickedTools,
  Sampling,
  SdkModel,
  TurnInput,
} from "./types.ts";
import type { CountedTokens } from "./usage.ts";

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

const ANY_OBJECT = { type: "object", properties: {} };

/** Describes the tools of a turn's caller to the model. The caller carries out their calls. */
function describeCallerTools(
  tools: readonly CallerTool[] = [],
  jsonSchema: (schema: JSONSchema7) => Schema,
): ToolSet {
  return Object.fromEntries(
    tools.map(({ name, description, schema, strict }) => [
      name,
      {
        inputSchema: jsonSchema({ ...ANY_OBJECT, ...schema }),
        ...(description === undefined ? {} : { description }),
        ...(strict === undefined ? {} : { strict }),
      },
    ]),
  );
}

/** Marks the instructions: with the tools before them they are the same for all turns of an agent. */
function markInstructions(
  instructions: string,
  marker: ModelProvider["cacheMarker"],
): string | SystemModelMessage {
  return marker && instructions !== ""
    ? { role: "system", content: instructions, providerOptions: marker }
    : instructions;
}

const CHUNK_MS = 120_000;

/** A turn, with what its model calls need. */
export interface TurnContext {
  input: TurnInput;
  /** The text that context providers have added: the messages before the input. */
  parts: readonly Part[];
  /** Gets what the operator should know, each text once. */
  warnings: string[];
  /** The deadline of the turn, in milliseconds of monotonic time. */
  deadline: number;
  getModel(candidate: ModelCandidate): Promise<SdkModel>;
  clock: Pick<Clock, "now" | "monotonic" | "sleep">;
  log: Logger;
  traces: Traces;
}

export interface ModelRequestOptions extends TurnContext {
  boundary: Boundary;
  tools: PickedTools["tools"];
}

/** The tools of a step: the last step has none, and `read_result` is offered once a result was cut. */
interface StepKind {
  isLast: boolean;
  hasCut: boolean;
}

/** The answer of a model, with the inputs of its calls as the model wrote them. */
export interface ModelAnswer extends Pick<ModelStep, "calls" | "finish"> {
  messages: readonly ModelMessage[];
  usage: CountedTokens;
}

/** Builds the options that the calls of one model have in common. `getTools`: those of a step. */
async function buildCall({ input, tools }: ModelRequestOptions, { kind, settings }: NamedProvider) {
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

/** Creates the function that asks one model. The tools have no `execute`, and nothing is retried. */
export async function createModelRequest(
  candidate: ModelCandidate,
  options: ModelRequestOptions,
  speaker: Speaker | undefined,
): Promise<(messages: ModelMessage[], step: StepKind) => Promise<ModelAnswer>> {
  const { input, boundary, clock, warnings } = options;
  const { generateText, streamText, wrapLanguageModel } = await import("ai");
  // The SDK prints its warnings by default; here they become warnings of the run.
  (globalThis as { AI_SDK_LOG_WARNINGS?: unknown }).AI_SDK_LOG_WARNINGS ??= false;
  const { kind } = candidate.provider;
  const images = kind.imagesInResults ? "result" : "message";
  const thinking = watchThinking(input.thinking);
  const inputs = new Map<string, string>();
  const middleware: LanguageModelMiddleware[] = [
    recordInputs(inputs),
    requestCalls(input.sampling?.toolChoice),
    boundToolResults(boundary, candidate.hasImages ? images : "nowhere"),
    sendingWellFormed,
    restoreCalls(kind),
  ];
  if (input.thinking !== undefined) middleware.push(thinking.middleware);
  const model = wrapLanguageModel({ model: await options.getModel(candidate), middleware });
  const { always, getTools } = await buildCall(options, candidate.provider);

  const ask = async (
    messages: ModelMessage[],
    step: StepKind,
  ): Promise<ModelAnswer & { warnings: readonly SdkWarning[] | undefined }> => {
    const totalMs = Math.max(1, options.deadline - readMonotonic(clock));
    const call = { ...always, ...getTools(step), messages };
    if (!speaker) {
      const result = await generateText({ ...call, model, timeout: { totalMs } });
      const { responseMessages, toolCalls, usage, finishReason: finish } = result;
      const { warnings: given } = result;
      return { messages: responseMessages, calls: toolCalls, usage, finish, warnings: given };
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
    const finish = await stream.finishReason;
    // A stream that ends without the reason why was cut, whatever it held by then: calls of tools in it are not made either.
    if (
      finish === "interrupted" ||
      (finish === "other" && (await stream.rawFinishReason) === undefined)
    )
      throw new NoAnswerError("cut");
    return {
      messages: await stream.responseMessages,
      calls: await stream.toolCalls,
      usage: await stream.usage,
      finish,
      warnings: await stream.warnings,
    };
  };

  return async (messages, step) => {
    const { messages: given, calls, usage, finish, warnings: told } = await ask(messages, step);
    for (const text of thinking.warnings(told)) if (!warnings.includes(text)) warnings.push(text);
    // The loop adds the results of calls. Results that the SDK makes of invalid calls are left out.
    const said = given.filter(({ role }) => role === "assistant");
    return {
      messages: keepInputs(said, inputs),
      calls: calls.map(({ toolCallId, toolName, input: sent, invalid }) => ({
        toolCallId,
        toolName,
        input: sent,
        inputText: inputs.get(toolCallId),
        invalid,
      })),
      usage,
      finish,
    };
  };
}
