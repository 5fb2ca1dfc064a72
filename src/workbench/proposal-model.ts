import { ECHO } from "../agent/models.ts";
import type { ResolvedModel } from "../agent/types.ts";
import { RouseError } from "../core/errors.ts";
import type { Snapshot } from "../intake/types.ts";
import type { AnswerContext } from "./proposal-answer.ts";
import { buildPrompt, chooseShown, estimatePrompt } from "./proposal-prompt.ts";
import { ANSWER_TOKENS, MAX_ROUNDS, MAX_TOKENS } from "./proposal-rounds.ts";
import type { ProposalPlan, ProposalRequest } from "./proposal-types.ts";

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
