import { basename } from "node:path";
import JSON5 from "json5";
import { readJson5 } from "../../config/json5.ts";
import { getMember, readTree, type TextNode } from "../../config/json5-tree.ts";
import { RouseError, type Issue } from "../../core/errors.ts";
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

/** How a condition of the text came out, and where it stands. */
interface TextMark extends Pick<ConditionTrace, "condition" | "result" | "reason"> {
  at: TextRange;
}

/** What a text of one mapping makes of one recorded event, with the text in its place in the config. For operators only. */
export interface TextEvaluation {
  /** The id that the mapping has; null if the text has problems. */
  mapping: string | null;
  problems: TextProblem[];
  warnings: TextProblem[];
  marks: TextMark[];
  /** What the tests of `hooks.testsDir` say with the text in place; null if the text has problems. */
  tests: TestSummary | null;
  /** Null if the text has problems, or no event was named. */
  result: TestedHook | null;
  /** Why the event cannot be evaluated; null if it can. */
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

/** Where the parts of a path lead in a text: `match.payload.data.total`, whose last part may be a key with dots. */
function findValue(root: TextNode, path: string): { start: number; value: TextNode } | undefined {
  let found: { start: number; value: TextNode } = { start: root.start, value: root };
  let rest = path.replace(/^\./, "");
  while (rest !== "") {
    const { value } = found;
    const index = /^\[(\d+)\]/.exec(rest);
    const names =
      index || !value.isObject ? [] : (value.items ?? []).flatMap(({ key }) => key ?? []);
    // Keys of conditions have dots in them: the longest key that fits is meant.
    const key = names
      .filter((name) => rest === name || rest.startsWith(`${name}.`) || rest.startsWith(`${name}[`))
      .toSorted((a, b) => b.length - a.length)[0];
    const item = index
      ? value.items?.[Number(index[1])]
      : key === undefined
        ? undefined
        : getMember(value, key);
    if (!item) break;
    found = { start: item.start, value: item.value };
    rest = rest.slice(index ? index[0].length : (key as string).length).replace(/^\./, "");
  }
  return found;
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

/** Finds the field of a problem in a text; `offset` names a character of its value. */
function locate(
  text: string,
  root: TextNode,
  path: string,
  offset?: number,
): TextRange | undefined {
  const found = findValue(root, path);
  if (!found) return undefined;
  const { start, value } = found;
  if (offset !== undefined && !value.items) {
    const at = value.start + findCharacter(text.slice(value.start, value.end), offset);
    return { start: at, end: at + 1 };
  }
  // Of an object the line of its key is marked, not all that is in it.
  return { start, end: value.items ? Math.max(value.start + 1, start + 1) : value.end };
}

/** Where the text of a change stands in the config: `hooks.mappings[2]`, `mappings/shop.json5: mappings[0]`. */
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
  root: TextNode,
  place: string,
  traces: readonly MappingTrace[],
): TextMark[] {
  const { conditions = [] } = traces.find((one) => one.at === place) ?? {};
  return flatten(conditions).flatMap(({ condition, result, reason }) => {
    const at = locate(text, root, condition);
    return at ? [{ condition, result, reason, at }] : [];
  });
}

function toProblem(
  text: string,
  root: TextNode,
  place: string,
  { path, message, detail, rule, offset }: Issue,
): TextProblem {
  const own = toTextPath(path, place);
  const range = own === undefined ? undefined : locate(text, root, own, offset);
  return {
    path: own ?? path,
    message,
    ...(detail !== undefined && { detail }),
    ...(rule !== undefined && { rule }),
    at: range ?? null,
  };
}

/** The problem of a text that is no JSON5 object; undefined if it is one. */
function findSyntaxProblem(text: string): TextProblem | undefined {
  const parsed = readJson5("mapping", new Map([["mapping", text]]));
  if (parsed.ok) {
    const isObject =
      typeof parsed.value === "object" && parsed.value !== null && !Array.isArray(parsed.value);
    const [twice] = parsed.duplicates;
    if (!isObject)
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

/** The same of a change that cannot be made at all, such as one of a file that is gone. */
const toWholeProblem = (error: unknown): TextProblem[] => {
  if (!(error instanceof RouseError)) throw error;
  return [{ path: "", message: error.message, at: null }];
};

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
    return { ...NONE, problems: toWholeProblem(error) };
  }
  const place = findPlace(planned, wanted, deps);
  const { change } = planned;
  return deps.withCandidate(toTexts(change), async (found): Promise<TextEvaluation> => {
    if (!found.ok)
      return {
        ...NONE,
        problems: found.issues.map((issue) => toProblem(text, root, place, issue)),
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
        .map((issue) => toProblem(text, root, place, issue)),
      tests: await runTests(found.snapshot),
      marks: findMarks(text, root, place, result?.traces ?? []),
      result,
      note,
    };
  });
}
