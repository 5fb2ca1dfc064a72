import { z } from "zod";
import type { Usage } from "../../store/types.ts";
import type { WhatIfReport } from "../what-if/what-if.ts";
import type { Samples } from "./samples.ts";

/** The most events that a proposal is made from. */
const MAX_EVENTS = 20;
/** The most that the operator says. */
const MAX_SAID = 2000;

const text = z.string().min(1);

/** The request of a proposal. */
export const proposalRequest = z.strictObject({
  name: text.optional().describe("The name of the new mapping file."),
  fix: z
    .union([text, z.literal(true)])
    .optional()
    .describe(
      "The id of a live mapping that is to be mended. True: the mapping that is nearest to taking the first event.",
    ),
  write: z
    .boolean()
    .optional()
    .describe(
      "False: nothing is written; the answer has the text of the file. A mapping that is mended is never written.",
    ),
  events: z.array(text).min(1).max(MAX_EVENTS).describe("Ids of recorded events of one hook."),
  say: text.max(MAX_SAID).optional().describe("The operator's words."),
  model: z
    .union([text, z.literal(false)])
    .optional()
    .describe("False: no model. Default: the model of the default agent."),
  agent: text.optional(),
  deliver: z
    .union([z.literal(false), z.strictObject({ channel: text, to: text.optional() })])
    .optional()
    .describe("False: no delivery."),
});

export type ProposalRequest = z.infer<typeof proposalRequest>;

/** A mapping that is to be mended, and why it does not take the events. It quotes them. */
export interface MendedPlan {
  mapping: string;
  /** Its conditions that do not hold. */
  reasons: { condition: string; reason: string }[];
}

/** The change of a mapping that is mended. */
export interface MappingEdit {
  mapping: string;
  /** The text of the mapping as it is in its file, without the indent of its place. */
  before: string;
  after: string;
  /** The change of its file. */
  diff: string;
}

/** The steps of making a proposal, and their cost, before any is taken. */
export interface ProposalPlan {
  /** Of the new mapping file, or the id of the mapping that is mended. */
  name: string;
  file: string;
  path: string;
  events: number;
  /** Null: the proposal is made from the shape of the events alone. */
  model: {
    ref: string;
    /** The events whose masked bodies the model gets. */
    shown: string[];
    maxRounds: number;
    maxTokens: number;
    /** Of one round. */
    estimatedTokens: number;
    /** Null: the price is unknown. */
    estimatedUsd: number | null;
    /** If all tokens are used. */
    maxUsd: number | null;
  } | null;
  /** Null: a new mapping is drafted. */
  mends: MendedPlan | null;
  masked: string[];
  leftOut: Samples["leftOut"];
  notes: string[];
}

/** The result of a proposed mapping for one event. */
export interface TriedEvent {
  eventId: string;
  /** True if all conditions of the mapping hold. */
  isTaken: boolean;
  /** The earlier mapping that takes the event, so that the proposed one does not get it; null if none does. */
  takenBefore: string | null;
  /** Expressions that find nothing. */
  missing: string[];
}

/** A fixture that was made with a proposal. */
interface ProposedFixture {
  file: string;
  eventId: string;
  outcome: string;
  mapping: string | null;
}

/** A mapping that was made, and its effects. It is in shadow; the change of one that is mended is not made. */
export interface Proposal {
  name: string;
  file: string;
  text: string;
  /** The id of the mapping. */
  mapping: string;
  /** Null: a new mapping is drafted. */
  edit: MappingEdit | null;
  model: { ref: string; rounds: number; usage: Usage } | null;
  events: TriedEvent[];
  fixtures: ProposedFixture[];
  /** Problems that it still has. */
  problems: string[];
  notes: string[];
  /** Changes for the last 1,000 events once it is live; null if they cannot be compared, or nothing is written. */
  whatIf: WhatIfReport | null;
  /** If the file could not be written: why, and the file as a patch. */
  unwritten: { reason: string; patch: string } | null;
}

/** A round of a model. */
export interface RoundLine {
  type: "round";
  round: number;
  problems: string[];
  taken: number;
  events: number;
  usage: Usage;
}

/** The lines of a proposal that is being made, in this order: one `plan`, a `round` for each answer of the model, one `end`. */
export type ProposalLine =
  | { type: "plan"; plan: ProposalPlan }
  | RoundLine
  | { type: "end"; ok: true; proposal: Proposal }
  | { type: "end"; ok: false; code: string; message: string };
