import type { Config } from "../config/schema/index.ts";
import type { ProviderDescription } from "../contract/kinds.ts";
import { readMonotonic, type Clock } from "../core/clock.ts";
import { RouseError, type Issue, type RunErrorCode } from "../core/errors.ts";
import { NO_TRACES, passOnTrace, type Traces } from "../core/http/trace-context.ts";
import { newId } from "../core/ids.ts";
import type { Logger } from "../core/log.ts";
import { cutText, oneLine, plainText, plural } from "../core/text.ts";
import { createBoundary } from "./boundary.ts";
import { gatherContext } from "./gather-context.ts";
import {
  createModelCache,
  createModels,
  ECHO,
  mergeProviders,
  type ProviderKind,
} from "./models.ts";
import { StepFailedError } from "./model-step.ts";
import { CONNECT_MS, runSteps } from "./run-steps.ts";
import { createToolBox } from "./tools/tool-box.ts";
import type {
  AgentExtensions,
  AgentRuntime,
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

type EchoInput = Pick<TurnInput, "input" | "heartbeat" | "hook" | "onText">;

/** Answers a turn without a model: says that there is none, what came in, and how to set one. */
function echoTurn(
  input: EchoInput,
  kinds: readonly ProviderDescription[],
): Extract<TurnResult, { ok: true }> {
  const text = input.heartbeat ? "HEARTBEAT_OK" : replyTo(input, kinds);
  input.onText?.(text);
  const messages = [{ role: "assistant", content: [{ type: "text", text }] }];
  return {
    ok: true,
    text,
    spoken: text,
    reasoning: "",
    calls: [],
    messages,
    usage: { inputTokens: 0, outputTokens: 0, totalTokens: 0, costUsd: 0 },
    model: ECHO.ref,
    finish: "stop",
    warnings: [],
  };
}

function replyTo(input: EchoInput, kinds: readonly ProviderDescription[]): string {
  const received = plainText(input.input);
  const { text, cut } = cutText(oneLine(received), 200);
  const keys = kinds
    .flatMap(({ fromEnvironment }) => fromEnvironment?.variables.at(-1) ?? [])
    .join(", ");
  return [
    `[no model] Received ${plural(received.length, "character")}${input.hook === undefined ? "" : ` through hook "${input.hook}"`}.`,
    `[no model] They begin: ${text}${cut > 0 ? " …" : ""}`,
    `[no model] To get answers, set ${keys === "" ? "" : `one of ${keys}, or `}agents.defaults.model and models.providers in the config (\`rouse init\` helps).`,
  ].join("\n");
}

/** Counts the work that uses connections. `close` is called once they are retired and all that work is over. */
function createUse(close: () => Promise<void>) {
  let underWay = 0;
  let isRetired = false;
  const closeUnused = (): void => {
    if (isRetired && underWay === 0) void close();
  };
  return {
    async during<T>(work: () => Promise<T>): Promise<T> {
      underWay++;
      try {
        return await work();
      } finally {
        underWay--;
        closeUnused();
      }
    },
    retire(): void {
      isRetired = true;
      closeUnused();
    },
  };
}

/** Creates the runtime of a snapshot. `issues` are config errors about models and providers. */
export function createAgentRuntime(options: RuntimeOptions): {
  runtime: AgentRuntime;
  issues: Issue[];
} {
  const { config, env, clock, log, plugins, traces = () => NO_TRACES } = options;
  const { offers, incomplete: isIncomplete } = plugins;
  const kinds = mergeProviders(plugins.shipped.providers, offers.providers);
  const { models, candidates, issues } = createModels({ config, env, kinds, isIncomplete });
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
  const maxResultBytes = config.agents.defaults.toolResultBytes;
  const everyTurn = offers.context.map(({ plugin, value }): TurnExtension => ({
    id: plugin,
    context: value,
    tools: [],
    warning: `the plugin "${plugin}" gave no context, because it failed or took too long; the turn went on without it`,
  }));

  const takeTurn = async (input: TurnInput): Promise<TurnResult> => {
    const { info, question, signal, timeoutMs } = input;
    const providers = [...(input.isPlain ? [] : everyTurn), ...(input.extensions ?? [])].filter(
      ({ context }) => context,
    );
    const { parts, warnings } =
      providers.length === 0
        ? { parts: [], warnings: [] }
        : await gatherContext(providers, { ...info, question, signal }, { clock, log });
    if (input.model.ref === ECHO.ref) return { ...echoTurn(input, kinds), warnings };
    const fail = (code: RunErrorCode, message: string): TurnResult => ({
      ok: false,
      code,
      message,
      retryable: false,
      warnings,
    });
    const found = candidates(input.model);
    if (found.length === 0)
      return fail("unknown_model", `models.providers has no "${input.model.provider}" any more`);
    const deadline = readMonotonic(clock) + timeoutMs;
    try {
      const result = await runSteps(
        { input, parts, warnings, deadline, getModel, clock, log, traces: traces() },
        { candidates: found, toolBox, maxResultBytes },
      );
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

  const { during, retire } = createUse(toolBox.close);
  const runtime: AgentRuntime = {
    models,
    runTurn: (input) => during(() => takeTurn({ ...input, timeoutMs: toTimerMs(input.timeoutMs) })),
    start: () => toolBox.start(config.agents.list.flatMap(({ tools }) => tools)),
    withTools: (servers, work) =>
      during(async () => {
        const runId = newId("run", clock.now());
        const agentId = config.agents.list[0]?.id ?? "main";
        const info = { agentId, sessionKey: "tools:test", runId, kind: "api" as const };
        const sources = [...servers, ...offers.tools.map(({ plugin }) => plugin)];
        const turn = { info, boundary: createBoundary(), waitMs: CONNECT_MS };
        return work(await toolBox.pick([sources.map((source) => `${source}.*`)], turn), runId);
      }),
    mcpServers: toolBox.states,
    retire,
    close: toolBox.close,
  };
  return { runtime, issues };
}

/** Timers take whole milliseconds, at most this many. `16.1 * 1000` is no whole number. */
const toTimerMs = (ms: number): number => Math.min(Math.round(ms), 2 ** 31 - 1);

const isTimeout = (error: unknown): boolean =>
  error instanceof Error && error.name === "TimeoutError";
