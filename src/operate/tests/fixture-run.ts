import { isDeepStrictEqual } from "node:util";
import { readRecordedInput } from "../../intake/replay.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { MappingInput } from "../../mapping/types.ts";
import { getEffect, type Effect } from "../../intake/resolve.ts";
import type { ValidItem } from "../../intake/types.ts";
import { getFields, UUID_END } from "../what-if/changes.ts";
import {
  toRecordedHook,
  type ExpectedAction,
  type Fixture,
  type FixtureExpectation,
} from "./fixture.ts";
import { diffWords, type DiffPart } from "../edits/word-diff.ts";

/** A field in which the mappings differ from a fixture. For operators only: it quotes the request. */
export interface FixtureDifference {
  /** `expect.actions[0].text` */
  field: string;
  /** Undefined if it is not in the fixture. */
  expected: unknown;
  /** Undefined if the mappings give none. */
  actual: unknown;
  /** Of two texts. */
  words?: DiffPart[];
}

export type FixtureResult = Awaited<ReturnType<typeof runFixture>>;

/** A session key that is made for each event is never the same twice; one out of the request is. */
function steadySession(session: string, given: string): string {
  return session.replace(UUID_END, (id) => (given.includes(id) ? id : "<new>"));
}

/** The text as a fixture has it: lines are easier to read and to compare in a file. */
export const toTextLines = (text: string): string | string[] =>
  text.includes("\n") ? text.split("\n") : text;

function toExpected(effect: ValidItem, given: string): ExpectedAction {
  const { message: _message, marked, session, ...rest } = getFields(effect);
  const fields: Record<string, string | number | boolean | null> = {
    ...rest,
    ...(typeof session === "string" && { session: steadySession(session, given) }),
  };
  const set = Object.entries(fields).filter(
    (entry): entry is [string, string | number | boolean] => entry[1] !== null,
  );
  const { mapping } = effect.action;
  return {
    ...(mapping !== undefined && { mapping }),
    fields: Object.fromEntries(set),
    text: toTextLines(marked),
  };
}

function toExpectation(
  { outcome, mapping, actions, missing }: Effect,
  { payload, headers, query }: MappingInput,
): FixtureExpectation {
  const given = JSON.stringify([payload, headers, query]);
  return {
    // The mappings alone never call an event a duplicate.
    outcome: outcome as FixtureExpectation["outcome"],
    ...(mapping !== null && { mapping }),
    actions: actions.map((action) => toExpected(action, given)),
    missing: [...new Set([...missing, ...actions.flatMap((action) => action.missing)])],
  };
}

/** The credential that a path needs, by its name. */
const getCredential = (path: string, { mappings }: Snapshot): string =>
  mappings.rules.get(path)?.auth === undefined ? "hooks.token" : `path:${path}`;

type Request = Pick<Fixture, "request" | "receivedAt" | "credential">;

/** Reads a fixture as the mappings see it; a reason if its body cannot be read. */
export async function readFixtureInput(fixture: Request, snapshot: Snapshot) {
  const credential = fixture.credential ?? getCredential(fixture.request.path, snapshot);
  const recorded = readRecordedInput(toRecordedHook(fixture, credential), snapshot);
  return recorded.ok ? { ...recorded, input: { ...recorded.input, credential } } : recorded;
}

/** Evaluates a fixture's request; a mapping in shadow that alone takes it counts as live. Starts nothing and stores nothing; never throws. */
export async function evaluateFixture(
  fixture: Request,
  snapshot: Snapshot,
): Promise<{ actual: FixtureExpectation; reason: string | null }> {
  const read = await readFixtureInput(fixture, snapshot);
  if (!read.ok)
    return { actual: { outcome: "rejected", actions: [], missing: [] }, reason: read.reason };
  const { input } = read;
  let effect = await getEffect(input, snapshot);
  const { mapping } = effect;
  const isShadow = snapshot.mappings.mappings.some(({ id, shadow }) => shadow && id === mapping);
  if (isShadow) effect = await getEffect({ ...input, live: mapping ?? undefined }, snapshot);
  return { actual: toExpectation(effect, input), reason: effect.reason };
}

/** The text of which a fixture has the lines. */
export const joinText = (text: ExpectedAction["text"]): string | undefined =>
  Array.isArray(text) ? text.join("\n") : text;

/** Removes the marks of what came from outside: words are looked for without them. */
const plain = (text: ExpectedAction["text"]): string => (joinText(text) ?? "").replace(/[⟦⟧]/g, "");

type Pair = [field: string, expected: unknown, actual: unknown];

/** A field that is compared only if the fixture names it. */
const pairNamed = (...pair: Pair): Pair[] => (pair[1] === undefined ? [] : [pair]);

function pairAction(expected: ExpectedAction, actual: ExpectedAction): Pair[] {
  const { mapping, fields, session, text, contains = [] } = expected;
  const names = Object.keys({ ...fields, ...(fields && actual.fields) });
  const words = plain(actual.text);
  return [
    ...pairNamed("mapping", mapping, actual.mapping),
    ...pairNamed("session", session, actual.fields?.["session"]),
    ...names.map((name): Pair => [`fields.${name}`, fields?.[name], actual.fields?.[name]]),
    ...pairNamed("text", joinText(text), joinText(actual.text)),
    ...contains
      .filter((part) => !words.includes(part))
      .map((part): Pair => ["contains", part, words]),
  ];
}

/** Compares what a fixture names with what the mappings make. */
function compareExpectations(
  { outcome, mapping, actions, missing }: FixtureExpectation,
  actual: FixtureExpectation,
): FixtureDifference[] {
  const made = actual.actions ?? [];
  const count = actions ? Math.max(actions.length, made.length) : 0;
  const pairs = [
    ...pairNamed("outcome", outcome, actual.outcome),
    ...pairNamed("mapping", mapping, actual.mapping),
    ...pairNamed("missing", missing, actual.missing),
    ...Array.from({ length: count }, (_, index): Pair[] => {
      const [want, got] = [actions?.[index], made[index]];
      const at = `actions[${index}]`;
      if (!want || !got) return [[at, want, got]];
      return pairAction(want, got).map(([field, ...values]) => [`${at}.${field}`, ...values]);
    }).flat(),
  ];
  return pairs
    .filter(([, wanted, given]) => !isDeepStrictEqual(wanted, given))
    .map(([field, wanted, given]) => ({
      field: `expect.${field}`,
      expected: wanted,
      actual: given,
      ...(typeof wanted === "string" &&
        typeof given === "string" && { words: diffWords(wanted, given) }),
    }));
}

/** Runs a fixture by the mappings of a snapshot. Starts nothing and stores nothing; never throws. */
export async function runFixture(fixture: Fixture, snapshot: Snapshot) {
  const start = performance.now();
  const { actual, reason } = await evaluateFixture(fixture, snapshot);
  const differences = compareExpectations(fixture.expect, actual);
  const ms = performance.now() - start;
  /** `actual`: the outcome that the mappings give the request. `reason`: why it is not accepted; null if it is. */
  return { ok: differences.length === 0, differences, actual, reason, ms };
}
