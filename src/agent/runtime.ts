import type { wrapLanguageModel } from "ai";
import type { Config } from "../config/schema/index.ts";
import type { Clock } from "../core/clock.ts";
import { RouseError, safeError, type Issue, type RunErrorCode } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { passOnTrace } from "../core/trace-context.ts";
import { embeddingIssues } from "../knowledge/configured.ts";
import type { Part } from "../contract/kinds.ts";
import type { StepRecord } from "../store/types.ts";
import type { Telemetry } from "../telemetry/types.ts";
import { createBoundary } from "./boundary.ts";
import { gatherContext } from "./context.ts";
import type { AgentExtensions, TurnExtension } from "./extensions.ts";
import { ECHO, echoTurn } from "./no-model.ts";
import { classifyFailure } from "./failure.ts";
import { createMemoryJournal } from "./journal.ts";
import { MAX_STEPS, runLoop, type LoopEnd } from "./loop.ts";
import { createTurnPrompt } from "./messages.ts";
import { createStepCall } from "./model-step.ts";
import { createModels, type NamedProvider } from "./models.ts";
import type { ProviderKind } from "./providers.ts";
import { getSpoken, getStepText, sumUsage, toStepMessages } from "./steps.ts";
import { toolIssues } from "./tool-checks.ts";
import { createToolBox, offerOwnTools } from "./tools.ts";
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
  telemetry?: (() => Telemetry | undefined) | undefined;
  /** What plugins offer to agents. `incomplete`: one could not be loaded, so that not all tools and kinds of providers are known. */
  plugins: { offers: AgentExtensions; incomplete: boolean };
  /** The kinds of model providers. */
  kinds: readonly ProviderKind[];
}

const CONTEXT_TOKENS = 128_000;
/** The most that a turn waits for a server of tools. */
const CONNECT_MS = 10_000;
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

  const runSteps = async (input: TurnInput, provider: NamedProvider, parts: readonly Part[], warnings: string[]): Promise<TurnResult> => {
    const { info, signal, timeoutMs, callerTools = [], journal = createMemoryJournal() } = input;
    const deadline = clock.now() + timeoutMs;
    const boundary = createBoundary(input.boundaryId);
    const toolTurn = { info, boundary, waitMs: Math.min(CONNECT_MS, timeoutMs / 2) };
    const picked = await toolBox.pick(input.tools, toolTurn);
    warnings.push(...picked.warnings);
    const telemetry = options.telemetry?.();
    const tools = traceTools([...(await offerOwnTools(input.extensions ?? [], toolTurn)), ...picked.tools], telemetry);
    const window = provider.contextTokens ?? CONTEXT_TOKENS;
    const prompt = createTurnPrompt(input, { boundary, parts, window, warnings });
    const model = await getModel(provider, input.model.model);
    const tracing = telemetry?.modelCalls(toTracedModel(input, provider.kind, provider.settings));
    const callModel = await createStepCall({ input, provider, model, tracing, boundary, tools, clock, deadline, warnings });
    const end = await runLoop({
      runId: info.runId,
      tools: new Map(tools.map((tool) => [tool.name, tool])),
      callerTools: new Set(callerTools.map(({ name }) => name)),
      journal,
      judge: input.judge,
      onUnknown: input.onUnknown ?? "tell",
      signal: tools.length === 0 ? signal : AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      clock,
      warnings,
      callModel: (steps, isLast) => callModel(prompt.fit(steps.flatMap(toStepMessages)), isLast),
    });
    return toTurnResult(end, { provider: input.model.provider, warnings });
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
      return await runSteps(input, provider, parts, warnings);
    } catch (error) {
      // The journal's: no failure of the model.
      if (error instanceof RouseError) throw error;
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

function toTurnResult(end: LoopEnd, { provider, warnings }: { provider: string; warnings: string[] }): TurnResult {
  if (end.kind === "lost") return { ok: false, code: "lost", asks: [], open: [] };
  if (end.kind === "waiting") return { ok: false, code: "waiting", asks: end.asks, open: end.open };
  const fail = (code: RunErrorCode, message: string, retryable = false): TurnResult => ({ ok: false, code, message, retryable, warnings });
  if (end.kind === "given-up") return fail("outcome_unknown", end.message);
  const { steps, isLimited } = end;
  const last = steps.at(-1) as StepRecord;
  const said = getStepText(last);
  if (last.finish === "content-filter" && said === "")
    return fail("provider_refused", `the provider "${provider}" withheld its answer (content filter)`);
  if (last.finish === "error" || (last.finish === "other" && said === ""))
    return fail("provider_error", `the provider "${provider}" gave no answer`, true);
  if (isLimited) warnings.push(`the turn reached its limit of ${MAX_STEPS} steps; the last one had no tools`);
  else if (last.finish === "length") warnings.push("the reply ends where the model's limit for one answer was reached");
  const open = last.calls.filter(({ output }) => output === undefined);
  return {
    ok: true,
    text: said === "" && isLimited ? getStepText(steps.findLast((step) => getStepText(step) !== "") ?? last) : said,
    spoken: getSpoken(steps),
    calls: open.map(({ modelCallId: id, name: tool, input }) => ({ id, tool, input })),
    messages: steps.flatMap(toStepMessages),
    usage: sumUsage(steps),
    finish: isLimited ? "length" : last.finish,
    warnings,
    ...(last.calls.length === 0 ? { lastStep: last } : {}),
  };
}
