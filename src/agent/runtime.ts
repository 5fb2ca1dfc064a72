import type { LanguageModelMiddleware, TextStreamPart, ToolSet, wrapLanguageModel } from "ai";
import type { Config } from "../config/schema/index.ts";
import type { Clock } from "../core/clock.ts";
import type { Issue } from "../core/errors.ts";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { passOnTrace } from "../core/trace-context.ts";
import { embeddingIssues } from "../knowledge/configured.ts";
import type { Part } from "../contract/kinds.ts";
import type { Telemetry } from "../telemetry/types.ts";
import { createBoundary } from "./boundary.ts";
import { gatherContext } from "./context.ts";
import type { AgentExtensions, TurnExtension } from "./extensions.ts";
import { ECHO, echoTurn } from "./no-model.ts";
import { classifyFailure } from "./failure.ts";
import { buildInstructions, buildMessages } from "./messages.ts";
import { createPieces, mergingText, type Pieces } from "./merge.ts";
import { createModels, type NamedProvider } from "./models.ts";
import { toSdkTools } from "./offered-tool.ts";
import { createCallNumbers } from "./plugin-tools.ts";
import type { ProviderKind } from "./providers.ts";
import { toReasoning, watchThinking } from "./thinking.ts";
import { getChoices, buildJsonOutput, toSamplingOptions } from "./sampling.ts";
import { boundToolResults } from "./tool-results.ts";
import { toolIssues } from "./tool-checks.ts";
import { createToolBox, describeCallerTools, offerOwnTools } from "./tools.ts";
import { toTracedModel, traceTools } from "./traced-turn.ts";
import type { AgentRuntime, TurnInput, TurnResult } from "./types.ts";

export interface RuntimeOptions {
  config: Config;
  /** The config's folder: programs of MCP servers run there. */
  baseDir: string;
  env: Record<string, string | undefined>;
  clock: Pick<Clock, "now" | "sleep">;
  log: Logger;
  fetch: typeof fetch;
  /** Undefined if nothing collects traces. */
  telemetry?: () => Telemetry | undefined;
  /** What plugins offer to agents. `incomplete`: one could not be loaded, so that not all tools and kinds of providers are known. */
  plugins: { offers: AgentExtensions; incomplete: boolean };
  /** The kinds of model providers. */
  kinds: readonly ProviderKind[];
}

const CONTEXT_TOKENS = 128_000;
const MAX_STEPS = 16;
const TOOL_MS = 60_000;
/** The most that a turn waits for a server of tools. */
const CONNECT_MS = 10_000;
const CHUNK_MS = 120_000;
const MAX_KEPT = 64;

type Model = Parameters<typeof wrapLanguageModel>[0]["model"];

/**
 * Makes models. A model makes its schemas when it is made, which costs more than many a turn, so that turns share it.
 * The provider's package is loaded when a turn first needs it.
 */
function createModelCache(fetcher: typeof fetch): (provider: NamedProvider, model: string) => Promise<Model> {
  const factories = new Map<string, ReturnType<NamedProvider["kind"]["create"]>>();
  const kept = new Map<string, Promise<Model>>();
  return ({ kind, settings }, model) => {
    const ref = `${settings.name}/${model}`;
    const create = factories.get(settings.name) ?? kind.create(settings, { fetch: fetcher });
    factories.set(settings.name, create);
    create.catch(() => factories.delete(settings.name));
    const known = kept.get(ref) ?? create.then((makeModel) => makeModel(model) as Model);
    known.catch(() => kept.delete(ref));
    // Callers may name as many as they like.
    if (kept.size >= MAX_KEPT) kept.clear();
    kept.set(ref, known);
    return known;
  };
}

/** Makes the runtime of a snapshot. `issues` are config errors about models, providers and tools. */
export function createAgentRuntime(options: RuntimeOptions): { runtime: AgentRuntime; issues: Issue[] } {
  const { config, env, clock, log, kinds, plugins } = options;
  const { offers, incomplete: isIncomplete } = plugins;
  const set = createModels({ config, env, kinds, isIncomplete });
  const issues = [...set.issues, ...embeddingIssues(config, kinds), ...toolIssues(config, offers.tools, isIncomplete)];
  const toolBox = createToolBox({
    servers: config.mcp.servers,
    tools: offers.tools,
    log,
    cwd: options.baseDir,
    env,
    fetch: passOnTrace(options.fetch, () => options.telemetry?.()?.current()),
  });
  const getModel = createModelCache(options.fetch);
  const everyTurn = offers.context.map(({ plugin, value }): TurnExtension => ({
    id: plugin,
    context: value,
    tools: [],
    warning: `the plugin "${plugin}" gave no context, because it failed or took too long; the turn went on without it`,
  }));

  const callModel = async (input: TurnInput, provider: NamedProvider, parts: readonly Part[], warnings: string[]): Promise<TurnResult> => {
    const { generateText, isStepCount, jsonSchema, streamText, wrapLanguageModel } = await import("ai");
    // The SDK would print its warnings; ours go into the run.
    (globalThis as { AI_SDK_LOG_WARNINGS?: unknown }).AI_SDK_LOG_WARNINGS ??= false;
    const { settings, kind } = provider;
    const boundary = createBoundary();
    const numbers = createCallNumbers(input.info.runId);
    const toolTurn = { info: input.info, boundary, waitMs: Math.min(CONNECT_MS, input.timeoutMs / 2) };
    const picked = await toolBox.pick(input.tools, toolTurn);
    warnings.push(...picked.warnings);
    const telemetry = options.telemetry?.();
    const offered = traceTools([...(await offerOwnTools(input.extensions ?? [], toolTurn)), ...picked.tools], telemetry);
    const thinking = watchThinking(input.thinking, kind.thinkingFields);
    const middleware: LanguageModelMiddleware[] = [boundToolResults(boundary)];
    if (offered.length > 0) middleware.push(numbers.middleware);
    if (input.thinking !== undefined) middleware.push(thinking.middleware);
    if (telemetry) middleware.push(telemetry.modelCalls(toTracedModel(input, kind, settings)));
    const call = {
      model: wrapLanguageModel({ model: await getModel(provider, input.model.model), middleware }),
      instructions: buildInstructions(input),
      messages: buildMessages(input, { boundary, parts, window: provider.contextTokens ?? CONTEXT_TOKENS, warnings }),
      // The agent's own tools win over a caller's of the same name.
      tools: {
        ...describeCallerTools(input.callerTools, jsonSchema),
        ...toSdkTools(offered, (id) => numbers.get(id)),
      },
      ...toSamplingOptions(input.sampling),
      ...(input.sampling?.json ? { output: buildJsonOutput(input.sampling.json) } : {}),
      stopWhen: isStepCount(MAX_STEPS),
      maxRetries: 0,
      abortSignal: input.signal,
      timeout: { totalMs: input.timeoutMs, toolMs: TOOL_MS, ...(input.onText ? { chunkMs: CHUNK_MS } : {}) },
      ...(input.thinking === undefined ? {} : { reasoning: toReasoning(input.thinking) }),
      providerOptions: kind.requestOptions?.(getChoices(input.sampling), settings) ?? {},
    };
    const ended = (end: Omit<EndedTurn, "provider" | "warnings" | "callerTools">): TurnResult =>
      toTurnResult({ ...end, provider: input.model.provider, warnings, callerTools: (input.callerTools ?? []).map(({ name }) => name) });
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
    const { info, question, signal } = input;
    const { parts, warnings } = await gatherContext(
      [...everyTurn, ...(input.extensions ?? [])],
      { ...info, question, signal },
      { clock, log },
    );
    if (input.model.ref === ECHO.ref) return { ...echoTurn(input, kinds), warnings };
    const provider = set.provider(input.model.provider);
    if (!provider)
      return {
        ok: false,
        code: "unknown_model",
        message: `models.providers has no "${input.model.provider}" any more`,
        retryable: false,
        warnings,
      };
    const startedAt = clock.now();
    try {
      return await callModel(input, provider, parts, warnings);
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

  return { runtime: { models: set.models, runTurn, close: () => toolBox.close() }, issues };
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

interface EndedTurn {
  text: string;
  steps: readonly Step[];
  messages: unknown[];
  usage: { inputTokens?: number | undefined; outputTokens?: number | undefined; totalTokens?: number | undefined };
  finish: string;
  warnings: string[];
  provider: string;
  callerTools: readonly string[];
}

function toTurnResult({ text, steps, messages, usage, finish, warnings, provider, callerTools }: EndedTurn): TurnResult {
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
