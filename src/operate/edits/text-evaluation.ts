import { basename } from "node:path";
import JSON5 from "json5";
import { parentPath } from "../../config/issues.ts";
import { joinPath } from "../../config/issues.ts";
import { readJson5 } from "../../config/json5.ts";
import { readTree, type TextNode } from "../../config/json5-tree.ts";
import { RouseError, type Issue } from "../../core/errors.ts";
import { isRecord } from "../../core/json.ts";
import { evaluateEvent, type TestedHook } from "../records/test-hook.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { ConditionTrace, MappingTrace } from "../../mapping/types.ts";
import type { EventRecord } from "../../store/types.ts";
import { listWrittenMappings } from "./mapping-text.ts";
import { runTests, type ComparisonDeps, type TestSummary } from "./landing-checks.ts";
import { toTexts } from "./user-files.ts";
import { findMapping, planChange, type PlannedChange, type TextChange } from "./planned-change.ts";

/** A part of the text that was evaluated: characters from 0, `end` behind the last one. */
interface TextRange {
  start: number;
  end: number;
}

/** A problem of the config with the text in place. `at` is null if it is not about the text. */
interface TextProblem extends Pick<Issue, "path" | "message" | "detail" | "rule"> {
  at: TextRange | null;
}

/** The result of a condition of the text, with its place. */
interface TextMark extends Pick<ConditionTrace, "condition" | "result" | "reason"> {
  at: TextRange;
}

/** The effect of a text of one mapping on one recorded event, with the text in its place in the config. For operators only. */
export interface TextEvaluation {
  /** The id that the mapping has; null if the text has problems. */
  mapping: string | null;
  problems: TextProblem[];
  warnings: TextProblem[];
  marks: TextMark[];
  /** The results of the tests of `hooks.testsDir` with the text in place; null if the text has problems. */
  tests: TestSummary | null;
  /** Null if the text has problems, or no event was named. */
  result: TestedHook | null;
  /** The reason that the event cannot be evaluated; null if it can. */
  note: string | null;
}

interface EvaluationDeps extends Pick<ComparisonDeps, "withCandidate"> {
  snapshot: Snapshot;
}

const NONE: Omit<TextEvaluation, "problems"> = {
  mapping: null,
  warnings: [],
  marks: [],
  tests: null,
  result: null,
  note: null,
};

/** The values of a text by their paths, each with the position of its key. */
type Values = ReadonlyMap<string, { start: number; value: TextNode }>;

function readValues(root: TextNode): Values {
  const values = new Map<string, { start: number; value: TextNode }>();
  const add = (path: string, start: number, value: TextNode): void => {
    values.set(path, { start, value });
    for (const [index, item] of (value.items ?? []).entries())
      add(joinPath(path, item.key ?? index), item.start, item.value);
  };
  add("", root.start, root);
  return values;
}

/** The character of a text literal that holds a character of its value. */
function findCharacter(literal: string, offset: number): number {
  for (let at = 1; at < literal.length; at++) {
    try {
      const before = JSON5.parse<unknown>(literal.slice(0, at) + literal[0]);
      if (typeof before === "string" && before.length >= offset) return at;
    } catch {
      // Cut inside of an escape.
    }
  }
  return literal.length - 1;
}

/** Finds the field of a problem in a text, or what is around it; `offset` names a character of its value. */
function locate(text: string, values: Values, path: string, offset?: number): TextRange {
  const found = values.get(path);
  if (!found) return locate(text, values, parentPath(path));
  const { start, value } = found;
  if (offset !== undefined && !value.items) {
    const at = value.start + findCharacter(text.slice(value.start, value.end), offset);
    return { start: at, end: at + 1 };
  }
  // Of an object the line of its key is marked, not all that is in it.
  return { start, end: value.items ? Math.max(value.start + 1, start + 1) : value.end };
}

/** Finds the place of the text of a change in the config: `hooks.mappings[2]`, `mappings/shop.json5: mappings[0]`. */
function findPlace(
  { change, home }: PlannedChange,
  wanted: TextChange,
  { snapshot }: EvaluationDeps,
): string {
  const list = home === "config" ? "hooks.mappings" : `mappings/${basename(change.file)}: mappings`;
  const index =
    wanted.kind === "replace"
      ? findMapping(wanted.mapping, snapshot).index
      : listWrittenMappings(change.after ?? "", home).length - 1;
  return `${list}[${index}]`;
}

/** The path in the text of a path in the config; undefined if it is about something else. */
const toTextPath = (path: string, place: string): string | undefined =>
  path === place || (path.startsWith(place) && /[.[]/.test(path[place.length] ?? ""))
    ? path.slice(place.length).replace(/^\./, "")
    : undefined;

/** Conditions that a text has, those of groups too. */
const flatten = (conditions: readonly ConditionTrace[]): ConditionTrace[] =>
  conditions.flatMap((one) => [one, ...flatten(one.children ?? [])]);

function findMarks(
  text: string,
  values: Values,
  place: string,
  traces: readonly MappingTrace[],
): TextMark[] {
  const { conditions = [] } = traces.find((one) => one.at === place) ?? {};
  return flatten(conditions).map(({ condition, result, reason }) => ({
    condition,
    result,
    reason,
    at: locate(text, values, condition),
  }));
}

function toProblem(
  text: string,
  values: Values,
  place: string,
  { path, message, detail, rule, offset }: Issue,
): TextProblem {
  const own = toTextPath(path, place);
  return {
    path: own ?? path,
    message,
    ...(detail !== undefined && { detail }),
    ...(rule !== undefined && { rule }),
    at: own === undefined ? null : locate(text, values, own, offset),
  };
}

/** The problem of a text that is no JSON5 object; undefined if it is one. */
function findSyntaxProblem(text: string): TextProblem | undefined {
  const parsed = readJson5("mapping", new Map([["mapping", text]]));
  if (parsed.ok) {
    const [twice] = parsed.duplicates;
    if (!isRecord(parsed.value))
      return { path: "", message: "is not a mapping: write an object, { … }", at: null };
    return twice && { path: twice.path, message: twice.message, at: null };
  }
  const { message, line = 1, column = 1 } = parsed;
  const lines = text.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0) + column - 1;
  return {
    path: "",
    message,
    at: { start: Math.min(start, text.length), end: Math.min(start + 1, text.length) },
  };
}

/** Evaluates a text in its place among the other mappings against a recorded event. Sends nothing and stores nothing. */
export async function evaluateText(
  wanted: TextChange,
  event: EventRecord | undefined,
  deps: EvaluationDeps,
): Promise<TextEvaluation> {
  const { text } = wanted;
  const syntax = findSyntaxProblem(text);
  const root = syntax ? undefined : readTree(text);
  if (syntax || !root) return { ...NONE, problems: syntax ? [syntax] : [] };
  let planned: PlannedChange;
  try {
    planned = planChange(wanted, deps.snapshot);
  } catch (error) {
    // A change that cannot be made at all, such as one of a file that is gone.
    if (!(error instanceof RouseError)) throw error;
    return { ...NONE, problems: [{ path: "", message: error.message, at: null }] };
  }
  const place = findPlace(planned, wanted, deps);
  const values = readValues(root);
  const { change } = planned;
  return deps.withCandidate(toTexts(change), async (found): Promise<TextEvaluation> => {
    if (!found.ok)
      return {
        ...NONE,
        problems: found.issues.map((issue) => toProblem(text, values, place, issue)),
      };
    const { mappings, warnings } = found.snapshot;
    const { evaluation: result, note } = event
      ? await evaluateEvent(event, found.snapshot)
      : { evaluation: null, note: null };
    return {
      mapping: mappings.mappings.find((one) => one.at === place)?.id ?? null,
      problems: [],
      warnings: warnings
        .filter(({ path }) => toTextPath(path, place) !== undefined)
        .map((issue) => toProblem(text, values, place, issue)),
      tests: await runTests(found.snapshot),
      marks: findMarks(text, values, place, result?.traces ?? []),
      result,
      note,
    };
  });
}
