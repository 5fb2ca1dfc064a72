import type { LanguageModel, ModelMessage } from "ai";
import type { Config } from "../config/schema/index.ts";
import type { Clock } from "../core/clock.ts";
import type { Issue } from "../core/errors.ts";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { cutText, plainText, type TextPart } from "../core/text.ts";
import { BOUNDARY_RULE, createBoundary, trustedLine, type Boundary } from "./boundary.ts";
import { ECHO, echoTurn } from "./echo.ts";
import { classifyFailure } from "./failure.ts";
import { estimateTokens, fitHistory, renderHistory } from "./history.ts";
import { createModels, type ModelSet } from "./models.ts";
import { reasoningOf, watchThinking } from "./thinking.ts";
import { createToolBox } from "./tools.ts";
import type { AgentRuntime, TurnInput, TurnResult } from "./types.ts";

export interface RuntimeOptions {
  config: Config;
  env: Record<string, string | undefined>;
  clock: Pick<Clock, "now">;
  log: Logger;
  fetch?: typeof fetch;
}

const CONTEXT_TOKENS = 128_000;
/** Kept free for the answer. */
const ANSWER_TOKENS = 8_000;
const MAX_STEPS = 16;
const TOOL_MS = 60_000;
/** The most that a turn waits for a server of tools. */
const CONNECT_MS = 10_000;
const CHUNK_MS = 120_000;

type Settings = NonNullable<ReturnType<ModelSet["provider"]>>;

/** Makes the provider's model. Each provider's package is loaded when a turn first needs it. */
async function createModel(id: string, model: string, settings: Settings, fetcher: typeof fetch): Promise<LanguageModel> {
  const common = {
    headers: settings.headers,
    ...(settings.apiKey === undefined ? {} : { apiKey: settings.apiKey }),
    ...(settings.baseUrl === undefined ? {} : { baseURL: settings.baseUrl }),
    fetch: fetcher,
  };
  switch (settings.type) {
    case "openai-compatible": {
      const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
      return createOpenAICompatible({ ...common, name: id, baseURL: settings.baseUrl ?? "", includeUsage: true })(model);
    }
    case "openai":
      return (await import("@ai-sdk/openai")).createOpenAI(common)(model);
    case "anthropic":
      return (await import("@ai-sdk/anthropic")).createAnthropic(common)(model);
    case "google":
      return (await import("@ai-sdk/google")).createGoogleGenerativeAI(common)(model);
  }
}

function instructionsOf(input: TurnInput): string {
  const { agent } = input;
  const own = agent.instructions ?? `You are ${agent.name}.${agent.description ? ` ${agent.description}` : ""}`;
  return [own, BOUNDARY_RULE, input.instructions].filter(Boolean).join("\n\n");
}

/** The new input, cut where it alone would not fit the model's window. */
function fitInput(parts: readonly TextPart[], tokens: number): { parts: readonly TextPart[]; cut: number } {
  if (estimateTokens(plainText(parts)) <= tokens) return { parts, cut: 0 };
  let left = tokens;
  let cut = 0;
  const kept = parts.map((part) => {
    const piece = cutText(part.text, Math.max(0, left));
    left -= piece.text.length;
    cut += piece.cut;
    return { text: piece.cut > 0 ? `${piece.text}[cut: ${piece.cut} characters]` : piece.text, outside: part.outside };
  });
  return { parts: kept, cut };
}

function messagesOf(input: TurnInput, boundary: Boundary, window: number, warnings: string[]): ModelMessage[] {
  const budget = Math.max(1000, window - ANSWER_TOKENS - estimateTokens(instructionsOf(input)));
  const fitted = fitInput(input.input, budget);
  if (fitted.cut > 0) warnings.push(`the message was cut by ${fitted.cut} characters to fit the model's window`);
  const { turns, left } = fitHistory(input.history, budget - estimateTokens(plainText(fitted.parts)));
  if (left > 0) warnings.push(`${left} older turns were left out to fit the model's window`);
  const body = boundary.renderInput(fitted.parts, {
    origin: input.hook === undefined ? "user" : `hook ${input.hook}`,
    unsafe: input.unsafe,
  });
  const lead = input.hook === undefined || input.heartbeat ? "" : `${trustedLine(input.hook)}\n\n`;
  return [...renderHistory(turns, boundary), { role: "user", content: lead + body }];
}

/** Makes the runtime of a snapshot. `issues` are config errors about models and providers. */
export function createAgentRuntime(options: RuntimeOptions): { runtime: AgentRuntime; issues: Issue[] } {
  const { config, env, clock, log } = options;
  const set = createModels(config, env);
  const toolBox = createToolBox(config.mcp.servers, log);

  const callModel = async (input: TurnInput, settings: Settings, warnings: string[]): Promise<TurnResult> => {
    const { generateText, isStepCount, streamText } = await import("ai");
    // The SDK would print its warnings; ours go into the run.
    (globalThis as { AI_SDK_LOG_WARNINGS?: boolean }).AI_SDK_LOG_WARNINGS = false;
    const boundary = createBoundary();
    const picked = await toolBox.pick(input.tools, boundary, Math.min(CONNECT_MS, input.timeoutMs / 2));
    warnings.push(...picked.warnings);
    const thinking = watchThinking(input.thinking, options.fetch ?? fetch);
    const call = {
      model: await createModel(input.model.provider, input.model.model, settings, thinking.fetch),
      instructions: instructionsOf(input),
      messages: messagesOf(input, boundary, settings.contextTokens ?? CONTEXT_TOKENS, warnings),
      tools: picked.tools,
      stopWhen: isStepCount(MAX_STEPS),
      maxRetries: 0,
      abortSignal: input.signal,
      timeout: { totalMs: input.timeoutMs, toolMs: TOOL_MS, ...(input.onText ? { chunkMs: CHUNK_MS } : {}) },
      ...(input.thinking === undefined ? {} : { reasoning: reasoningOf(input.thinking) }),
      // The history is ours: the vendor keeps none, and gets whole messages, not references into a store of its own.
      ...(settings.type === "openai" ? { providerOptions: { openai: { store: false } } } : {}),
    };
    if (!input.onText) {
      const result = await generateText(call);
      warnings.push(...thinking.warnings(result.warnings));
      return turnOf(result.text, result.responseMessages, result.totalUsage, result.finishReason, warnings, input.model.provider);
    }
    const stream = streamText({ ...call, onError: () => undefined });
    for await (const part of stream.fullStream) {
      if (part.type === "text-delta") input.onText(part.text);
      // A stream does not throw by itself: its failures are parts of it.
      else if (part.type === "error") throw part.error;
      else if (part.type === "abort") throw new DOMException("aborted", "AbortError");
    }
    warnings.push(...thinking.warnings(await stream.warnings));
    return turnOf(
      await stream.text,
      await stream.responseMessages,
      await stream.totalUsage,
      await stream.finishReason,
      warnings,
      input.model.provider,
    );
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

function turnOf(
  text: string,
  messages: unknown[],
  usage: { inputTokens?: number | undefined; outputTokens?: number | undefined; totalTokens?: number | undefined },
  finish: string,
  warnings: string[],
  provider: string,
): TurnResult {
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
  return { ok: true, text, messages: JSON.parse(JSON.stringify(messages)) as unknown[], usage: counted, finish, warnings };
}
