import type { Usage } from "../../store/types.ts";
import type { WhatIfReport } from "../what-if/what-if.ts";
import type { Samples } from "./samples.ts";

/** What a proposal is to be made from. */
export interface ProposalRequest {
  agent?: string | undefined;
  /** False: no delivery. */
  deliver?: false | { channel: string; to?: string | undefined } | undefined;
  /** The name of the new mapping file. */
  name?: string | undefined;
  /** The id of a live mapping that is to be mended. True: the mapping that is nearest to taking the first event. */
  fix?: string | true | undefined;
  /** False: nothing is written; the answer has the text of the file. A mapping that is mended is never written. */
  write?: boolean | undefined;
  /** Ids of recorded events of one hook. */
  events: readonly string[];
  /** The operator's words. */
  say?: string | undefined;
  /** False: no model. Default: the model of the default agent. */
  model?: string | false | undefined;
}

/** A mapping that is to be mended, and why it does not take the events. It quotes them. */
export interface MendedPlan {
  mapping: string;
  /** Its conditions that do not hold. */
  reasons: { condition: string; reason: string }[];
}

/** What a proposal changes of the mapping that it mends. */
export interface MappingEdit {
  mapping: string;
  /** The text of the mapping as it is in its file, without the indent of its place. */
  before: string;
  after: string;
  /** The change of its file. */
  diff: string;
}

/** What making a proposal will do, before it does anything. */
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

/** What a proposed mapping makes of one event. */
export interface TriedEvent {
  eventId: string;
  /** Whether all conditions of the mapping hold. */
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

/** A mapping that was made, and what it would do. It is in shadow; the change of one that is mended is not made. */
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
  /** What is still wrong with it. */
  problems: string[];
  notes: string[];
  /** What would change for the last 1,000 events once it is live; null if they cannot be compared, or nothing is written. */
  whatIf: WhatIfReport | null;
  /** If the file could not be written: why, and the file as a patch. */
  unwritten: { reason: string; patch: string } | null;
}

/** A round as it is shown. */
export interface RoundReport {
  round: number;
  problems: string[];
  taken: number;
  events: number;
  usage: Usage;
}

/** How a proposal is made, in this order: one `plan`, a `round` for each answer of the model, one `end`. */
export type ProposalLine =
  | { type: "plan"; plan: ProposalPlan }
  | ({ type: "round" } & RoundReport)
  | { type: "end"; ok: true; proposal: Proposal }
  | { type: "end"; ok: false; code: string; message: string };
