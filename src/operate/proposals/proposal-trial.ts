import { testInput, type TestedHook } from "../records/test-hook.ts";
import { cutText, joinParts } from "../../core/text.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { ConditionTrace } from "../../mapping/types.ts";
import type { CandidateResult } from "../edits/landing-checks.ts";
import type { ProposalSample } from "./proposal-samples.ts";

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

/** How a proposed mapping did. */
export interface MappingTrial {
  /** False if the config has problems with it. */
  isValid: boolean;
  /** What has to change. */
  problems: string[];
  events: TriedEvent[];
  /** Each condition and each text, for the model. It quotes the events. */
  explanation: string;
}

/** Which events a mapping must take. */
export interface Wanted {
  /** Numbers of events that must be taken, from 1. */
  takes: ReadonlySet<number>;
  /** Numbers of events that must not be taken. */
  leaves: ReadonlySet<number>;
}

const MAX_EXPLAINED = 5;
const MAX_TEXT = 1200;

function renderCondition(
  { condition, wants, result, reason, children = [] }: ConditionTrace,
  indent = "  ",
): string {
  const line = `${indent}${result === true ? "holds" : "does not hold"}: ${condition} ${wants ?? ""}: ${reason}`;
  return [line, ...children.map((child) => renderCondition(child, `${indent}  `))].join("\n");
}

function renderEvent(tested: TestedHook, mapping: string, number: number): string {
  const trace = tested.traces.find((one) => one.mapping === mapping);
  const conditions = (trace?.conditions ?? []).map((condition) => renderCondition(condition));
  const texts = tested.actions.map((action) =>
    action.ok
      ? joinParts(action.content)
          .map(({ text }) => text)
          .join("")
      : action.failure.message,
  );
  const made = texts.map((text) => `  makes: ${cutText(text, MAX_TEXT).text}`);
  return [
    `event ${number}: ${trace?.matched ? "taken" : "not taken"}`,
    ...conditions,
    ...made,
  ].join("\n");
}

async function tryEvent(
  { event, input }: ProposalSample,
  mapping: string,
  snapshot: Snapshot,
): Promise<{ tried: TriedEvent; tested: TestedHook }> {
  const tested = await testInput(input, snapshot);
  const trace = tested.traces.find((one) => one.mapping === mapping);
  const isTaken = trace?.matched ?? false;
  const missing = tested.actions.flatMap((action) =>
    action.ok && action.mapping === mapping ? action.missing : [],
  );
  const own = tested.mapping === mapping ? tested.missing : [];
  return {
    tested,
    tried: {
      eventId: event.id,
      isTaken,
      takenBefore: trace?.by ?? null,
      missing: [...new Set([...missing, ...own])],
    },
  };
}

function findProblem(
  { isTaken, missing }: TriedEvent,
  number: number,
  { takes, leaves }: Wanted,
): string[] {
  if (takes.has(number) && !isTaken) return [`event ${number} is to be taken, and is not`];
  if (leaves.has(number) && isTaken) return [`event ${number} is not to be taken, and is`];
  return isTaken && missing.length > 0
    ? [`event ${number} does not have ${missing.join(", ")}`]
    : [];
}

/** Runs a proposed mapping on the masked events. Starts nothing and stores nothing. */
export async function tryMapping(
  candidate: CandidateResult,
  mapping: string,
  samples: readonly ProposalSample[],
  wanted: Wanted,
): Promise<MappingTrial> {
  if (!candidate.ok) {
    const problems = candidate.issues.map(({ path, message }) => `${path}: ${message}`);
    return { isValid: false, problems, events: [], explanation: "" };
  }
  const events: TriedEvent[] = [];
  const explained: string[] = [];
  for (const [index, sample] of samples.entries()) {
    const { tried, tested } = await tryEvent(sample, mapping, candidate.snapshot);
    events.push(tried);
    if (findProblem(tried, index + 1, wanted).length > 0)
      explained.push(renderEvent(tested, mapping, index + 1));
  }
  const problems = events.flatMap((tried, index) => findProblem(tried, index + 1, wanted));
  return {
    isValid: true,
    problems,
    events,
    explanation: explained.slice(0, MAX_EXPLAINED).join("\n"),
  };
}
