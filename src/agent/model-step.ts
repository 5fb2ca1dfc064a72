import type { LanguageModel, LanguageModelMiddleware, ModelMessage } from "ai";
import type { Ms } from "../store/types.ts";
import type { Boundary } from "./boundary.ts";
import type { ModelStep } from "./loop.ts";
import { mergingText } from "./merge.ts";
import { buildInstructions } from "./messages.ts";
import type { NamedProvider } from "./models.ts";
import type { OfferedTool } from "./offered-tool.ts";
import { buildJsonOutput, getChoices, toSamplingOptions } from "./sampling.ts";
import { createSpeaker } from "./speaker.ts";
import { toReasoning, watchThinking } from "./thinking.ts";
import { boundToolResults } from "./tool-results.ts";
import { describeCallerTools } from "./tools.ts";
import type { TurnInput } from "./types.ts";

const CHUNK_MS = 120_000;

export interface StepCallOptions {
  input: TurnInput;
  provider: NamedProvider;
  model: Exclude<LanguageModel, string>;
  /** Makes each call a span. */
  tracing: LanguageModelMiddleware | undefined;
  boundary: Boundary;
  tools: readonly OfferedTool[];
  clock: { now(): Ms };
  /** When the turn has to be over. */
  deadline: Ms;
  /** Gets what the provider warns of, each once. */
  warnings: string[];
}

/** Calls the model once. Rejects with what the call threw. */
export type StepCall = (messages: ModelMessage[], isLast: boolean) => Promise<ModelStep>;

interface Answer {
  messages: readonly { role: string }[];
  calls: ModelStep["calls"];
  usage: { inputTokens?: number | undefined; outputTokens?: number | undefined; totalTokens?: number | undefined };
  finish: string;
  warnings: readonly { type: string }[] | undefined;
}

/** Builds what the model calls of a turn have in common: `withTools` is left out of the last one. */
async function buildCall({ input, provider, tools }: StepCallOptions) {
  const { isStepCount, jsonSchema } = await import("ai");
  const { toolChoice, ...sampling } = toSamplingOptions(input.sampling);
  const withTools = {
    // The agent's own tools win over a caller's of the same name.
    tools: {
      ...describeCallerTools(input.callerTools, jsonSchema),
      ...Object.fromEntries(tools.map(({ name, definition }) => [name, definition])),
    },
    ...(toolChoice === undefined ? {} : { toolChoice }),
  };
  const always = {
    instructions: buildInstructions(input),
    ...sampling,
    ...(input.sampling?.json ? { output: buildJsonOutput(input.sampling.json) } : {}),
    stopWhen: isStepCount(1),
    maxRetries: 0,
    abortSignal: input.signal,
    ...(input.thinking === undefined ? {} : { reasoning: toReasoning(input.thinking) }),
    providerOptions: provider.kind.requestOptions?.(getChoices(input.sampling), provider.settings) ?? {},
  };
  return { always, withTools };
}

/** Creates what makes the model calls of a turn, one a step: the tools have no `execute`, and nothing is retried. */
export async function createStepCall(options: StepCallOptions): Promise<StepCall> {
  const { input, provider, boundary, clock } = options;
  const { generateText, streamText, wrapLanguageModel } = await import("ai");
  // The SDK would print its warnings; ours go into the run.
  (globalThis as { AI_SDK_LOG_WARNINGS?: unknown }).AI_SDK_LOG_WARNINGS ??= false;
  const thinking = watchThinking(input.thinking, provider.kind.thinkingFields);
  const middleware: LanguageModelMiddleware[] = [boundToolResults(boundary)];
  if (input.thinking !== undefined) middleware.push(thinking.middleware);
  // The last is the innermost: it sees what is sent.
  if (options.tracing) middleware.push(options.tracing);
  const model = wrapLanguageModel({ model: options.model as Parameters<typeof wrapLanguageModel>[0]["model"], middleware });
  const speaker = input.onText && createSpeaker(input.onText);
  const { always, withTools } = await buildCall(options);

  const ask = async (messages: ModelMessage[], isLast: boolean): Promise<Answer> => {
    const totalMs = Math.max(1, options.deadline - clock.now());
    const call = { ...always, ...(isLast ? {} : withTools), messages };
    if (!speaker) {
      const result = await generateText({ ...call, model, timeout: { totalMs } });
      const { responseMessages, toolCalls, usage, finishReason: finish, warnings } = result;
      return { messages: responseMessages, calls: toolCalls, usage, finish, warnings };
    }
    const merged = wrapLanguageModel({ model, middleware: mergingText(speaker.begin()) });
    // Without `streamRetries` the SDK retries nothing: what was said cannot be taken back.
    const stream = streamText({ ...call, model: merged, timeout: { totalMs, chunkMs: CHUNK_MS }, onError: () => undefined });
    await speaker.read(stream.fullStream);
    return {
      messages: await stream.responseMessages,
      calls: await stream.toolCalls,
      usage: await stream.usage,
      finish: await stream.finishReason,
      warnings: await stream.warnings,
    };
  };

  return async (messages, isLast) => {
    const startedAt = clock.now();
    const { usage, ...answer } = await ask(messages, isLast);
    for (const text of thinking.warnings(answer.warnings)) if (!options.warnings.includes(text)) options.warnings.push(text);
    const { inputTokens, outputTokens, totalTokens } = usage;
    const counted = Object.entries({ inputTokens, outputTokens, totalTokens }).filter(([, value]) => value !== undefined);
    // The results of calls are the loop's to add: what the SDK makes of invalid ones is left out.
    const said = answer.messages.filter(({ role }) => role === "assistant");
    return {
      model: input.model.ref,
      messages: JSON.parse(JSON.stringify(said)) as unknown[],
      calls: answer.calls.map(({ toolCallId, toolName, input: given, invalid }) => ({ toolCallId, toolName, input: given, invalid })),
      finish: answer.finish,
      usage: Object.fromEntries(counted),
      startedAt,
      endedAt: clock.now(),
    };
  };
}
