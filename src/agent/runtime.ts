import type { wrapLanguageModel } from "ai";
import type { Config } from "../config/schema/index.ts";
import { readMonotonic, type Clock } from "../core/clock.ts";
import { RouseError, safeError, type Issue, type RunErrorCode } from "../core/errors.ts";
import { newId } from "../core/ids.ts";
import type { Logger } from "../core/log.ts";
import { NO_TRACES, passOnTrace, type Traces } from "../core/http/trace-context.ts";
import { transcriptionIssues } from "./transcribe.ts";
import type { ContextProvider, Part, TurnInfo } from "../contract/kinds.ts";
import { raceAbort } from "../core/pause.ts";
import { plural } from "../core/text.ts";
import type { Ms, StepRecord } from "../store/types.ts";
import { createBoundary } from "./boundary.ts";
import {
  ECHO,
  echoTurn,
  createModels,
  mergeProviders,
  DEFAULT_CONTEXT_TOKENS,
  type ProviderKind,
} from "./models.ts";
import { MAX_STEPS, runLoop, type LoopEnd } from "./loop.ts";
import { createStepCall, StepFailedError } from "./model-step.ts";
import { getRoom } from "./messages.ts";
import {
  toCallerCallId,
  getReasoning,
  getSpoken,
  getStepText,
  isWordless,
  toHistoryMessages,
} from "./steps.ts";
import { READ_RESULT } from "./tools/tool-results.ts";
import {
  RECALL_TOOL,
  REMEMBER_TOOL,
  SCHEDULE_TOOL,
  SEND_FILE_TOOL,
} from "../vocabulary/tool-names.ts";
import { toolIssues } from "./tools/tool-checks.ts";
import { createToolBox, offerOwnTools } from "./tools/tool-box.ts";
import { addUsage } from "./usage.ts";
import type {
  AgentExtensions,
  AgentRuntime,
  Journal,
  ModelCandidate,
  NamedProvider,
  TurnExtension,
  TurnInput,
  TurnResult,
} from "./types.ts";

export interface RuntimeOptions {
  config: Config;
  /** The config's folder: programs of MCP servers run there. */
  baseDir: string;
  env: Record<string, string | undefined>;
  clock: Pick<Clock, "now" | "monotonic" | "sleep">;
  log: Logger;
  fetch: typeof fetch;
  /** Opened after the first snapshot, which has the settings for it. Default: none. */
  traces?: (() => Traces) | undefined;
  /**
   * The offers of plugins to agents. `incomplete`: a plugin could not be loaded, so not all tools and kinds of
   * providers are known.
   */
  plugins: {
    offers: AgentExtensions;
    incomplete: boolean;
    shipped: { providers: readonly ProviderKind[] };
  };
}

/** The most that a turn waits for a server of tools. */
const CONNECT_MS = 10_000;
const MAX_KEPT = 64;

type Model = Parameters<typeof wrapLanguageModel>[0]["model"];

/**
 * Makes models. A model makes its schemas when it is made, which costs more than many a turn, so that turns share it.
 * The provider's package is loaded when a turn first needs it.
 */
function createModelCache(
  fetcher: typeof fetch,
): (provider: NamedProvider, model: string) => Promise<Model> {
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

/** Creates the journal of a turn that has one attempt, and whose steps are not stored. */
function createMemoryJournal(): Journal {
  return {
    steps: [],
    addStep: () => Promise.resolve(true),
    updateCalls: () => Promise.resolve(true),
    getDecision: () => Promise.resolve(undefined),
  };
}

/** The most that a turn waits for text of a plugin. */
const CONTEXT_MS = 10_000;

interface ContextDeps {
  clock: Pick<Clock, "sleep">;
  log: Logger;
}

/** Checks what a provider returned. Whatever does not say that it is the operator's counts as outside text. */
function checkParts(parts: unknown, id: string): Part[] {
  if (!Array.isArray(parts)) throw new TypeError("a context provider returns a list of parts");
  return (parts as Partial<Part>[]).map(({ text, from, label = `context ${id}` }) => {
    if (typeof text !== "string") throw new TypeError("the text of a part is a string");
    return { text, from: from === "operator" ? from : "outside", label };
  });
}

async function callProvider(
  provide: ContextProvider,
  turn: Parameters<ContextProvider>[0],
  clock: ContextDeps["clock"],
): Promise<unknown> {
  const ended = new AbortController();
  const signal = AbortSignal.any([turn.signal, ended.signal]);
  void clock.sleep(CONTEXT_MS, signal).then(() => ended.abort());
  return raceAbort(
    Promise.resolve().then(() => provide({ ...turn, signal })),
    signal,
  ).finally(() => ended.abort());
}

/**
 * Asks all providers of context, at the same time, for a turn's parts. One that throws or takes 10 s adds its warning and
 * nothing else.
 */
async function gatherContext(
  extensions: readonly TurnExtension[],
  turn: TurnInfo & { question: string; signal: AbortSignal },
  { clock, log }: ContextDeps,
): Promise<{ parts: Part[]; warnings: string[] }> {
  const warnings: string[] = [];
  const gathered = await Promise.all(
    extensions.map(async ({ id, context, warning }): Promise<Part[]> => {
      if (!context) return [];
      try {
        return checkParts(await callProvider(context, turn, clock), id);
      } catch (error) {
        log.warn(
          { err: safeError(error), context: id, runId: turn.runId },
          "a turn goes on without the text of a context provider",
        );
        warnings.push(warning);
        return [];
      }
    }),
  );
  return { parts: gathered.flat(), warnings };
}

/** Rouse's own tools, which give way to a caller's tool of the same name. */
const OF_ROUSE: ReadonlySet<string> = new Set([
  READ_RESULT,
  SCHEDULE_TOOL,
  SEND_FILE_TOOL,
  REMEMBER_TOOL,
  RECALL_TOOL,
]);

/** Makes the runtime of a snapshot. `issues` are config errors about models, providers and tools. */
export function createAgentRuntime(options: RuntimeOptions): {
  runtime: AgentRuntime;
  issues: Issue[];
} {
  const { config, env, clock, log, plugins, traces = () => NO_TRACES } = options;
  const kinds = mergeProviders(plugins.shipped.providers, plugins.offers.providers);
  const { offers, incomplete: isIncomplete } = plugins;
  const set = createModels({ config, env, kinds, isIncomplete });
  const issues = [
    ...set.issues,
    ...transcriptionIssues(config, kinds),
    ...toolIssues(config, offers.tools, isIncomplete),
  ];
  const toolBox = createToolBox({
    servers: config.mcp.servers,
    tools: offers.tools,
    clock,
    log,
    cwd: options.baseDir,
    env,
    fetch: passOnTrace(options.fetch, () => traces().current()),
  });
  const getModel = createModelCache(options.fetch);
  const everyTurn = offers.context.map(({ plugin, value }): TurnExtension => ({
    id: plugin,
    context: value,
    tools: [],
    warning: `the plugin "${plugin}" gave no context, because it failed or took too long; the turn went on without it`,
  }));

  const runSteps = async (
    input: TurnInput,
    candidates: readonly ModelCandidate[],
    { parts, warnings, deadline }: { parts: readonly Part[]; warnings: string[]; deadline: Ms },
  ): Promise<TurnResult> => {
    const { info, signal, timeoutMs, callerTools = [], journal = createMemoryJournal() } = input;
    const boundary = createBoundary(input.boundaryId);
    const toolTurn = { info, boundary, waitMs: Math.min(CONNECT_MS, timeoutMs / 2) };
    const picked = await (input.pickTools?.(toolTurn) ?? toolBox.pick(input.tools, toolTurn));
    warnings.push(...picked.warnings);
    const callerNames = new Set(callerTools.map(({ name }) => name));
    const own = await offerOwnTools(input.extensions ?? [], toolTurn);
    const tools = [
      ...own.filter(({ name }) => !OF_ROUSE.has(name) || !callerNames.has(name)),
      ...picked.tools,
    ];
    const getModelOf = ({ provider, model }: ModelCandidate): Promise<Model> =>
      getModel(provider, model.model);
    const { leftOut = [] } = picked;
    const { narrowedBy: by } = input;
    const end = await runLoop({
      runId: info.runId,
      ...(by !== undefined &&
        leftOut.length > 0 && {
          offer: {
            offered: tools.flatMap(({ name, tool }) => (name === READ_RESULT ? [] : tool)),
            leftOut,
            by,
          },
        }),
      tools: new Map(tools.map((tool) => [tool.name, tool])),
      callerTools: callerNames,
      journal,
      judge: (call) => input.judge?.({ ...call, context: parts }),
      onUnknown: input.onUnknown ?? "tell",
      maxResultBytes: config.agents.defaults.toolResultBytes,
      ready: input.gate?.ready,
      signal:
        tools.length === 0 ? signal : AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      clock,
      traces: traces(),
      warnings,
      callModel: createStepCall(candidates, {
        input,
        parts,
        boundary,
        tools,
        clock,
        log,
        deadline,
        warnings,
        getModel: getModelOf,
        traces: traces(),
      }),
    });
    return toTurnResult(end, warnings);
  };

  const runTurn = async (input: TurnInput): Promise<TurnResult> => {
    const { info, question, signal, timeoutMs } = input;
    const { parts, warnings } = await gatherContext(
      [...(input.isPlain ? [] : everyTurn), ...(input.extensions ?? [])],
      { ...info, question, signal },
      { clock, log },
    );
    if (input.model.ref === ECHO.ref) return { ...echoTurn(input, kinds), warnings };
    const fail = (code: RunErrorCode, message: string): TurnResult => ({
      ok: false,
      code,
      message,
      retryable: false,
      warnings,
    });
    const candidates = set.candidates(input.model);
    if (candidates.length === 0)
      return fail("unknown_model", `models.providers has no "${input.model.provider}" any more`);
    const deadline = readMonotonic(clock) + timeoutMs;
    try {
      const result = await runSteps(input, candidates, { parts, warnings, deadline });
      return result.ok ? { ...result, context: parts } : result;
    } catch (error) {
      if (error instanceof StepFailedError) return { ...error.failure, warnings };
      // The journal's: no failure of the turn.
      if (error instanceof RouseError) throw error;
      if (signal.aborted) return fail("cancelled", "the turn was cancelled");
      if (readMonotonic(clock) >= deadline || isTimeout(error))
        return fail("timeout", `the turn took longer than ${plural(timeoutMs / 1000, "second")}`);
      throw error;
    }
  };

  const runtime: AgentRuntime = {
    models: set.models,
    runTurn: (input) => toolBox.during(() => runTurn(input)),
    getRoom: (agent, model) =>
      getRoom((model && set.candidates(model)[0]?.contextTokens) ?? DEFAULT_CONTEXT_TOKENS, {
        agent,
      }),
    start: () => toolBox.start(config.agents.list.flatMap(({ tools }) => tools)),
    withTools: (servers, work) =>
      toolBox.during(async () => {
        const runId = newId("run", clock.now());
        const agentId = config.agents.list[0]?.id ?? "main";
        const info = { agentId, sessionKey: "tools:test", runId, kind: "api" as const };
        const sources = [...servers, ...offers.tools.map(({ plugin }) => plugin)];
        const turn = { info, boundary: createBoundary(), waitMs: CONNECT_MS };
        return work(await toolBox.pick([sources.map((source) => `${source}.*`)], turn), runId);
      }),
    mcpServers: toolBox.states,
    retire: toolBox.retire,
    close: toolBox.close,
  };
  return { runtime, issues };
}

const isTimeout = (error: unknown): boolean =>
  error instanceof Error && error.name === "TimeoutError";

function toTurnResult(end: LoopEnd, warnings: string[]): TurnResult {
  if (end.kind === "lost") return { ok: false, code: "lost", asks: [], open: [] };
  if (end.kind === "waiting") return { ok: false, code: "waiting", asks: end.asks, open: end.open };
  if (end.kind === "given-up")
    return { ok: false, code: "outcome_unknown", message: end.message, retryable: false, warnings };
  const { steps, isLimited } = end;
  const last = steps.at(-1) as StepRecord;
  const said = getStepText(last);
  if (isLimited)
    warnings.push(`the turn reached its limit of ${MAX_STEPS} steps; the last one had no tools`);
  else if (last.finish === "length")
    warnings.push("the reply ends where the model's limit for one answer was reached");
  const open = last.calls.filter(({ output }) => output === undefined);
  const text =
    said === "" && isLimited
      ? getStepText(steps.findLast((step) => getStepText(step) !== "") ?? last)
      : said;
  if (text.trim() === "" && open.length === 0)
    warnings.push(
      `the model gave no words${steps.slice(0, -1).some(isWordless) ? ", also when it was asked once more" : ""}`,
    );
  return {
    ok: true,
    text,
    spoken: getSpoken(steps),
    reasoning: getReasoning(steps),
    calls: open.map((call) => ({
      id: toCallerCallId(call, steps),
      tool: call.name,
      input: call.input,
      ...(call.inputText === undefined ? {} : { inputText: call.inputText }),
    })),
    messages: steps.flatMap(toHistoryMessages),
    usage: addUsage(steps.map(({ usage }) => usage)),
    model: last.model,
    finish: isLimited ? "length" : last.finish,
    warnings,
    ...(last.calls.length === 0 ? { lastStep: last } : {}),
  };
}
