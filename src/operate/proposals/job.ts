import { existsSync } from "node:fs";
import { PRESET_NAME } from "../../config/schema/mapping.ts";
import { cutText, plainText, plural } from "../../core/text.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { ConditionTrace } from "../../mapping/types.ts";
import type { CandidateResult, ComparisonDeps } from "../edits/landing-checks.ts";
import { mappingFile } from "../edits/user-files.ts";
import { refuse } from "../records/operation.ts";
import { testInput, type TestedHook } from "../records/test-hook.ts";
import type { ProposalRequest } from "./proposal-request.ts";
import type { MappingParts, ProposalSample, Samples } from "./samples.ts";

/** The source and the purpose of a proposal. */
export interface ProposalJob extends Pick<ProposalRequest, "agent" | "deliver" | "say"> {
  /** Of the new mapping file. */
  name: string;
  file: string;
  /** The id of the mapping that is made. */
  mapping: string;
  samples: Samples;
  snapshot: Snapshot;
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

/** The file of a proposal, with the mapping in shadow. */
export const renderProposal = (job: ProposalJob, parts: MappingParts): string =>
  renderNew(job, parts, true);

/** Builds the config with a proposed mapping live, for one use. */
export function withLive<T>(
  job: ProposalJob,
  parts: MappingParts,
  { withCandidate }: Pick<ComparisonDeps, "withCandidate">,
  use: (candidate: CandidateResult) => Promise<T>,
): Promise<T> {
  return withCandidate(new Map([[job.file, renderNew(job, parts)]]), use);
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
