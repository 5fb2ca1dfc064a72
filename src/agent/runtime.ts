import type { TextStreamPart, ToolSet } from "ai";
import type { Config } from "../config/schema/index.ts";
import type { Clock } from "../core/clock.ts";
import type { Issue } from "../core/errors.ts";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { createBoundary } from "./boundary.ts";
import { ECHO, echoTurn } from "./echo.ts";
import { classifyFailure } from "./failure.ts";
import { instructionsOf, messagesOf } from "./messages.ts";
import { createPieces, mergingText, type Pieces } from "./merge.ts";
import { createModels, type ModelSet } from "./models.ts";
import { reasoningOf, watchThinking } from "./thinking.ts";
import { outputOf, providerOptionsOf, samplingOf } from "./sampling.ts";
import { boundToolResults } from "./tool-results.ts";
import { createToolBox, directTools } from "./tools.ts";
import type { AgentRuntime, TurnInput, TurnResult } from "./types.ts";

export interface RuntimeOptions {
  config: Config;
  /** The config's folder: programs of MCP servers run there. */
  baseDir: string;
  env: Record<string, string | undefined>;
  clock: Pick<Clock, "now">;
  log: Logger;
  fetch: typeof fetch;
}

const CONTEXT_TOKENS = 128_000;
const MAX_STEPS = 16;
const TOOL_MS = 60_000;
/** The most that a turn waits for a server of tools. */
const CONNECT_MS = 10_000;
const CHUNK_MS = 120_000;
const MAX_KEPT = 64;

type Settings = NonNullable<ReturnType<ModelSet["provider"]>>;

/** Makes the provider's model. Each provider's package is loaded when a turn first needs it. */
async function createModel(id: string, model: string, settings: Settings, fetcher: typeof fetch) {
  const common = {
    headers: settings.headers,
    ...(settings.apiKey === undefined ? {} : { apiKey: settings.apiKey }),
    ...(settings.baseUrl === undefined ? {} : { baseURL: settings.baseUrl }),
    fetch: fetcher,
  };
  switch (settings.type) {
    case "openai-compatible": {
      const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
      return createOpenAICompatible({
        ...common,
        name: id,
        baseURL: settings.baseUrl ?? "",
        includeUsage: true,
        supportsStructuredOutputs: true,
      })(model);
    }
    case "openai":
      return (await import("@ai-sdk/openai")).createOpenAI(common)(model);
    case "anthropic":
      return (await import("@ai-sdk/anthropic")).createAnthropic(common)(model);
    case "google":
      return (await import("@ai-sdk/google")).createGoogleGenerativeAI(common)(model);
  }
}

/** Makes the runtime of a snapshot. `issues` are config errors about models and providers. */
export function createAgentRuntime(options: RuntimeOptions): { runtime: AgentRuntime; issues: Issue[] } {
  const { config, env, clock, log } = options;
  const set = createModels(config, env);
  const toolBox = createToolBox(config.mcp.servers, log, { cwd: options.baseDir, env, fetch: options.fetch });
  const kept = new Map<string, ReturnType<typeof createModel>>();

  /** A model makes its schemas when it is made, which costs more than many a turn: it is kept where all turns can share it. */
  const modelFor = (input: TurnInput, settings: Settings, fetcher: typeof fetch): ReturnType<typeof createModel> => {
    const { ref, provider, model } = input.model;
    if (input.thinking !== undefined) return createModel(provider, model, settings, fetcher);
    const known = kept.get(ref) ?? createModel(provider, model, settings, fetcher);
    known.catch(() => kept.delete(ref));
    // Callers may name as many as they like.
    if (kept.size >= MAX_KEPT) kept.clear();
    kept.set(ref, known);
    return known;
  };

  const callModel = async (input: TurnInput, settings: Settings, warnings: string[]): Promise<TurnResult> => {
    const { generateText, isStepCount, jsonSchema, streamText, wrapLanguageModel } = await import("ai");
    // The SDK would print its warnings; ours go into the run.
    (globalThis as { AI_SDK_LOG_WARNINGS?: unknown }).AI_SDK_LOG_WARNINGS ??= false;
    const boundary = createBoundary();
    const picked = await toolBox.pick(input.tools, boundary, Math.min(CONNECT_MS, input.timeoutMs / 2));
    warnings.push(...picked.warnings);
    const thinking = watchThinking(input.thinking, options.fetch);
    const plain = await modelFor(input, settings, thinking.fetch);
    const call = {
      model: wrapLanguageModel({ model: plain, middleware: boundToolResults(boundary) }),
      instructions: instructionsOf(input),
      messages: messagesOf(input, boundary, settings.contextTokens ?? CONTEXT_TOKENS, warnings),
      // The agent's own tools win over a caller's of the same name.
      tools: { ...directTools(input, jsonSchema), ...picked.tools },
      ...samplingOf(input.sampling),
      ...(input.sampling?.json ? { output: outputOf(input.sampling.json) } : {}),
      stopWhen: isStepCount(MAX_STEPS),
      maxRetries: 0,
      abortSignal: input.signal,
      timeout: { totalMs: input.timeoutMs, toolMs: TOOL_MS, ...(input.onText ? { chunkMs: CHUNK_MS } : {}) },
      ...(input.thinking === undefined ? {} : { reasoning: reasoningOf(input.thinking) }),
      providerOptions: providerOptionsOf(settings.type, input.model.provider, input.sampling),
    };
    const ended = (end: Omit<Ended, "provider" | "warnings" | "callerTools">): TurnResult =>
      turnOf({ ...end, provider: input.model.provider, warnings, callerTools: (input.callerTools ?? []).map(({ name }) => name) });
    if (!input.onText) {
      const result = await generateText(call);
      warnings.push(...thinking.warnings(result.warnings));
      const { text, steps, responseMessages: messages, totalUsage: usage, finishReason: finish } = result;
      return ended({ text, steps, messages, usage, finish });
    }
    const pieces = createPieces();
    const model = wrapLanguageModel({ model: call.model, middleware: mergingText(pieces) });
    const stream = streamText({ ...call, model, onError: () => undefined });
    await pass(stream.fullStream, pieces, input.onText);
    warnings.push(...thinking.warnings(await stream.warnings));
    return ended({
      text: await stream.text,
      steps: await stream.steps,
      messages: await stream.responseMessages,
      usage: await stream.totalUsage,
      finish: await stream.finishReason,
    });
  };

  const runTurn = async (input: TurnInput): Promise<TurnResult> => {
    if (input.model.ref === ECHO.ref) return echoTurn(input);
    const warnings: string[] = [];
    const settings = set.provider(input.model.provider);
    if (!settings)
      return {
        ok: false,
        code: "unknown_model",
        message: `models.providers has no "${input.model.provider}" any more`,
        retryable: false,
        warnings,
      };
    const startedAt = clock.now();
    try {
      return await callModel(input, settings, warnings);
    } catch (error) {
      if (input.signal.aborted) return { ok: false, code: "cancelled", message: "the turn was cancelled", retryable: false, warnings };
      const timedOut = clock.now() - startedAt >= input.timeoutMs || isTimeout(error);
      if (timedOut)
        return {
          ok: false,
          code: "timeout",
          message: `the turn took longer than ${input.timeoutMs / 1000} seconds`,
          retryable: false,
          warnings,
        };
      log.debug({ err: safeError(error), provider: input.model.provider }, "a model call failed");
      return { ...classifyFailure(error, input.model.provider, clock.now()), warnings };
    }
  };

  return { runtime: { models: set.models, runTurn, close: () => toolBox.close() }, issues: set.issues };
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && (error.name === "TimeoutError" || (error.name === "AbortError" && /timeout/i.test(error.message)));
}

interface Step {
  text: string;
  toolCalls: readonly { toolCallId: string; toolName: string; input: unknown; invalid?: boolean | undefined }[];
}

/** Between what was said before a call of a tool and what was said after it. */
const STEP_GAP = "\n\n";

/** Hands a stream's text on. A stream does not throw by itself: its failures are parts of it. */
async function pass(parts: AsyncIterable<TextStreamPart<ToolSet>>, pieces: Pieces, onText: (delta: string) => void): Promise<void> {
  let spoke = false;
  let gap = "";
  for await (const part of parts) {
    if (part.type === "text-delta" && part.text !== "") {
      for (const piece of pieces.split(part.text)) {
        onText(gap + piece);
        gap = "";
      }
      spoke = true;
    } else if (part.type === "start-step" && spoke) gap = STEP_GAP;
    else if (part.type === "error") throw part.error;
    else if (part.type === "abort") throw new DOMException("aborted", "AbortError");
  }
}

interface Ended {
  text: string;
  steps: readonly Step[];
  messages: unknown[];
  usage: { inputTokens?: number | undefined; outputTokens?: number | undefined; totalTokens?: number | undefined };
  finish: string;
  warnings: string[];
  provider: string;
  callerTools: readonly string[];
}

function turnOf({ text, steps, messages, usage, finish, warnings, provider, callerTools }: Ended): TurnResult {
  if (finish === "content-filter" && text === "")
    return {
      ok: false,
      code: "provider_refused",
      message: `the provider "${provider}" withheld its answer (content filter)`,
      retryable: false,
      warnings,
    };
  if (finish === "error" || (finish === "other" && text === ""))
    return {
      ok: false,
      code: "provider_error",
      message: `the provider "${provider}" gave no answer`,
      retryable: true,
      warnings,
    };
  if (finish === "length") warnings.push("the reply ends where the model's limit for one answer was reached");
  const counted = Object.fromEntries(
    Object.entries({ inputTokens: usage.inputTokens, outputTokens: usage.outputTokens, totalTokens: usage.totalTokens }).filter(
      ([, value]) => value !== undefined,
    ),
  );
  const said = steps.map((step) => step.text).filter((words) => words !== "");
  const calls = (steps.at(-1)?.toolCalls ?? [])
    .filter((call) => !call.invalid && callerTools.includes(call.toolName))
    .map(({ toolCallId: id, toolName: tool, input }) => ({ id, tool, input }));
  return {
    ok: true,
    text,
    spoken: said.join(STEP_GAP),
    calls,
    messages: JSON.parse(JSON.stringify(messages)) as unknown[],
    usage: counted,
    finish,
    warnings,
  };
}
