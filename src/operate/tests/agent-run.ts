import { createHash } from "node:crypto";
import type { Journal, TurnInput } from "../../agent/types.ts";
import { addUsage } from "../../agent/usage.ts";
import { plainText } from "../../core/text.ts";
import type { Snapshot } from "../../intake/types.ts";
import { evaluateOutside } from "../../mapping/jsonata/expression.ts";
import { compileRegex } from "../../mapping/regex.ts";
import { createReadResult } from "../../agent/tools/tool-box.ts";
import type { StepRecord, Usage } from "../../store/types.ts";
import { resolveTestModel, type AgentTask } from "./agent-task.ts";
import { CaseTools, type KnownTool, type MadeCall } from "./agent-tools.ts";
import type { AgentCase } from "./fixture.ts";
import { joinText } from "./fixture-run.ts";
import { judgeReply, type JudgeVerdict } from "./judge.ts";

/** Processor time for one JSONata expression. */
const JSONATA_MS = 1_000;
const MAX_SHOWN = 200;

/** Something that a fixture expects and the agent did not do. For operators only: it may quote the reply. */
interface Miss {
  /** Such as `expect.reply.contains`. */
  field: string;
  reason: string;
}

/** One run of an agent on a fixture. For operators only: it quotes what the agent said. */
export interface AgentRun {
  passed: boolean;
  /** What the fixture expects and the agent did not do, or why there is no reply. */
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

/** What a run needs besides its fixture and its task. */
interface RunSettings {
  snapshot: Snapshot;
  /** The config whose model judges: the same for all sides. */
  judgedBy: Snapshot;
  /** The tools that the recordings know. */
  known: readonly KnownTool[];
  /** From 0: which repetition it is. */
  repetition: number;
  signal: AbortSignal;
  /** Called with what each model call used. */
  onUsage(usage: Usage): void;
}

/**
 * Makes the id of a boundary. It is the same each time, so that the same model says the same, and what stands inside
 * the boundary cannot name it: it is a hash over all of it.
 */
const toBoundaryId = (...parts: readonly unknown[]): string =>
  createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 32);

/** A journal in memory, which notes what steps use and keeps the whole texts of results that are cut. */
function createTestJournal(
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
  const get = (id: string) => {
    const text = results.get(id);
    return Promise.resolve(text === undefined ? undefined : { id, runId, text });
  };
  const spec = { session: { agentId, origin: "api" as const, key: runId } };
  return createReadResult(
    { id: runId, spec },
    { runs: { get: async () => undefined }, toolResults: { get } },
    maxBytes,
  );
}

const without = (reason: string, ms = 0): AgentRun => ({
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
  /** Whether the tests ended before the turn did. */
  isCut: boolean;
}

function toInput(task: AgentTask, boundaryId: string): Omit<TurnInput, "signal"> {
  const { agent, model, input, mapping, instructions, thinking, timeoutMs, unsafe, tools } = task;
  const runId = `run_test_${boundaryId.slice(0, 16)}`;
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
      sessionKey: "test",
      runId,
      kind: mapping === undefined ? "api" : "hook",
    },
    ...(mapping === undefined ? { source: "user" } : { hook: mapping }),
    ...(instructions !== undefined && { instructions }),
    ...(thinking !== undefined && { thinking }),
  };
}

/** Takes the agent's turn. The recording answers its tools. */
async function takeTurn(fixture: AgentCase, task: AgentTask, settings: RunSettings): Promise<Turn> {
  const { snapshot, known, signal, onUsage, repetition } = settings;
  const { runtime, config } = snapshot;
  const stop = new AbortController();
  let problem: string | undefined;
  const fail = (reason: string): void => {
    problem ??= reason;
    stop.abort();
  };
  const { agent, tools: patterns } = task;
  const hasKnowledge = agent.knowledge !== "off";
  const tools = new CaseTools({
    agentCase: fixture,
    known,
    patterns,
    hasKnowledge,
    onUnrecorded: fail,
  });
  const usages: Usage[] = [];
  const results = new Map<string, string>();
  const journal = createTestJournal(results, ({ usage, calls }) => {
    usages.push(usage);
    onUsage(usage);
    // The loop answers such a call itself, and the agent could go on.
    const unknown = calls.find(({ tool, name, output }) => output !== undefined && tool === name);
    if (unknown)
      fail(
        `the agent called ${unknown.name}, a tool that no recording of the folder has and that it was not offered`,
      );
  });
  const input = toInput(task, toBoundaryId(fixture.request, fixture.run, repetition));
  const start = performance.now();
  const result = await runtime.runTurn({
    ...input,
    journal,
    extensions: [
      createReader(input.info.runId, agent.id, results, config.agents.defaults.toolResultBytes),
    ],
    pickTools: (turn) => tools.pick(turn),
    signal: AbortSignal.any([signal, stop.signal]),
  });
  const made = { calls: tools.calls, ms: performance.now() - start };
  if (problem === undefined && result.ok) {
    if (result.lastStep) onUsage(result.lastStep.usage);
    const { text, model, usage } = result;
    return { ...made, isCut: false, text, failure: undefined, model, usage };
  }
  return {
    ...made,
    isCut: problem === undefined && signal.aborted,
    text: undefined,
    failure: problem ?? ("message" in result ? result.message : "the turn has not ended"),
    model: null,
    usage: usages.length === 0 ? {} : addUsage(usages),
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function checkJsonata(
  source: string,
  { reply, calls, tokens }: Pick<AgentRun, "calls" | "tokens"> & { reply: string },
  { request, receivedAt }: AgentCase,
): Promise<Miss[]> {
  const json = parseJson(reply);
  const { json: body } = request ?? {};
  const input = {
    reply,
    ...(json !== undefined && { json }),
    calls: calls.map(({ tool, input: given }) => ({ tool, input: given })),
    ...(tokens !== null && { tokens }),
    ...(body !== undefined && { request: body }),
  };
  const evaluated = await evaluateOutside(source, input, receivedAt, JSONATA_MS);
  const field = "expect.reply.jsonata";
  if (!evaluated.ok) return [{ field, reason: `${source}: ${evaluated.message}` }];
  if (evaluated.value === true) return [];
  return [
    {
      field,
      reason: `${source} is ${(JSON.stringify(evaluated.value) ?? "nothing").slice(0, MAX_SHOWN)}, not true`,
    },
  ];
}

/** Compares a reply with all that a fixture expects of it but the judgement of a model. */
async function checkReply(
  answer: Pick<AgentRun, "calls" | "tokens"> & { reply: string },
  fixture: AgentCase,
): Promise<Miss[]> {
  const { contains = [], matches, jsonata } = fixture.reply;
  const misses = contains
    .filter((words) => !answer.reply.includes(words))
    .map((words) => ({
      field: "expect.reply.contains",
      reason: `the reply does not have "${words}"`,
    }));
  const compiled = matches === undefined ? undefined : compileRegex(matches);
  if (compiled?.ok && !compiled.regex.test(answer.reply))
    misses.push({ field: "expect.reply.matches", reason: `the reply does not fit ${matches}` });
  return jsonata === undefined
    ? misses
    : [...misses, ...(await checkJsonata(jsonata, answer, fixture))];
}

/** Asks the judge of a fixture, if it has one and all else is as expected. */
async function judge(
  fixture: AgentCase,
  task: AgentTask,
  reply: string,
  { judgedBy, signal, onUsage }: RunSettings,
): Promise<JudgeVerdict | undefined> {
  const { judge: asked } = fixture.reply;
  if (!asked) return undefined;
  const { rubric, model = judgedBy.models.default.ref } = asked;
  const recorded = joinText(fixture.run.reply);
  const text = plainText(task.input);
  const verdict = await judgeReply(
    {
      rubric,
      task: text,
      recorded,
      reply,
      model: resolveTestModel(model, judgedBy),
      boundaryId: toBoundaryId(rubric, text, recorded, reply),
      signal,
    },
    judgedBy.runtime,
  );
  onUsage(verdict.usage);
  return verdict;
}

/**
 * Runs an agent once on a fixture. No server of tools is contacted, nothing is delivered and nothing is stored.
 * @returns undefined if `signal` has cut the run, which says nothing about the fixture.
 * @throws RouseError if the judge's model does not exist.
 */
export async function runAgent(
  fixture: AgentCase,
  task: AgentTask | string,
  settings: RunSettings,
): Promise<AgentRun | undefined> {
  if (typeof task === "string") return without(task);
  const { text: reply, failure, usage, isCut, ...turn } = await takeTurn(fixture, task, settings);
  if (isCut) return undefined;
  const figures = { ...turn, ...toFigures(usage) };
  if (reply === undefined) return { ...without(failure ?? ""), ...figures };
  const misses = await checkReply({ reply, calls: turn.calls, tokens: figures.tokens }, fixture);
  const verdict = misses.length === 0 ? await judge(fixture, task, reply, settings) : undefined;
  if (verdict && !verdict.pass && settings.signal.aborted) return undefined;
  if (verdict && !verdict.pass)
    misses.push({ field: "expect.reply.judge", reason: verdict.reason });
  const judged = verdict
    ? { pass: verdict.pass, reason: verdict.reason, ...toFigures(verdict.usage) }
    : null;
  return { passed: misses.length === 0, misses, reply, ...figures, judge: judged };
}
