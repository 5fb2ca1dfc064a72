import type { Condition } from "../config/schema/mapping.ts";
import { didYouMean } from "../config/suggest.ts";
import type { Issue } from "../core/errors.ts";
import { compareNumbers, isLongNumber } from "../core/json.ts";
import { compileRegex } from "./regex.ts";

/** Three values: a condition on a missing field is unknown, and unknown never fires. */
export type Truth = true | false | "unknown";
export type Test<T = unknown> = (value: T) => Truth;

/** True when all are, false when any is, else unknown. */
function all(tests: readonly (() => Truth)[]): Truth {
  let result: Truth = true;
  for (const test of tests) {
    const truth = test();
    if (truth === false) return false;
    if (truth === "unknown") result = "unknown";
  }
  return result;
}

const not = (truth: Truth): Truth => (truth === "unknown" ? truth : !truth);

/** The combination of the parts of a group. `$not` has one part. */
export const GROUPS = {
  $and: all,
  /** True when any is, false when all are false, else unknown. */
  $or: (tests: readonly (() => Truth)[]): Truth => not(all(tests.map((test) => () => not(test())))),
  $not: ([test]: readonly (() => Truth)[]): Truth => not((test as () => Truth)()),
};
type Group = keyof typeof GROUPS;
export const isGroup = (operator: string): operator is Group => Object.hasOwn(GROUPS, operator);

/** A field of the event, which a check reads. */
export interface ConditionField<T> {
  read(from: T): unknown;
  /** Its name in words. */
  name(from: T): string;
  /** The names of the fields that are there. */
  among(from: T): Iterable<string>;
}

/** A part of a group, and what its place adds to that of the group: `[0]`, `.labels`. */
export type ConditionPart<T> = readonly [at: string, check: ConditionCheck<T>];

/** A condition, compiled: an operator, a group, or a condition on a field. Both what decides and what explains walk it. */
export type ConditionCheck<T> = { test: Test<T> } & (
  | { operator: string; operand: unknown }
  | { group: Group; parts: readonly ConditionPart<T>[] }
  | { field: ConditionField<T>; condition: ConditionCheck<unknown> }
);

export const createGroup = <T>(
  group: Group,
  parts: readonly ConditionPart<T>[],
): ConditionCheck<T> => ({
  group,
  parts,
  test: (value) =>
    GROUPS[group](
      parts.map(
        ([, { test }]) =>
          () =>
            test(value),
      ),
    ),
});

export const createFieldCheck = <T>(
  field: ConditionField<T>,
  condition: ConditionCheck<unknown>,
): ConditionCheck<T> => ({
  field,
  condition,
  test: (value) => condition.test(field.read(value)),
});

/** A test of one value; missing is unknown, a list holds when any member does. */
const onEach =
  (test: (value: unknown) => boolean): Test =>
  (value) => {
    if (value === undefined) return "unknown";
    return Array.isArray(value) ? value.some(test) || test(value) : test(value);
  };

const isNumber = (value: unknown): value is number | string =>
  typeof value === "number" || isLongNumber(value);

function compare(operand: string | number, holds: (order: number) => boolean): Test {
  const isNumeric = isNumber(operand);
  return onEach((value) => {
    if (isNumeric && isNumber(value) && !Number.isNaN(value))
      return holds(compareNumbers(value, operand));
    if (typeof value !== typeof operand) return false;
    const order = value === operand ? 0 : (value as number) < (operand as number) ? -1 : 1;
    return Number.isNaN(value) ? false : holds(order);
  });
}

const onText = (test: (text: string) => boolean): Test =>
  onEach((value) => typeof value === "string" && test(value));

type Compile = (operand: unknown, path: string, issues: Issue[]) => Test | undefined;

const scalar = (operand: unknown): boolean =>
  operand === null || ["string", "number", "boolean"].includes(typeof operand);

function wants(ok: boolean, what: string, path: string, issues: Issue[]): boolean {
  if (!ok) issues.push({ path, message: `must be ${what}` });
  return ok;
}

const equal: Compile = (operand, path, issues) =>
  wants(scalar(operand), "text, a number, true, false or null", path, issues)
    ? onEach((value) => value === operand)
    : undefined;
const compileOneOf: Compile = (operand, path, issues) => {
  if (!wants(Array.isArray(operand) && operand.every(scalar), "a list of values", path, issues))
    return undefined;
  const set = new Set(operand as unknown[]);
  return onEach((value) => set.has(value));
};
const inverted =
  (compile: Compile): Compile =>
  (operand, path, issues) => {
    const test = compile(operand, path, issues);
    return test && ((value) => not(test(value)));
  };
const textual =
  (make: (operand: string) => (text: string) => boolean): Compile =>
  (operand, path, issues) =>
    wants(typeof operand === "string", "text", path, issues)
      ? onText(make(operand as string))
      : undefined;
const ordered =
  (holds: (order: number) => boolean): Compile =>
  (operand, path, issues) =>
    wants(
      typeof operand === "string" || typeof operand === "number",
      "text or a number",
      path,
      issues,
    )
      ? compare(operand as string | number, holds)
      : undefined;
/** A regular expression as JavaScript writes it, with its flags. */
const LITERAL = /^\/(.+)\/(?:g|g?ig?)$/;

const OPERATORS: Record<string, Compile> = {
  $eq: equal,
  $ne: inverted(equal),
  $in: compileOneOf,
  $nin: inverted(compileOneOf),
  $exists: (operand, path, issues) =>
    wants(typeof operand === "boolean", "true or false", path, issues)
      ? (value) => (value !== undefined) === operand
      : undefined,
  $regex: (operand, path, issues) => {
    if (!wants(typeof operand === "string", "a regular expression as text", path, issues))
      return undefined;
    const [, pattern] = LITERAL.exec(operand as string) ?? [];
    const message = `is written with slashes and flags: write "(?i)${pattern}", or [/] for a slash of the text`;
    const compiled =
      pattern === undefined ? compileRegex(operand as string) : ({ ok: false, message } as const);
    if (compiled.ok) return onText((text) => compiled.regex.test(text));
    issues.push({ path, message: compiled.message });
    return undefined;
  },
  $prefix: textual((operand) => (text) => text.startsWith(operand)),
  $suffix: textual((operand) => (text) => text.endsWith(operand)),
  $contains: (operand, path, issues) => {
    if (!wants(scalar(operand), "text, a number, true, false or null", path, issues))
      return undefined;
    return (value) => {
      if (value === undefined) return "unknown";
      if (Array.isArray(value)) return value.includes(operand);
      return typeof value === "string" && typeof operand === "string" && value.includes(operand);
    };
  },
  $gt: ordered((order) => order > 0),
  $gte: ordered((order) => order >= 0),
  $lt: ordered((order) => order < 0),
  $lte: ordered((order) => order <= 0),
};

/** Compiles the operand of a group of conditions on one value. */
function compileGroup(
  group: Group,
  operand: unknown,
  path: string,
  issues: Issue[],
): ConditionCheck<unknown> {
  const list = Array.isArray(operand) ? (operand as Condition[]) : [];
  const parts: ConditionPart<unknown>[] =
    group === "$not"
      ? [["", compileCondition(operand as Condition, path, issues)]]
      : list.map((one, at) => [`[${at}]`, compileCondition(one, `${path}[${at}]`, issues)]);
  wants(parts.length > 0, "a list of conditions", path, issues);
  return createGroup(group, parts);
}

function compileOperator(
  operator: string,
  operand: unknown,
  path: string,
  issues: Issue[],
): ConditionCheck<unknown> {
  if (isGroup(operator)) return compileGroup(operator, operand, path, issues);
  const test = OPERATORS[operator]?.(operand, path, issues);
  return { operator, operand, test: test ?? (() => "unknown") };
}

/** Compiles a condition on one value. What is wrong is added to `issues` with its path. */
export function compileCondition(
  condition: Condition,
  path: string,
  issues: Issue[],
): ConditionCheck<unknown> {
  if (condition === null || typeof condition !== "object")
    return compileOperator("$eq", condition, path, issues);
  if (Array.isArray(condition)) return compileOperator("$in", condition, path, issues);
  const parts = Object.entries(condition).flatMap(
    ([operator, operand]): ConditionPart<unknown>[] => {
      const at = `${path}.${operator}`;
      if (isGroup(operator) || Object.hasOwn(OPERATORS, operator))
        return [[`.${operator}`, compileOperator(operator, operand, at, issues)]];
      const hint = operator.startsWith("$")
        ? didYouMean(operator, [...Object.keys(OPERATORS), ...Object.keys(GROUPS)])
        : " Write nested fields as one path: `a.b`.";
      issues.push({ path: at, message: `is no operator.${hint}` });
      return [];
    },
  );
  if (Object.keys(condition).length === 0)
    issues.push({ path, message: "must hold at least one operator" });
  return parts.length === 1 && parts[0] ? parts[0][1] : createGroup("$and", parts);
}

/** The values that alone can make a condition true, where it is a plain equality. */
export function getEqualValues(
  condition: unknown,
): (string | number | boolean | null)[] | undefined {
  if (scalar(condition)) return [condition as string];
  if (Array.isArray(condition) && condition.every(scalar)) return condition as string[];
  if (typeof condition !== "object" || condition === null) return undefined;
  const { $eq, $in } = condition as { $eq?: string; $in?: string[] };
  if ($eq !== undefined) return [$eq];
  return Array.isArray($in) ? $in : undefined;
}
