import type { Condition } from "../config/schema/mapping.ts";
import { didYouMean } from "../config/suggest.ts";
import type { Issue } from "../core/errors.ts";
import { compareNumbers, isLongNumber } from "../core/json.ts";
import { compileRegex } from "./regex.ts";

/** Three values: a condition on a missing field is unknown, and unknown never fires. */
export type Truth = true | false | "unknown";
export type Test = (value: unknown) => Truth;

export const not = (truth: Truth): Truth => (truth === "unknown" ? truth : !truth);

/** True when all are, false when any is, else unknown. */
export function all(tests: readonly (() => Truth)[]): Truth {
  let result: Truth = true;
  for (const test of tests) {
    const truth = test();
    if (truth === false) return false;
    if (truth === "unknown") result = "unknown";
  }
  return result;
}

/** True when any is, false when all are false, else unknown. */
export function any(tests: readonly (() => Truth)[]): Truth {
  let result: Truth = false;
  for (const test of tests) {
    const truth = test();
    if (truth === true) return true;
    if (truth === "unknown") result = "unknown";
  }
  return result;
}

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
const group =
  (combine: typeof all): Compile =>
  (operand, path, issues) => {
    if (!wants(Array.isArray(operand) && operand.length > 0, "a list of conditions", path, issues))
      return undefined;
    const tests = (operand as unknown[]).map((entry, index) =>
      compileCondition(entry as Condition, `${path}[${index}]`, issues),
    );
    return (value) => combine(tests.map((test) => () => test(value)));
  };

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
    const compiled = compileRegex(operand as string);
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
  $and: group(all),
  $or: group(any),
  $not: (operand, path, issues) => {
    const test = compileCondition(operand as Condition, path, issues);
    return (value) => not(test(value));
  },
};

/** Compiles a condition on one value. What is wrong is added to `issues` with its path. */
export function compileCondition(condition: Condition, path: string, issues: Issue[]): Test {
  const never: Test = () => "unknown";
  if (condition === null || typeof condition !== "object")
    return equal(condition, path, issues) ?? never;
  if (Array.isArray(condition)) return compileOneOf(condition, path, issues) ?? never;
  const tests: Test[] = [];
  for (const [operator, operand] of Object.entries(condition)) {
    const compile = Object.hasOwn(OPERATORS, operator) ? OPERATORS[operator] : undefined;
    if (!compile) {
      const hint = operator.startsWith("$")
        ? didYouMean(operator, Object.keys(OPERATORS))
        : " Write nested fields as one path: `a.b`.";
      issues.push({ path: `${path}.${operator}`, message: `is no operator.${hint}` });
      continue;
    }
    tests.push(compile(operand, `${path}.${operator}`, issues) ?? never);
  }
  if (tests.length === 0) {
    issues.push({ path, message: "must hold at least one operator" });
    return never;
  }
  return tests.length === 1
    ? (tests[0] as Test)
    : (value) => all(tests.map((test) => () => test(value)));
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
