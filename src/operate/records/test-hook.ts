import type { BodyFormat, QueryValues } from "../../core/http/payload.ts";
import { basename } from "node:path";
import { BODY_GONE, BODY_GONE_ADVICE } from "../../vocabulary/body-gone.ts";
import { locateIssues } from "../../config/places.ts";
import { checkDraft } from "../../turns/validate.ts";
import type { EventDebug } from "../../vocabulary/debug-notes.ts";
import { RouseError, type Failure } from "../../core/errors.ts";
import type { TextPart } from "../../core/text.ts";
import type {
  DraftResult,
  MappingInput,
  MappingOutcome,
  MappingTrace,
  Nearest,
} from "../../mapping/types.ts";
import { createKeptNames, keptParts } from "../../intake/authenticate.ts";
import { readRecordedInput } from "../../intake/replay.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { EventRecord } from "../../store/types.ts";
import { renderTested, renderTrace } from "./texts.ts";

export interface HookTest {
  mapping?: string | undefined;
  /** Default: the first path of the mapping. */
  path?: string | undefined;
  method: string;
  /** Returns the body, read as the mappings of the path say. */
  readPayload(format: BodyFormat | undefined): unknown;
  headers: Record<string, string>;
  query: QueryValues;
}

/** One action that a tested hook would become. */
export type TestedAction =
  | {
      ok: true;
      mapping: string;
      action: "wake" | "agent";
      fields: Record<string, unknown>;
      content: TextPart[];
      dedupeKey: string | null;
      missing: string[];
      warnings: string[];
      unsafe: boolean;
      /** Why the gateway would refuse it: an unknown agent, a wrong recipient, … */
      problem: Failure | null;
    }
  | { ok: false; mapping: string; failure: Failure };

/** How a mapping decided, in words too, with the place where it is written: `rouse.json5:9`. */
export type PlacedTrace = MappingTrace & { place: string; text: string };

export interface TestedHook {
  /** Every mapping that could take the hook, in the order in which they are tried. */
  traces: PlacedTrace[];
  outcome: "actions" | "skipped" | "unmatched" | "rejected" | "failed";
  /** Why there is no action; null if there is one. */
  text: string | null;
  mapping: string | null;
  reason: string | null;
  failure: Failure | null;
  nearest: Nearest | null;
  missing: string[];
  actions: TestedAction[];
  /** What mappings in shadow would have done. */
  would: TestedAction[];
  /** If one mapping is tested: an earlier one that would take the hook, with its place. */
  takenBefore?: { mapping: string; place: string };
  /** What the mappings' code threw and printed; null if nothing. */
  debug: EventDebug | null;
}

/** The path to test: the one that is named, else the first of the mapping. */
function getPath(test: HookTest, snapshot: Snapshot): string {
  const { mappings } = snapshot.mappings;
  if (test.mapping === undefined) {
    if (test.path !== undefined) return test.path;
    throw new RouseError({ code: "usage", message: "name a mapping or a path" });
  }
  const mapping = mappings.find(({ id }) => id === test.mapping);
  if (!mapping) {
    const known =
      mappings.length === 0
        ? "the config has none"
        : `there are ${mappings.map(({ id }) => id).join(", ")}`;
    throw new RouseError({
      code: "not_found",
      message: `there is no mapping with this id; ${known}`,
    });
  }
  return test.path ?? mapping.paths[0] ?? "test";
}

function testedAction(result: DraftResult, input: MappingInput, snapshot: Snapshot): TestedAction {
  if (!result.ok) return { ok: false, mapping: result.mapping, failure: result.failure };
  const { draft } = result;
  const fields = draft.fields as Record<string, unknown>;
  const checked = checkDraft({ ...draft, fields }, { hook: input.path, now: input.now }, snapshot);
  return {
    ok: true,
    mapping: draft.mapping,
    action: draft.action,
    fields: Object.fromEntries(
      Object.entries(fields).filter(
        ([name, value]) => value !== undefined && name !== "message" && name !== "text",
      ),
    ),
    content: draft.content,
    dedupeKey: draft.dedupeKey ?? null,
    missing: draft.missing,
    warnings: draft.warnings,
    unsafe: draft.unsafe,
    problem: checked.ok ? null : checked.failure,
  };
}

function describe(
  outcome: MappingOutcome,
): Omit<TestedHook, "text" | "traces" | "actions" | "would" | "takenBefore" | "debug"> {
  const base = {
    outcome: outcome.kind,
    mapping: null,
    reason: null,
    failure: null,
    nearest: null,
    missing: [],
  };
  switch (outcome.kind) {
    case "unmatched":
      return { ...base, nearest: outcome.nearest ?? null };
    case "skipped":
      return { ...base, mapping: outcome.mapping, reason: outcome.reason };
    case "rejected":
      return {
        ...base,
        mapping: outcome.mapping,
        failure: outcome.failure,
        missing: outcome.missing ?? [],
      };
    case "failed":
      return { ...base, mapping: outcome.mapping, failure: outcome.failure };
    default:
      return { ...base, mapping: outcome.mapping };
  }
}

/** Adds to each mapping where it is written: file and line; for a preset where the config enables it. */
export function place<T extends { at: string; origin: string }>(
  mappings: readonly T[],
  { configFile: file, config, texts }: Snapshot,
): (T & { place: string })[] {
  const issues = mappings.map(({ at }, index) => ({ path: at, message: String(index) }));
  const places = locateIssues(issues, { file, mappingsDir: config.hooks.mappingsDir, texts });
  return mappings.map((mapping, index) => {
    const found = places[index];
    const name = found?.file === undefined ? mapping.origin : basename(found.file);
    return { ...mapping, place: found?.line === undefined ? name : `${name}:${found.line}` };
  });
}

/**
 * Runs a hook's body through the mappings and says how each condition came out and what would be done. Sends nothing.
 * @throws RouseError `not_found` if there is no such mapping, `usage` if neither a mapping nor a path is named.
 */
export async function testHook(
  test: HookTest,
  snapshot: Snapshot,
  now: number,
): Promise<TestedHook> {
  const path = getPath(test, snapshot);
  const { method, query } = test;
  const rules = snapshot.mappings.rules.get(path);
  const headers = Object.fromEntries(
    Object.entries(test.headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
  const input: MappingInput = {
    path,
    method,
    byHookToken: rules?.auth === undefined,
    payload: test.readPayload(rules?.body),
    ...keptParts(createKeptNames(snapshot)(path), { method, headers, query }),
    now,
  };
  const tested = await testInput(input, snapshot, test.mapping);
  const takenBefore =
    test.mapping === undefined ? undefined : await findEarlier(input, snapshot, test.mapping);
  return takenBefore ? { ...tested, takenBefore } : tested;
}

/** Finds the mapping that would take a hook before the one that is tested. */
async function findEarlier(
  input: MappingInput,
  snapshot: Snapshot,
  mapping: string,
): Promise<TestedHook["takenBefore"]> {
  const traces = place((await snapshot.mappings.explain(input)).traces, snapshot);
  const { by } = traces.find((trace) => trace.mapping === mapping) ?? {};
  const earlier = traces.find((trace) => trace.mapping === by);
  return earlier && { mapping: earlier.mapping, place: earlier.place };
}

/** What mappings make of an event. */
export interface EventEvaluation {
  evaluation: TestedHook | null;
  /** Why there is no evaluation, or in what it differs from what was recorded; null if neither. */
  note: string | null;
}

/** Evaluates a recorded event by the mappings of a snapshot. */
export async function evaluateEvent(
  event: EventRecord,
  snapshot: Snapshot,
): Promise<EventEvaluation> {
  const recorded = readRecordedInput(event, snapshot);
  if (recorded.ok) return { evaluation: await testInput(recorded.input, snapshot), note: null };
  const { reason } = recorded;
  return { evaluation: null, note: reason === BODY_GONE ? BODY_GONE_ADVICE : reason };
}

/** Evaluates a hook as the mappings see it, by one mapping or by all that could take it. Never throws, and sends nothing. */
export async function testInput(
  input: MappingInput,
  snapshot: Snapshot,
  mapping?: string,
): Promise<TestedHook> {
  const { traces, outcome } = await snapshot.mappings.explain(input, mapping);
  const toActions = (one: MappingOutcome): TestedAction[] =>
    one.kind === "actions"
      ? one.results.map((result) => testedAction(result, input, snapshot))
      : "failure" in one
        ? [{ ok: false, mapping: one.mapping, failure: one.failure }]
        : [];
  const { shadow = [], debug = null } = outcome;
  const would = shadow.flatMap(toActions);
  const [first] = outcome.kind === "unmatched" ? shadow : [];
  const described = first
    ? describe({
        kind: "skipped",
        mapping: first.mapping,
        reason: "only a mapping in shadow matched",
      })
    : describe(outcome);
  return {
    ...described,
    text: renderTested(described),
    traces: place(traces, snapshot).map((trace) => ({ ...trace, text: renderTrace(trace) })),
    actions: outcome.kind === "actions" ? toActions(outcome) : [],
    would,
    debug,
  };
}
