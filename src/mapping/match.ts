import type { z } from "zod";
import type { Condition, FieldConditions, matchSchema } from "../config/schema/mapping.ts";
import { didYouMean } from "../config/suggest.ts";
import type { Issue } from "../core/errors.ts";
import { all, any, compileCondition, getEqualValues, not, type Truth } from "./condition.ts";
import { compileExpression, type Expression, type JsonataRunner } from "./expression.ts";
import { parsePath, readForCondition, type Path } from "./json-path.ts";
import { ownMember, type TemplateContext } from "./template-context.ts";
import type { ConditionTrace } from "./types.ts";

export type { Truth } from "./condition.ts";
/** `when` failed: no later mapping is tried. */
export interface MatchFailed {
  failed: string;
}

interface Check {
  name: string;
  test(scope: TemplateContext): Truth;
}

/** A payload field that must equal one of some values for the match to hold. */
export interface Equality {
  field: string;
  path: Path;
  values: readonly (string | number | boolean | null)[];
}

export interface CompiledMatch {
  readonly paths: readonly string[] | undefined;
  readonly equalities: readonly Equality[];
  /** Everything but the path. */
  test(scope: TemplateContext): Truth | MatchFailed | Promise<Truth | MatchFailed>;
  trace(scope: TemplateContext): Promise<ConditionTrace[]>;
}

type Read = (scope: TemplateContext) => unknown;
type FieldTest = (value: unknown) => Truth;
const GROUPS = ["$and", "$or", "$not"];

/** Conditions on the fields of one value, one check for each field or group. */
function compileFields(conditions: FieldConditions, path: string, issues: Issue[]): { name: string; test: FieldTest }[] {
  return Object.entries(conditions).map(([field, condition]) => {
    const at = `${path}.${field}`;
    if (GROUPS.includes(field)) return { name: at, test: compileGroup(field, condition, at, issues) };
    if (field.startsWith("$")) issues.push({ path: at, message: `is no operator here.${didYouMean(field, GROUPS)}` });
    const test = compileCondition(condition as Condition, at, issues);
    const parsed = parsePath(field);
    if (!parsed) {
      issues.push({ path: at, message: "is no plain path: write `a.b[0].c`" });
      return { name: at, test: () => "unknown" as const };
    }
    return { name: at, test: (value: unknown) => test(readForCondition(parsed, value)) };
  });
}

function compileGroup(operator: string, operand: unknown, path: string, issues: Issue[]): FieldTest {
  const objects = operator === "$not" ? [operand] : Array.isArray(operand) ? (operand as unknown[]) : [];
  if (objects.length === 0 || objects.some((entry) => typeof entry !== "object" || entry === null || Array.isArray(entry))) {
    issues.push({ path, message: operator === "$not" ? "must be an object of conditions" : "must be a list of objects of conditions" });
    return () => "unknown";
  }
  const tests = objects.map((entry, index): FieldTest => {
    const checks = compileFields(entry as FieldConditions, operator === "$not" ? path : `${path}[${index}]`, issues);
    return (value) => all(checks.map((check) => () => check.test(value)));
  });
  if (operator === "$not") return (value) => not((tests[0] as FieldTest)(value));
  const combine = operator === "$and" ? all : any;
  return (value) => combine(tests.map((test) => () => test(value)));
}

/** Headers and parameters are flat: a name is looked up as it is. */
function compileFlat(
  conditions: FieldConditions,
  read: (scope: TemplateContext) => Record<string, string>,
  path: string,
  lower: boolean,
  issues: Issue[],
): Check[] {
  return Object.entries(conditions).map(([name, condition]) => {
    const test = compileCondition(condition as Condition, `${path}.${name}`, issues);
    const key = lower ? name.toLowerCase() : name;
    return { name: `${path}.${name}`, test: (scope) => test(ownMember(read(scope), key)) };
  });
}

function compileChecks(match: z.output<typeof matchSchema>, path: string, issues: Issue[]): Check[] {
  const checks: Check[] = [];
  if (match.source !== undefined) {
    const test = compileCondition(match.source, `${path}.source`, issues);
    checks.push({ name: `${path}.source`, test: (scope) => test(ownMember(scope.payload, "source")) });
  }
  if (match.headers) checks.push(...compileFlat(match.headers, (scope) => scope.headers, `${path}.headers`, true, issues));
  if (match.query) checks.push(...compileFlat(match.query, (scope) => scope.query, `${path}.query`, false, issues));
  if (match.payload) {
    const read: Read = (scope) => scope.payload;
    checks.push(
      ...compileFields(match.payload, `${path}.payload`, issues).map(({ name, test }) => ({
        name,
        test: (scope: TemplateContext) => test(read(scope)),
      })),
    );
  }
  return checks;
}

function getEqualities(match: z.output<typeof matchSchema>): Equality[] {
  const found: Equality[] = [];
  const add = (field: string, condition: unknown): void => {
    const values = getEqualValues(condition);
    const path = parsePath(field);
    if (values && path) found.push({ field, path, values });
  };
  if (match.source !== undefined) add("source", match.source);
  for (const [field, condition] of Object.entries(match.payload ?? {})) add(field, condition);
  return found;
}

async function testWhen(when: Expression, scope: TemplateContext): Promise<Truth | MatchFailed> {
  const result = await when.evaluate(scope);
  if (!result.ok) return { failed: result.message };
  return typeof result.value === "boolean" ? result.value : "unknown";
}

/** Compiles a mapping's `match`. Problems come back with their paths below `options.path`. */
export function compileMatch(
  match: z.output<typeof matchSchema>,
  options: { path: string; runner?: JsonataRunner },
): { match: CompiledMatch; issues: Issue[] } {
  const issues: Issue[] = [];
  const checks = compileChecks(match, options.path, issues);
  let when: Expression | undefined;
  if (match.when !== undefined) {
    const compiled = compileExpression(match.when, { field: "match.when", ...(options.runner ? { runner: options.runner } : {}) });
    if (compiled.ok) when = compiled.expression;
    else {
      const { ok: _ok, ...problem } = compiled;
      issues.push({ path: `${options.path}.when`, ...problem });
    }
  }
  const compiled: CompiledMatch = {
    paths: match.path === undefined ? undefined : [match.path].flat(),
    equalities: getEqualities(match),
    test(scope) {
      for (const check of checks) {
        const truth = check.test(scope);
        if (truth !== true) return truth;
      }
      return when ? testWhen(when, scope) : true;
    },
    async trace(scope) {
      const traces: ConditionTrace[] = checks.map((check) => ({ condition: check.name, result: check.test(scope) }));
      if (when) {
        const result = await testWhen(when, scope);
        traces.push({ condition: `${options.path}.when`, result: typeof result === "object" ? "unknown" : result });
      }
      return traces;
    },
  };
  return { match: compiled, issues };
}
