import { isDeepStrictEqual } from "node:util";
import { readRecordedInput } from "../../intake/replay.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { MappingInput } from "../../mapping/types.ts";
import { getEffect, type Effect, type EffectAction } from "../../intake/resolve.ts";
import { getFields, UUID_END } from "../what-if/effect.ts";
import {
  isFixture,
  toRecordedHook,
  fixtureSchema,
  type ExpectedAction,
  type Fixture,
  type FixtureExpectation,
  type TestCase,
} from "./fixture.ts";
import { diffWords, type DiffPart } from "../edits/word-diff.ts";
import { existsSync, readdirSync, realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import { configIssues } from "../../config/issues.ts";
import { readJson5 } from "../../config/json5.ts";
import { locateIssues } from "../../config/places.ts";
import type { Issue } from "../../core/errors.ts";
import { isInside } from "../../core/files.ts";
import { recordedRunSchema } from "./recorded-run.ts";

const FIXTURE = /\.json5?$/;

interface Fixtures {
  /** Ordered by name. */
  fixtures: TestCase[];
  /** What is wrong with files, each with its place. */
  issues: Issue[];
}

type Read = { fixture: TestCase } | { issues: Issue[] };

function readFixture(name: string, file: string): Read {
  const parsed = readJson5(file);
  if (!parsed.ok) {
    const { ok: _ok, message, ...place } = parsed;
    return { issues: [{ path: "", message, file, ...place }] };
  }
  const checked = fixtureSchema.safeParse(parsed.value);
  const issues = [
    ...parsed.duplicates,
    ...(checked.success ? [] : configIssues(checked.error, fixtureSchema)),
  ];
  if (!checked.success || issues.length > 0) return { issues: locateIssues(issues, { file }) };
  const { receivedAt, credential, request, run } = checked.data;
  const { reply, outcome, ...expect } = checked.data.expect;
  const needsModel = run !== undefined || reply !== undefined;
  return {
    fixture: {
      name,
      file,
      receivedAt: Date.parse(receivedAt),
      credential,
      request,
      expect: outcome && { ...expect, outcome },
      run: needsModel ? (run ?? recordedRunSchema.parse({})) : undefined,
      reply: needsModel ? (reply ?? {}) : undefined,
    },
  };
}

/** A file of fixtures, or why it is not read. */
type Found = { file: string } | { issue: Issue };

/** Follows a link. Undefined if it leads to what is no fixture, or to a folder in `root`, whose files are found there. */
function followLink(file: string, root: string): Found | undefined {
  const isFixture = FIXTURE.test(file);
  const refuse = (message: string): Found => ({ issue: { path: "", file, message } });
  try {
    const target = realpathSync(file);
    const isDirectory = statSync(target).isDirectory();
    if (!isInside(root, target) && (isDirectory || isFixture))
      return refuse(
        "is a link out of the folder of fixtures: put what it leads to into the folder",
      );
    return !isDirectory && isFixture ? { file } : undefined;
  } catch (error) {
    const { code = "error" } = error as NodeJS.ErrnoException;
    return isFixture ? refuse(`is a link that leads nowhere (${code})`) : undefined;
  }
}

/** Finds the files of a folder and of those in it. Folders whose name begins with a dot are left out, as by a shell. */
function findFiles(folder: string, root: string): Found[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry): Found[] => {
    const file = join(folder, entry.name);
    if (entry.name.startsWith(".")) return [];
    if (entry.isDirectory()) return findFiles(file, root);
    if (entry.isSymbolicLink()) return [followLink(file, root) ?? []].flat();
    return entry.isFile() && FIXTURE.test(entry.name) ? [{ file }] : [];
  });
}

const toFixtureName = (file: string, testsDir: string): string =>
  file
    .slice(testsDir.length)
    .replace(/^[\\/]/, "")
    .replace(FIXTURE, "");

/**
 * Reads the fixtures of a folder and of those in it: `.json5` and `.json` files. A folder that is not there has none.
 * Links to files of the folder are read, links out of it are a problem.
 */
export function readFixtures(testsDir: string): Fixtures {
  const isThere = existsSync(testsDir);
  const message = "is no folder: name the folder, and the fixture with --filter";
  if (isThere && !statSync(testsDir).isDirectory())
    return { fixtures: [], issues: [{ path: "", file: testsDir, message }] };
  const found = isThere ? findFiles(testsDir, realpathSync(testsDir)) : [];
  const files = found.flatMap((one) => ("file" in one ? [one.file] : [])).toSorted();
  const read = files.map((file) => readFixture(toFixtureName(file, testsDir), file));
  return {
    fixtures: read.flatMap((one) => ("fixture" in one ? one.fixture : [])),
    issues: [
      ...found.flatMap((one) => ("issue" in one ? [one.issue] : [])),
      ...read.flatMap((one) => ("issues" in one ? one.issues : [])),
    ],
  };
}

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

export interface FixtureResult {
  fixture: Fixture;
  ok: boolean;
  differences: FixtureDifference[];
  /** What the mappings make of the request. */
  actual: FixtureExpectation;
  /** Why the event is not accepted, or why actions are left out; null if neither. */
  reason: string | null;
  ms: number;
}

/** A session key that is made for each event is never the same twice; one out of the request is. */
function steadySession(session: string, given: string): string {
  return session.replace(UUID_END, (id) => (given.includes(id) ? id : "<new>"));
}

/** The text as a fixture has it: lines are easier to read and to compare in a file. */
export const toTextLines = (text: string): string | string[] =>
  text.includes("\n") ? text.split("\n") : text;

function toExpected(effect: EffectAction, given: string): ExpectedAction {
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

/** What the mappings see of a fixture; a reason if its body cannot be read. */
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

function compareValue(field: string, expected: unknown, actual: unknown): FixtureDifference[] {
  if (isDeepStrictEqual(expected, actual)) return [];
  const texts = typeof expected === "string" && typeof actual === "string";
  return [{ field, expected, actual, ...(texts && { words: diffWords(expected, actual) }) }];
}

/** Removes the marks of what came from outside: words are looked for without them. */
const plain = (text: ExpectedAction["text"]): string => (joinText(text) ?? "").replace(/[⟦⟧]/g, "");

function compareAction(
  at: string,
  expected: ExpectedAction,
  actual: ExpectedAction,
): FixtureDifference[] {
  const { mapping, fields, session, text, contains = [] } = expected;
  const names = fields
    ? [...new Set([...Object.keys(fields), ...Object.keys(actual.fields ?? {})])]
    : [];
  const missing = contains.filter((part) => !plain(actual.text).includes(part));
  return [
    ...(mapping === undefined ? [] : compareValue(`${at}.mapping`, mapping, actual.mapping)),
    ...(session === undefined
      ? []
      : compareValue(`${at}.session`, session, actual.fields?.["session"])),
    ...names.flatMap((name) =>
      compareValue(`${at}.fields.${name}`, fields?.[name], actual.fields?.[name]),
    ),
    ...(text === undefined
      ? []
      : compareValue(`${at}.text`, joinText(text), joinText(actual.text))),
    ...missing.map((part) => ({
      field: `${at}.contains`,
      expected: part,
      actual: plain(actual.text),
    })),
  ];
}

/** Compares what a fixture names with what the mappings make. */
function compareExpectations(
  expected: FixtureExpectation,
  actual: FixtureExpectation,
): FixtureDifference[] {
  const { outcome, mapping, actions, missing } = expected;
  const own = [
    ...compareValue("expect.outcome", outcome, actual.outcome),
    ...(mapping === undefined ? [] : compareValue("expect.mapping", mapping, actual.mapping)),
    ...(missing === undefined ? [] : compareValue("expect.missing", missing, actual.missing)),
  ];
  if (!actions) return own;
  const given = actual.actions ?? [];
  const count = Math.max(actions.length, given.length);
  const rest = Array.from({ length: count }, (_, index) => {
    const [want, got] = [actions[index], given[index]];
    const at = `expect.actions[${index}]`;
    return want && got ? compareAction(at, want, got) : compareValue(at, want, got);
  });
  return [...own, ...rest.flat()];
}

async function runFixture(fixture: Fixture, snapshot: Snapshot): Promise<FixtureResult> {
  const start = performance.now();
  const { actual, reason } = await evaluateFixture(fixture, snapshot);
  const differences = compareExpectations(fixture.expect, actual);
  return {
    fixture,
    ok: differences.length === 0,
    differences,
    actual,
    reason,
    ms: performance.now() - start,
  };
}

/**
 * Runs the fixtures that have a request by the mappings of a snapshot, one after the other. Starts nothing and stores nothing;
 * never throws.
 */
export async function runFixtures(
  fixtures: readonly TestCase[],
  snapshot: Snapshot,
): Promise<FixtureResult[]> {
  const results: FixtureResult[] = [];
  for (const fixture of fixtures.filter(isFixture))
    results.push(await runFixture(fixture, snapshot));
  return results;
}
