import { ECHO } from "../../agent/models.ts";
import type { AgentRuntime, ResolvedModel } from "../../agent/types.ts";
import { addUsage } from "../../agent/usage.ts";
import { RouseError } from "../../core/errors.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { Usage } from "../../store/types.ts";
import { readAnswer, type AnswerContext, type MappingParts } from "./proposal-answer.ts";
import {
  ANSWER_JSON_SCHEMA,
  buildPrompt,
  chooseShown,
  estimatePrompt,
  INSTRUCTIONS,
  type Feedback,
} from "./proposal-prompt.ts";
import type { MappingTrial, Wanted } from "./proposal-trial.ts";
import type { ProposalPlan, ProposalRequest, RoundReport } from "./proposal-types.ts";

export const MAX_ROUNDS = 4;
/** Of all rounds together: what goes to the model, and what it answers. */
export const MAX_TOKENS = 60_000;
/** An answer is about this long, or shorter. */
const ANSWER_TOKENS = 1_000;
const MAX_ANSWER_TOKENS = 8_000;
const MIN_ANSWER_TOKENS = 500;
const ROUND_MS = 120_000;

/** A mapping that compiles, and how it did. */
export interface Candidate {
  parts: MappingParts;
  trial: MappingTrial;
  notes: string[];
}

/** What the rounds came to. `best` is undefined if no answer gave a mapping that takes an event. */
export interface RoundsEnd {
  best: Candidate | undefined;
  rounds: number;
  usage: Usage;
  /** `tokens`: another round might have passed the limit. */
  ended: "good" | "rounds" | "tokens" | "failed";
  /** Why no model answered; the answers before stay. */
  failure?: string;
}

/** What the rounds need. */
export interface RoundsOptions {
  context: AnswerContext;
  model: ResolvedModel;
  runtime: Pick<AgentRuntime, "runTurn">;
  runId: string;
  signal: AbortSignal;
  /** Compiles a mapping, and runs it on the events. */
  tryParts(parts: MappingParts, wanted: Wanted): Promise<MappingTrial>;
}

/** Which events must be taken: without words of the operator all, else those that the model names of those that it sees. */
function getWanted({ samples, say }: AnswerContext, takes: readonly number[]): Wanted {
  const all = samples.samples.map((_, index) => index + 1);
  if (say === undefined) return { takes: new Set(all), leaves: new Set() };
  const shown = chooseShown(samples.samples).map(({ number }) => number);
  return {
    takes: new Set(shown.filter((number) => takes.includes(number))),
    leaves: new Set(shown.filter((number) => !takes.includes(number))),
  };
}

const countTokens = ({ totalTokens, inputTokens, outputTokens }: Usage): number | undefined =>
  totalTokens ??
  (inputTokens === undefined || outputTokens === undefined
    ? undefined
    : inputTokens + outputTokens);

const countTaken = ({ events }: MappingTrial): number =>
  events.filter(({ isTaken }) => isTaken).length;

/** Whether a mapping did better than the best before it. */
function isBetter({ trial }: Candidate, best: Candidate | undefined): boolean {
  if (!trial.isValid || countTaken(trial) === 0) return false;
  return !best || trial.problems.length <= best.trial.problems.length;
}

class Rounds {
  readonly #options: RoundsOptions;
  readonly #usages: Usage[] = [];
  #tokens = 0;
  #best: Candidate | undefined;
  #feedback: Feedback | undefined;

  constructor(options: RoundsOptions) {
    this.#options = options;
  }

  /** Asks the model once. A string says why it gave no answer. */
  async #ask(maxTokens: number): Promise<{ text: string; usage: Usage } | string> {
    const { context, model, runtime, runId, signal } = this.#options;
    const input = buildPrompt(context, this.#feedback);
    const result = await runtime.runTurn({
      agent: {
        id: "propose",
        name: "Rouse",
        instructions: INSTRUCTIONS,
        model: model.ref,
        tools: [],
        approve: [],
        knowledge: "off",
      },
      history: [],
      input,
      info: { agentId: "propose", sessionKey: "propose", runId, kind: "api" },
      question: "",
      isPlain: true,
      source: "recorded events",
      unsafe: false,
      tools: [[]],
      model,
      timeoutMs: ROUND_MS,
      signal,
      sampling: {
        maxOutputTokens: maxTokens,
        json: { name: "mapping", schema: ANSWER_JSON_SCHEMA, strict: true },
      },
    });
    if (result.ok) return { text: result.text, usage: result.usage };
    return "message" in result ? result.message : "the turn did not end";
  }

  /** Reads an answer, and runs what it gives on the events. */
  async #judge(text: string): Promise<Candidate> {
    const { context, tryParts } = this.#options;
    const { parts, takes, problems, notes } = readAnswer(text, context);
    const invalid = (all: string[]): Candidate => ({
      parts,
      notes,
      trial: { isValid: false, problems: all, events: [], explanation: "" },
    });
    if (problems.length > 0) return invalid(problems);
    const wanted = getWanted(context, takes);
    if (wanted.takes.size === 0)
      return invalid(['"takes" names no event: the mapping must take one at least']);
    return { parts, notes, trial: await tryParts(parts, wanted) };
  }

  #end(ended: RoundsEnd["ended"], rounds: number, failure?: string): RoundsEnd {
    const usage = addUsage(this.#usages);
    return { best: this.#best, rounds, usage, ended, ...(failure !== undefined && { failure }) };
  }

  async *run(): AsyncGenerator<RoundReport, RoundsEnd> {
    const { context } = this.#options;
    for (let round = 1; round <= MAX_ROUNDS; round++) {
      const prompt = estimatePrompt(buildPrompt(context, this.#feedback));
      const left = MAX_TOKENS - this.#tokens - prompt;
      if (left < MIN_ANSWER_TOKENS) return this.#end("tokens", round - 1);
      const asked = await this.#ask(Math.min(MAX_ANSWER_TOKENS, left));
      if (typeof asked === "string") return this.#end("failed", round, asked);
      const { text, usage } = asked;
      this.#usages.push(usage);
      this.#tokens += countTokens(usage) ?? prompt + Math.ceil(text.length / 3);
      const candidate = await this.#judge(text);
      if (isBetter(candidate, this.#best)) this.#best = candidate;
      const { problems, explanation } = candidate.trial;
      yield {
        round,
        problems,
        taken: countTaken(candidate.trial),
        events: context.samples.samples.length,
        usage,
      };
      if (problems.length === 0) return this.#end("good", round);
      this.#feedback = { answer: text, problems, explanation };
    }
    return this.#end("rounds", MAX_ROUNDS);
  }
}

/**
 * Asks a model for a mapping, without tools: its answer is compiled and run on the masked events, and what came of it goes
 * back, until nothing is wrong or a limit is reached. Starts no run and stores nothing.
 */
export const runRounds = (options: RoundsOptions): AsyncGenerator<RoundReport, RoundsEnd> =>
  new Rounds(options).run();

/** The model that is asked; null if none is wanted, or none is configured. */
export function findModel(
  wanted: ProposalRequest["model"],
  { models, agents }: Snapshot,
  notes: string[],
): ResolvedModel | null {
  if (wanted === false) return null;
  const { model, fallbacks } = agents.default;
  const found = wanted === undefined ? models.resolve(model, fallbacks) : models.resolve(wanted);
  if (!found.ok)
    throw new RouseError({
      code: "unknown_model",
      message: `the model "${wanted ?? model}": ${found.message}`,
    });
  if (found.model.ref !== ECHO.ref) return found.model;
  notes.push("no model is configured, so the proposal is made from the shape of the events alone");
  return null;
}

/** Says what a model gets and may cost. */
export function planModel(
  model: ResolvedModel | null,
  context: AnswerContext,
  { models }: Snapshot,
): ProposalPlan["model"] {
  if (!model) return null;
  const prompt = estimatePrompt(buildPrompt(context, undefined));
  const price = models.getPrice(model);
  const round = (usd: number): number => Math.round(usd * 10_000) / 10_000;
  return {
    ref: model.ref,
    shown: chooseShown(context.samples.samples).map(({ sample }) => sample.event.id),
    maxRounds: MAX_ROUNDS,
    maxTokens: MAX_TOKENS,
    estimatedTokens: prompt + ANSWER_TOKENS,
    estimatedUsd: price ? round((prompt * price.input + ANSWER_TOKENS * price.output) / 1e6) : null,
    maxUsd: price ? round((MAX_TOKENS * Math.max(price.input, price.output)) / 1e6) : null,
  };
}
