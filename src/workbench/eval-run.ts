import { createHash } from "node:crypto";
import type { Journal } from "../agent/journal.ts";
import type { TurnExtension } from "../agent/context.ts";
import type { Agent, TurnInput } from "../agent/types.ts";
import { addUsage } from "../agent/usage.ts";
import { plainText } from "../core/text.ts";
import { OPERATOR_TENANT } from "../config/checks.ts";
import { createTurnKnowledge } from "../runs/knowledge.ts";
import { createReadResult } from "../runs/model-turn.ts";
import type { StepRecord, Usage } from "../store/types.ts";
import { judgeReply, type JudgeVerdict } from "./eval-judge.ts";
import { checkReply, type Miss } from "./eval-reply.ts";
import { buildTask, type EvalTask } from "./eval-task.ts";
import { CaseTools, SEARCH, type MadeCall } from "./eval-tools.ts";
import { joinText } from "./fixture-run.ts";
import type { EvalSide, EvalSet } from "./eval-side.ts";
import type { EvalCase } from "./fixture.ts";

/** One run of a case. For operators only: it quotes what the agent said. */
export interface EvalRun {
  passed: boolean;
  /** What the case expects and the agent did not do, or why there is no reply. */
  misses: Miss[];
  reply: string | null;
  /** The model that replied. */
  model: string | null;
  calls: MadeCall[];
  /** Tokens of the agent; null if the provider does not report them. */
  tokens: number | null;
  /** US dollars; null if a price is unknown. */
  costUsd: number | null;
  /** How long the agent took, in milliseconds. */
  ms: number;
  judge: { pass: boolean; reason: string; tokens: number | null; costUsd: number | null } | null;
}

/** What a run of a case needs besides its side. */
export interface RunSettings {
  set: EvalSet;
  /** From 0: which repetition it is. */
  repetition: number;
  signal: AbortSignal;
  /** Called with what each model call used. */
  onUsage(usage: Usage): void;
}

/**
 * Makes the id of a boundary. It is the same in every evaluation, so that the same model says the same, and what stands inside
 * the boundary cannot name it: it is a hash over all of it.
 */
const toBoundaryId = (...parts: readonly unknown[]): string =>
  createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 32);

/** A journal in memory, which notes what steps use and keeps the whole texts of results that are cut. */
function createEvalJournal(
  results: Map<string, string>,
  onStep: (step: StepRecord) => void,
): Journal {
  return {
    steps: [],
    addStep(step) {
      onStep(step);
      return Promise.resolve(true);
    },
    updateCalls(changes) {
      for (const { id, whole } of changes) if (whole !== undefined) results.set(id, whole);
      return Promise.resolve(true);
    },
    getDecision: () => Promise.resolve(undefined),
  };
}

/** The tool that reads on in results that were cut: those of this run alone. */
function createReader(
  runId: string,
  agentId: string,
  results: ReadonlyMap<string, string>,
  maxBytes: number,
) {
  const get = (_kind: string, id: string) => {
    const text = results.get(id);
    return Promise.resolve(text === undefined ? undefined : { id, runId, text });
  };
  const spec = { session: { agentId, origin: "api" as const, key: runId } };
  return createReadResult({ id: runId, spec }, { get }, maxBytes);
}

/** What an agent's documents add to a turn if they are searched as they are now. Notes the searches that the agent makes. */
async function searchDocuments(
  agent: Agent,
  { change }: EvalSide,
  calls: MadeCall[],
): Promise<TurnExtension[]> {
  const { extensions } = await createTurnKnowledge(
    { agent, tenant: OPERATOR_TENANT },
    change.documents,
  );
  return extensions.map(({ tools, ...rest }) => ({
    ...rest,
    tools: tools.map((tool) => ({
      ...tool,
      execute: (input, context) => {
        calls.push({ tool: SEARCH, input, from: "documents" });
        return tool.execute(input, context);
      },
    })),
  }));
}

const without = (reason: string, ms = 0): EvalRun => ({
  passed: false,
  misses: [{ field: "run", reason }],
  reply: null,
  model: null,
  calls: [],
  tokens: null,
  costUsd: null,
  ms,
  judge: null,
});

const toFigures = ({
  totalTokens,
  costUsd,
}: Usage): { tokens: number | null; costUsd: number | null } => ({
  tokens: totalTokens ?? null,
  costUsd: costUsd ?? null,
});

interface Turn {
  text: string | undefined;
  /** Why there is no reply. */
  failure: string | undefined;
  model: string | null;
  usage: Usage;
  calls: MadeCall[];
  ms: number;
  /** Whether the evaluation ended before the turn did. */
  isCut: boolean;
}

function toInput(task: EvalTask, boundaryId: string): Omit<TurnInput, "signal"> {
  const { agent, model, input, mapping, instructions, thinking, timeoutMs, unsafe, tools } = task;
  const runId = `run_eval_${boundaryId.slice(0, 16)}`;
  return {
    agent,
    model,
    input,
    unsafe,
    tools,
    timeoutMs,
    history: [],
    // Context providers of plugins may ask other services.
    isPlain: true,
    question: plainText(input),
    boundaryId,
    info: {
      agentId: agent.id,
      sessionKey: "eval",
      runId,
      kind: mapping === undefined ? "api" : "hook",
    },
    ...(mapping === undefined ? { source: "user" } : { hook: mapping }),
    ...(instructions !== undefined && { instructions }),
    ...(thinking !== undefined && { thinking }),
  };
}

/** Takes the agent's turn. The recording answers its tools. */
async function takeTurn(
  evalCase: EvalCase,
  task: EvalTask,
  side: EvalSide,
  settings: RunSettings,
): Promise<Turn> {
  const { set, signal, onUsage, repetition } = settings;
  const { runtime, config } = side.snapshot;
  const stop = new AbortController();
  let problem: string | undefined;
  const fail = (reason: string): void => {
    problem ??= reason;
    stop.abort();
  };
  const sandbox = side.getSandbox(evalCase.run.sandbox ?? set.sandbox);
  const { agent, tools: patterns } = task;
  const tools = new CaseTools({
    evalCase,
    known: set.tools,
    patterns,
    hasKnowledge: agent.knowledge !== "off" && !side.change.documents,
    sandbox,
    onUnrecorded: fail,
  });
  const usages: Usage[] = [];
  const results = new Map<string, string>();
  const journal = createEvalJournal(results, ({ usage, calls }) => {
    usages.push(usage);
    onUsage(usage);
    // The loop answers such a call itself, and the agent could go on.
    const unknown = calls.find(({ tool, name, output }) => output !== undefined && tool === name);
    if (unknown)
      fail(
        `the agent called ${unknown.name}, a tool that no recording of the set has and that it was not offered`,
      );
  });
  const input = toInput(task, toBoundaryId(evalCase.request, evalCase.run, repetition));
  const start = performance.now();
  const result = await runtime.runTurn({
    ...input,
    journal,
    extensions: [
      createReader(input.info.runId, agent.id, results, config.agents.defaults.toolResultBytes),
      ...(await searchDocuments(agent, side, tools.calls)),
    ],
    pickTools: (turn) => tools.pick(turn),
    signal: AbortSignal.any([signal, stop.signal]),
  });
  const ms = performance.now() - start;
  const made = { calls: tools.calls, ms };
  if (problem === undefined && result.ok) {
    if (result.lastStep) onUsage(result.lastStep.usage);
    return {
      ...made,
      isCut: false,
      text: result.text,
      failure: undefined,
      model: result.model,
      usage: result.usage,
    };
  }
  const failure = problem ?? ("message" in result ? result.message : "the turn has not ended");
  const isCut = problem === undefined && signal.aborted;
  return {
    ...made,
    isCut,
    text: undefined,
    failure,
    model: null,
    usage: usages.length === 0 ? {} : addUsage(usages),
  };
}

/** Asks the judge of a case, if it has one and all else is as expected. */
async function judge(
  evalCase: EvalCase,
  task: EvalTask,
  reply: string,
  settings: RunSettings,
): Promise<JudgeVerdict | undefined> {
  const { set, signal, onUsage } = settings;
  const { judge: asked } = evalCase.reply;
  if (!asked) return undefined;
  const { runtime, resolve } = set.judge;
  const recorded = joinText(evalCase.run.reply);
  const text = plainText(task.input);
  const verdict = await judgeReply(
    {
      rubric: asked.rubric,
      task: text,
      recorded,
      reply,
      model: resolve(asked.model),
      boundaryId: toBoundaryId(asked.rubric, text, recorded, reply),
      signal,
    },
    runtime,
  );
  onUsage(verdict.usage);
  return verdict;
}

/**
 * Runs a case once on one side. No server of tools is contacted but a sandbox, nothing is delivered and nothing is stored.
 * @returns undefined if `signal` has cut the run, which says nothing about the case.
 * @throws RouseError if the model does not exist.
 */
export async function runCase(
  evalCase: EvalCase,
  side: EvalSide,
  settings: RunSettings,
): Promise<EvalRun | undefined> {
  const task = await buildTask(evalCase, side.snapshot, side.change);
  if (typeof task === "string") return without(task);
  const {
    text: reply,
    failure,
    usage,
    isCut,
    ...turn
  } = await takeTurn(evalCase, task, side, settings);
  if (isCut) return undefined;
  const figures = { ...turn, ...toFigures(usage) };
  if (reply === undefined) return { ...without(failure ?? ""), ...figures };
  const misses = await checkReply({ reply, calls: turn.calls, tokens: figures.tokens }, evalCase);
  const verdict = misses.length === 0 ? await judge(evalCase, task, reply, settings) : undefined;
  if (verdict && !verdict.pass && settings.signal.aborted) return undefined;
  if (verdict && !verdict.pass)
    misses.push({ field: "expect.reply.judge", reason: verdict.reason });
  const judged = verdict
    ? { pass: verdict.pass, reason: verdict.reason, ...toFigures(verdict.usage) }
    : null;
  return { passed: misses.length === 0, misses, reply, ...figures, judge: judged };
}
