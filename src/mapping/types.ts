import type { Callback, LimitsConfig } from "../config/schema/limits.ts";
import type { Summary } from "../config/schema/common.ts";
import type { MappingConfig } from "../config/schema/mapping.ts";
import type { TextPart } from "../core/text.ts";
import type { EventDebug } from "../vocabulary/debug-notes.ts";
import type { Failure } from "../core/errors.ts";
import type { BodyFormat, QueryValues } from "../core/http/payload.ts";
import type { Truth } from "./condition.ts";
import type { NamedMapping } from "./source.ts";
import type { Seen } from "./seen.ts";
import type { KnownResults } from "./template-context.ts";

/** The request that the mapping engine gets. Plain JSON; credentials are already gone from headers and query. */
export interface MappingInput {
  /** Path below the hooks' base: `alerts`. */
  path: string;
  method: string;
  /** True when the request came in by the hook token: only then mappings without a path are tried. */
  byHookToken: boolean;
  payload: unknown;
  /** Lower-case names. */
  headers: Record<string, string>;
  query: QueryValues;
  /** Milliseconds since the epoch. */
  now: number;
  /** Results of expressions for this input, if several sets of mappings decide about it. */
  results?: KnownResults;
  /** The id of a mapping that is evaluated as if it were not in shadow. */
  live?: string | undefined;
}

/** Fields that an action may have, as a mapping, a transform or a request states them: not yet checked. */
export interface ActionFields {
  name?: unknown;
  message?: unknown;
  text?: unknown;
  agentId?: unknown;
  sessionKey?: unknown;
  instructions?: unknown;
  wakeMode?: unknown;
  deliver?: unknown;
  channel?: unknown;
  to?: unknown;
  model?: unknown;
  thinking?: unknown;
  timeoutSeconds?: unknown;
}

/** An action as a mapping wants it: fields that are checked like a request's. */
export interface ActionDraft {
  action: "wake" | "agent";
  mapping: string;
  fields: ActionFields;
  /** The message or the text, with the operator's words kept apart from interpolated values. */
  content: TextPart[];
  dedupeKey?: string;
  unsafe: boolean;
  /** Added to the reply, by which its echo is known. */
  marker?: string;
  /** The mapping's own; no template and no transform sets it. */
  summary?: Summary;
  /** The event is to be collected with others of the same key. */
  batch?: { key: string; windowSeconds: number; maxSeconds: number; maxEvents: number };
  /** Template expressions that found nothing, as written. */
  missing: string[];
  /** Warnings for the caller and the operator; they quote no value. */
  warnings: string[];
  /** Set instead of `sessionKey` if a part of the key was empty: the run gets a key that no other has, which begins so. */
  freshKeyPrefix?: string;
}

/** A draft, or why this item has none. Items stand alone. */
export type DraftResult =
  | { ok: true; draft: ActionDraft }
  | { ok: false; mapping: string; failure: Failure };

/** The mapping that came closest to an event, and the name of its first condition that failed: never the expected value. */
export interface Nearest {
  mapping: string;
  condition: string;
}

export type MappingOutcome =
  /** `list`: answer in the form of several actions. `mapping`: the first that matched. */
  | { kind: "actions"; mapping: string; list: boolean; results: DraftResult[] }
  /** `echo`: the agent itself has caused the event. `nearest`: of the other mappings. */
  | { kind: "skipped"; mapping: string; reason: string; echo?: true; nearest?: Nearest }
  | { kind: "unmatched"; nearest?: Nearest }
  /** 4xx: `validation_failed`, `mapping_incomplete`, `too_many_actions`. */
  | { kind: "rejected"; mapping: string; failure: Failure; missing?: string[] }
  /** 5xx: `mapping_failed`, `transform_failed`. */
  | { kind: "failed"; mapping: string; failure: Failure };

/** The outcome of an event that a mapping has matched. */
export type DecidedOutcome = Exclude<MappingOutcome, { kind: "unmatched" }>;

/** A result of a mapping, with the notes of its code. */
export type Debugged<T> = T & { debug?: EventDebug };

/** The outcome of the mappings for an event. */
export type EvaluatedOutcome = Debugged<MappingOutcome> & {
  /** The outcome of each mapping in shadow that matched, as if it had been live and alone. */
  shadow?: DecidedOutcome[];
};

/** The settings of a path: shared by all mappings on it. */
export interface PathRules {
  path: string;
  /** Undefined: the hook token. */
  auth?: NonNullable<MappingConfig["auth"]>;
  /** The place of `auth` in the config, for its problems. */
  authAt?: string;
  methods: ("POST" | "GET")[];
  allowIps?: string[];
  /** Undefined: what the sender's scheme says, else `hooks.maxBodyBytes`. */
  maxBodyBytes?: number;
  /** The format of bodies. Undefined: by their content types. */
  body?: BodyFormat;
}

/** One condition of a mapping and how it came out. For operators only: it quotes the event. */
export interface ConditionTrace {
  /** The place in the mapping: `match.payload.action`, `match.when`. */
  condition: string;
  /** The field, with `[]` where it leads through a list: `labels[].name`. Absent for groups of conditions. */
  field?: string;
  /** The operator and what it is given: `$gte 100`; `$or` for a group. */
  wants?: string;
  saw?: Seen;
  result: Truth;
  /** The reason in words: `data.total is the text "240"; $gte with a number never holds for text`. */
  reason: string;
  /** The conditions of a group. */
  children?: ConditionTrace[];
}

/** A piece of a rendered field. For operators only: it quotes the event. */
export interface RenderedPiece {
  text: string;
  /** The expression that gave it. Absent for the mapping's own words. */
  expression?: string;
  /** The expression gave nothing or null. */
  missing?: true;
}

/** A field of a mapping as it was rendered, or why that failed. */
export interface FieldTrace {
  field: string;
  /** With `forEach`: the item, from 0. */
  item?: number;
  pieces: RenderedPiece[];
  failure?: string;
}

/**
 * The result of a mapping for an event: it was the first to match, matched besides, would have matched had no earlier
 * one ended the search, did not match, could not say, failed, is not enabled, or matched in shadow, which decides
 * nothing.
 */
export type MappingVerdict =
  | "first"
  | "also"
  | "hidden"
  | "no"
  | "unknown"
  | "failed"
  | "disabled"
  | "shadow";

export interface MappingTrace {
  mapping: string;
  /** `config`, `mappings/<file>` or `preset:<name>`. */
  origin: string;
  /** The place in the config: `hooks.mappings[0]`. */
  at: string;
  verdict: MappingVerdict;
  /** True if all its conditions hold. */
  matched: boolean;
  /** Of a hidden mapping: the one that ended the search. */
  by?: string;
  conditions: ConditionTrace[];
  /** The rendered fields, if it was reached and matched. */
  fields?: FieldTrace[];
}

export interface MappingInfo {
  id: string;
  /** `config`, `mappings/<file>` or `preset:<name>`. */
  origin: string;
  enabled: boolean;
  /** Evaluated and recorded, and nothing is done. */
  shadow: boolean;
  paths: string[];
  action: "wake" | "agent";
  /** The place in the config: `hooks.mappings[0]`. */
  at: string;
  /** The headers, in lower case, and the query parameters that it decides by, renders or keeps. */
  headers: readonly string[];
  query: readonly string[];
  /** `allowUnsafeExternalContent`: its agents read what the sender says without the boundary. */
  unsafe: boolean;
}

/** The settings of a mapping for the runs that it makes. */
export interface MappingSettings {
  /** Limits, and whose they are: `mapping:<id>`, `preset:<name>`. */
  budget?: { scope: string; limits: LimitsConfig };
  callback?: Callback;
  /** Which of the agent's own tools its runs may use, by the operator's word. Undefined: what `hooks.tools` says. */
  tools?: readonly string[];
  /** Calls that wait for a person, besides those of the agent. */
  approve?: readonly string[];
}

/** Compiled mappings: frozen, made once a snapshot. */
export interface MappingSet {
  readonly mappings: readonly MappingInfo[];
  /** The same with what is written of each. */
  readonly configs: readonly { config: NamedMapping; info: MappingInfo }[];
  /** Rules of a literal path, or undefined if no mapping names it. */
  readonly rules: ReadonlyMap<string, PathRules>;
  readonly paths: readonly PathRules[];
  /**
   * Returns whether a mapping, disabled or not, names the path of a request or could take the request without naming a
   * path.
   */
  owns(request: Pick<MappingInput, "path" | "byHookToken">): boolean;
  /** Resolves a hook. Never throws. */
  run(input: MappingInput): Promise<EvaluatedOutcome>;
  /** Resolves events that one mapping has collected, as one. Undefined if the mapping does not exist any more. */
  combine(
    mapping: string,
    inputs: readonly MappingInput[],
  ): Promise<Debugged<MappingOutcome> | undefined>;
  settings(mapping: string): MappingSettings | undefined;
  /** All that is written of the mappings that could take a request, by their ids, in the order in which they are tried. */
  written(request: Pick<MappingInput, "path" | "byHookToken">): ReadonlyMap<string, string>;
  /** Budgets of all mappings, each once. */
  readonly budgets: readonly NonNullable<MappingSettings["budget"]>[];
  /** Runs one mapping, as if it were live, or all, and says how each condition came out (`hooks test`). */
  explain(
    input: MappingInput,
    mapping?: string,
  ): Promise<{ traces: MappingTrace[]; outcome: EvaluatedOutcome }>;
  /** Files whose change means a new snapshot: mapping files and the secrets that they name, schemas, transform modules. */
  readonly files: readonly string[];
  /** Of these, the mapping files, the documents of enabled presets, and schemas. */
  readonly documents: readonly string[];
  /** Of these, the files of each transform module, by the name that mappings have for it. */
  readonly modules: ReadonlyMap<string, readonly string[]>;
}
