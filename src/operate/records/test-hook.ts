import type { BodyFormat, QueryValues } from "../../core/http/payload.ts";
import { BODY_GONE, BODY_GONE_ADVICE } from "../../vocabulary/body-gone.ts";
import { checkDraft } from "../../turns/validate.ts";
import type { EventDebug } from "../../vocabulary/debug-notes.ts";
import type { Failure } from "../../core/errors.ts";
import type { TextPart } from "../../core/text.ts";
import type {
  DraftResult,
  MappingInput,
  MappingOutcome,
  MappingTrace,
  Nearest,
} from "../../mapping/types.ts";
import { createKeptNames, keptParts } from "../../intake/body.ts";
import { readRecordedInput } from "../../intake/replay.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { EventRecord } from "../../store/types.ts";
import { unknownId } from "../../vocabulary/unknown-id.ts";
import { found, given, refuse } from "./operation.ts";
import { place, renderTested, renderTrace } from "./texts.ts";
import { pick } from "./views.ts";

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
      /** The reason that the gateway would refuse it: an unknown agent, a wrong recipient, … */
      problem: Failure | null;
    }
  | { ok: false; mapping: string; failure: Failure };

/** The decision of a mapping, in words too, with the place where it is written: `rouse.json5:9`. */
export type PlacedTrace = MappingTrace & { place: string; text: string };

export interface TestedHook {
  /** Every mapping that could take the hook, in the order in which they are tried. */
  traces: PlacedTrace[];
  outcome: "actions" | "skipped" | "unmatched" | "rejected" | "failed";
  /** The reason that there is no action; null if there is one. */
  text: string | null;
  mapping: string | null;
  reason: string | null;
  failure: Failure | null;
  nearest: Nearest | null;
  missing: string[];
  actions: TestedAction[];
  /** The actions that mappings in shadow would have made. */
  would: TestedAction[];
  /** If one mapping is tested: an earlier one that would take the hook, with its place. */
  takenBefore?: { mapping: string; place: string };
  /** The errors and the output of the mappings' code; null if there was none. */
  debug: EventDebug | null;
}

/** The path to test: the one that is named, else the first of the mapping. */
function getPath(test: HookTest, snapshot: Snapshot): string {
  const { mappings } = snapshot.mappings;
  if (test.mapping === undefined) {
    if (test.path !== undefined) return test.path;
    refuse("name a mapping or a path");
  }
  const mapping = found(
    mappings.find(({ id }) => id === test.mapping),
    unknownId("mapping", test.mapping),
  );
  return test.path ?? mapping.paths[0] ?? "test";
}

function testedAction(result: DraftResult, input: MappingInput, snapshot: Snapshot): TestedAction {
  if (!result.ok) return { ok: false, mapping: result.mapping, failure: result.failure };
  const { draft } = result;
  const fields = draft.fields as Record<string, unknown>;
  const checked = checkDraft({ ...draft, fields }, { hook: input.path, now: input.now }, snapshot);
  const { message: _message, text: _text, ...shown } = fields;
  return {
    ok: true,
    ...pick(draft, "mapping", "action", "content", "missing", "warnings", "unsafe"),
    fields: given(shown),
    dedupeKey: draft.dedupeKey ?? null,
    problem: checked.ok ? null : checked.failure,
  };
}

const describe = (
  outcome: MappingOutcome,
): Omit<TestedHook, "text" | "traces" | "actions" | "would" | "takenBefore" | "debug"> => ({
  outcome: outcome.kind,
  mapping: outcome.kind === "unmatched" ? null : outcome.mapping,
  reason: outcome.kind === "skipped" ? outcome.reason : null,
  failure: "failure" in outcome ? outcome.failure : null,
  nearest: (outcome.kind === "unmatched" && outcome.nearest) || null,
  missing: (outcome.kind === "rejected" && outcome.missing) || [],
});

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

/** The effect of mappings on an event. */
export interface EventEvaluation {
  evaluation: TestedHook | null;
  /** The reason that there is no evaluation, or its difference from the record; null if there is neither. */
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
