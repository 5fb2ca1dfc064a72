import { existsSync } from "node:fs";
import { basename } from "node:path";
import { editText } from "../../config/edit.ts";
import { PRESET_NAME } from "../../config/schema/mapping.ts";
import { cutText, plainText, plural } from "../../core/text.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { ConditionTrace } from "../../mapping/types.ts";
import type { CandidateResult, ComparisonDeps } from "../edits/landing-checks.ts";
import { withoutIndent } from "../edits/mapping-text.ts";
import { planChange, readMapping, type MappingChange } from "../edits/planned-change.ts";
import { renderFilePatch } from "../edits/unified-diff.ts";
import { mappingFile, toTexts, type FileChange } from "../edits/user-files.ts";
import { refuse } from "../records/operation.ts";
import { testInput, type TestedHook } from "../records/test-hook.ts";
import type { ProposalRequest } from "./proposal-request.ts";
import type { MappingParts, ProposalSample, Samples } from "./samples.ts";

/** A live mapping that is to be mended, as it is written. */
export interface FixedMapping {
  id: string;
  value: Record<string, unknown>;
  text: string;
}

/** The source and the purpose of a proposal. */
export interface ProposalJob extends Pick<ProposalRequest, "agent" | "deliver" | "say"> {
  /** Of the new mapping file, or the id of the mapping that is mended. */
  name: string;
  file: string;
  /** The id of the mapping that is made or mended. */
  mapping: string;
  /** Undefined: a new mapping is made. */
  fixed: FixedMapping | undefined;
  samples: Samples;
  snapshot: Snapshot;
}

/** Finds a live mapping that is to be mended. @throws RouseError `not_found`, or `usage` if it is in no file of the user. */
export function findFixed(id: string, snapshot: Snapshot): FixedMapping & { file: string } {
  const { file, written } = readMapping(id, snapshot);
  return { id, file, value: written.value, text: written.text };
}

/**
 * The file of a new mapping.
 * @throws RouseError `usage` if its name is none for a mapping file, or taken.
 */
export function getNewFile(name: string, { mappings, config }: Snapshot): string {
  if (!PRESET_NAME.test(name)) refuse(`"${name}": use lower-case letters, digits and "-"`);
  const file = mappingFile(config.hooks.mappingsDir, `${name}.json`);
  const taken = [file, `${file}5`].find((one) => existsSync(one));
  if (taken !== undefined) refuse(`${taken} is there already: choose another name, or edit it`);
  const id = `${name}.event`;
  if (mappings.mappings.some((mapping) => mapping.id === id))
    refuse(`there is a mapping "${id}" already: choose another name`);
  return file;
}

/** The text of the file of a new mapping, as it is written or as it is once it is live. */
function renderNew(
  { name, mapping: id, say, agent, deliver, samples: { path, samples } }: ProposalJob,
  { payload = {}, headers, ...rest }: MappingParts,
  shadow?: true,
): string {
  const count = plural(samples.length, "recorded event");
  const words = say === undefined ? "" : `: ${JSON.stringify(say)}`;
  const route = deliver && { deliver: true, ...deliver };
  const mapping = {
    id,
    shadow,
    match: { path, payload, headers },
    agentId: agent,
    ...(deliver === false ? { deliver } : route),
    ...rest,
  };
  const description = `Proposed from ${count} of ${path}${words}.`;
  return `${JSON.stringify({ id: name, version: 1, description, mappings: [mapping] }, null, 2)}\n`;
}

/** A proposal as a change: what is written, and what its file has once the mapping is live. */
interface BuiltProposal {
  change: Extract<MappingChange, { kind: "file" | "replace" }>;
  live: FileChange;
}

/** Builds a proposal of its parts: a file with the mapping in shadow, or the change of the mapping that it mends. */
export function buildProposal(job: ProposalJob, parts: MappingParts): BuiltProposal {
  const { name, file, fixed, snapshot } = job;
  if (!fixed)
    return {
      change: { kind: "file", file: `${name}.json`, text: renderNew(job, parts, true) },
      live: { file, before: null, after: renderNew(job, parts) },
    };
  const { payload, headers, ...rest } = parts;
  const changes = [
    { path: ["match", "payload"], value: payload },
    { path: ["match", "headers"], value: headers },
    ...Object.entries(rest).map(([field, value]) => ({ path: [field], value })),
  ].filter(({ value }) => value !== undefined);
  const from = withoutIndent(fixed.text);
  const text = editText(from, changes);
  const change = { kind: "replace" as const, mapping: fixed.id, text, from };
  return { change, live: planChange(change, snapshot).change };
}

/** The change of a mapping that is mended. */
export type MappingEdit = NonNullable<ReturnType<typeof renderEdit>>;

/** Renders what a proposal changes of the mapping that it mends; null if it makes a new one. */
export function renderEdit({ fixed }: ProposalJob, { change, live }: BuiltProposal) {
  if (!fixed) return null;
  return {
    mapping: fixed.id,
    /** The text of the mapping as it is in its file, without the indent of its place. */
    before: withoutIndent(fixed.text),
    after: change.text,
    /** The change of its file. */
    diff: renderFilePatch(basename(live.file), live),
  };
}

/** Builds the config with a proposed mapping live, for one use. */
export function withLive<T>(
  job: ProposalJob,
  parts: MappingParts,
  { withCandidate }: Pick<ComparisonDeps, "withCandidate">,
  use: (candidate: CandidateResult) => Promise<T>,
): Promise<T> {
  return withCandidate(toTexts(buildProposal(job, parts).live), use);
}

/** The result of running a proposed mapping on the events. */
export interface MappingTrial {
  /** Changes that are needed. */
  problems: string[];
  /** Empty if the config has problems with the mapping. */
  events: TriedEvent[];
  /** Each condition and each text, for the model. It quotes the events. */
  explanation: string;
}

/** True for events that a mapping must take, false for those that it must not, by their numbers from 1. The rest is absent. */
export type Wanted = ReadonlyMap<number, boolean>;

const MAX_EXPLAINED = 5;
const MAX_TEXT = 1200;

function renderCondition(
  { condition, wants = "", result, reason, children = [] }: ConditionTrace,
  indent = "  ",
): string[] {
  const holds = result === true ? "holds" : "does not hold";
  return [
    `${indent}${holds}: ${condition} ${wants}: ${reason}`,
    ...children.flatMap((child) => renderCondition(child, `${indent}  `)),
  ];
}

function renderTried({ traces, actions }: TestedHook, mapping: string, number: number): string {
  const trace = traces.find((one) => one.mapping === mapping);
  const made = actions.map((action) => {
    const text = action.ok ? plainText(action.content) : action.failure.message;
    return `  makes: ${cutText(text, MAX_TEXT).text}`;
  });
  return [
    `event ${number}: ${trace?.matched ? "taken" : "not taken"}`,
    ...(trace?.conditions ?? []).flatMap((condition) => renderCondition(condition)),
    ...made,
  ].join("\n");
}

/** The result of a proposed mapping for one event. */
type TriedEvent = ReturnType<typeof toTried>;

function toTried(
  { event }: ProposalSample,
  { traces, actions, ...tested }: TestedHook,
  mapping: string,
) {
  const trace = traces.find((one) => one.mapping === mapping);
  const missing = actions.flatMap((action) =>
    action.ok && action.mapping === mapping ? action.missing : [],
  );
  const own = tested.mapping === mapping ? tested.missing : [];
  return {
    eventId: event.id,
    /** True if all conditions of the mapping hold. */
    isTaken: trace?.matched ?? false,
    /** The earlier mapping that takes the event, so that the proposed one does not get it; null if none does. */
    takenBefore: trace?.by ?? null,
    /** Expressions that find nothing. */
    missing: [...new Set([...missing, ...own])],
  };
}

function findProblem(
  { isTaken, missing }: TriedEvent,
  number: number,
  wanted: Wanted,
): string | undefined {
  if (wanted.get(number) === true && !isTaken) return `event ${number} is to be taken, and is not`;
  if (wanted.get(number) === false && isTaken) return `event ${number} is not to be taken, and is`;
  return isTaken && missing.length > 0
    ? `event ${number} does not have ${missing.join(", ")}`
    : undefined;
}

/** Runs a proposed mapping on the masked events. Starts nothing and stores nothing. */
export async function tryMapping(
  candidate: CandidateResult,
  { mapping, samples: { samples } }: ProposalJob,
  wanted: Wanted,
): Promise<MappingTrial> {
  if (!candidate.ok)
    return {
      problems: candidate.issues.map(({ path, message }) => `${path}: ${message}`),
      events: [],
      explanation: "",
    };
  const [problems, explained]: [string[], string[]] = [[], []];
  const events: TriedEvent[] = [];
  for (const [index, sample] of samples.entries()) {
    const tested = await testInput(sample.input, candidate.snapshot);
    const tried = toTried(sample, tested, mapping);
    events.push(tried);
    const problem = findProblem(tried, index + 1, wanted);
    if (problem === undefined) continue;
    problems.push(problem);
    explained.push(renderTried(tested, mapping, index + 1));
  }
  return { problems, events, explanation: explained.slice(0, MAX_EXPLAINED).join("\n") };
}
