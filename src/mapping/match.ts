import type { z } from "zod";
import type { Condition, FieldConditions, matchSchema } from "../config/schema/mapping.ts";
import { didYouMean } from "../config/suggest.ts";
import type { Issue } from "../core/errors.ts";
import type { QueryValues } from "../core/query.ts";
import { all, any, compileCondition, getEqualValues, not, type Truth } from "./condition.ts";
import {
  type Evaluated,
  parsePath,
  readForCondition,
  type Path,
  ownMember,
  type TemplateContext,
  readPath,
  readScope,
} from "./template-context.ts";
import { compileExpression, type Expression, type JsonataRunner } from "./jsonata/expression.ts";
import {
  isFailed,
  type CompiledMapping,
  type CompiledMatch,
  type Equality,
  type MatchFailed,
} from "./compiled.ts";

interface Check {
  name: string;
  test(scope: TemplateContext): Truth;
}

type Read = (scope: TemplateContext) => unknown;
type FieldTest = (value: unknown) => Truth;
const GROUPS = ["$and", "$or", "$not"];

/** Conditions on the fields of one value, one check for each field or group. */
function compileFields(
  conditions: FieldConditions,
  path: string,
  issues: Issue[],
): { name: string; test: FieldTest }[] {
  return Object.entries(conditions).map(([field, condition]) => {
    const at = `${path}.${field}`;
    if (GROUPS.includes(field))
      return { name: at, test: compileGroup(field, condition, at, issues) };
    if (field.startsWith("$"))
      issues.push({ path: at, message: `is no operator here.${didYouMean(field, GROUPS)}` });
    const test = compileCondition(condition as Condition, at, issues);
    const parsed = parsePath(field);
    if (!parsed) {
      issues.push({ path: at, message: "is no plain path: write `a.b[0].c`" });
      return { name: at, test: () => "unknown" as const };
    }
    return { name: at, test: (value: unknown) => test(readForCondition(parsed, value)) };
  });
}

function compileGroup(
  operator: string,
  operand: unknown,
  path: string,
  issues: Issue[],
): FieldTest {
  const objects =
    operator === "$not" ? [operand] : Array.isArray(operand) ? (operand as unknown[]) : [];
  if (
    objects.length === 0 ||
    objects.some((entry) => typeof entry !== "object" || entry === null || Array.isArray(entry))
  ) {
    issues.push({
      path,
      message:
        operator === "$not"
          ? "must be an object of conditions"
          : "must be a list of objects of conditions",
    });
    return () => "unknown";
  }
  const tests = objects.map((entry, index): FieldTest => {
    const checks = compileFields(
      entry as FieldConditions,
      operator === "$not" ? path : `${path}[${index}]`,
      issues,
    );
    return (value) => all(checks.map((check) => () => check.test(value)));
  });
  if (operator === "$not") return (value) => not((tests[0] as FieldTest)(value));
  const combine = operator === "$and" ? all : any;
  return (value) => combine(tests.map((test) => () => test(value)));
}

/** Headers and parameters are flat: a name is looked up as it is. */
function compileFlat(
  conditions: FieldConditions,
  read: (scope: TemplateContext) => QueryValues,
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

function compileChecks(
  match: z.output<typeof matchSchema>,
  path: string,
  issues: Issue[],
): Check[] {
  const checks: Check[] = [];
  if (match.source !== undefined) {
    const test = compileCondition(match.source, `${path}.source`, issues);
    checks.push({
      name: `${path}.source`,
      test: (scope) => test(ownMember(scope.payload, "source")),
    });
  }
  if (match.headers)
    checks.push(
      ...compileFlat(match.headers, (scope) => scope.headers, `${path}.headers`, true, issues),
    );
  if (match.query)
    checks.push(
      ...compileFlat(match.query, (scope) => scope.query, `${path}.query`, false, issues),
    );
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

function toTruth(result: Evaluated): Truth | MatchFailed {
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
    const compiled = compileExpression(match.when, {
      field: "match.when",
      ...(options.runner ? { runner: options.runner } : {}),
    });
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
      if (!when) return true;
      const given = when.evaluate(scope);
      return given instanceof Promise ? given.then(toTruth) : toTruth(given);
    },
    when,
    *results(scope) {
      let holds = true;
      for (const check of checks) {
        const result = check.test(scope);
        holds &&= result === true;
        yield { condition: check.name, result };
      }
      const known = holds ? when?.known(scope) : undefined;
      if (!known) return;
      const given = toTruth(known);
      yield { condition: `${options.path}.when`, result: isFailed(given) ? "unknown" : given };
    },
  };
  return { match: compiled, issues };
}

/** Which mappings may match a payload, in their order. Those left out would fail on an equality. */
export interface MatchIndex {
  candidates(payload: unknown): readonly CompiledMapping[];
  readonly all: readonly CompiledMapping[];
}

interface FieldIndex {
  path: Path;
  byValue: Map<unknown, CompiledMapping[]>;
}

/** Fewer mappings than this are as quickly tried one by one. */
const WORTH_IT = 4;

/**
 * An index over the equalities of mappings, so that a thousand of them on one path cost about as much as one: each
 * mapping stands under the values of one of its fields, the one that most mappings of the set have too.
 */
export function createMatchIndex(mappings: readonly CompiledMapping[]): MatchIndex {
  if (mappings.length < WORTH_IT) return { all: mappings, candidates: () => mappings };
  const popularity = new Map<string, Set<unknown>>();
  for (const mapping of mappings) {
    for (const { field, values } of mapping.match.equalities) {
      const known = popularity.get(field) ?? new Set();
      popularity.set(field, known);
      for (const value of values) known.add(value);
    }
  }
  const fields = new Map<string, FieldIndex>();
  const always: CompiledMapping[] = [];
  for (const mapping of mappings) {
    // The field with the most different values tells the mappings apart best.
    const best = mapping.match.equalities.toSorted(
      (a, b) => (popularity.get(b.field)?.size ?? 0) - (popularity.get(a.field)?.size ?? 0),
    )[0];
    if (!best) {
      always.push(mapping);
      continue;
    }
    const index = fields.get(best.field) ?? {
      path: best.path,
      byValue: new Map<unknown, CompiledMapping[]>(),
    };
    fields.set(best.field, index);
    for (const value of new Set(best.values)) {
      const bucket = index.byValue.get(value) ?? [];
      index.byValue.set(value, bucket);
      bucket.push(mapping);
    }
  }
  const indexes = [...fields.values()];
  return {
    all: mappings,
    candidates(payload) {
      const found = new Set<CompiledMapping>(always);
      for (const { path, byValue } of indexes) {
        const value = readPath(path, payload);
        for (const one of Array.isArray(value) ? (value as unknown[]) : [value])
          for (const mapping of byValue.get(one) ?? []) found.add(mapping);
      }
      return [...found].toSorted((a, b) => a.order - b.order);
    },
  };
}

function texts(paths: readonly Path[], scope: TemplateContext): string[] {
  return paths
    .flatMap((path) => [readScope(path, scope)].flat())
    .flatMap((value) =>
      typeof value === "string" || typeof value === "number" ? [String(value)] : [],
    );
}

/** Why an event is an echo of what the agent itself did, or undefined if it is none. Quotes nothing of the event. */
export function findLoop({ self }: CompiledMapping, scope: TemplateContext): string | undefined {
  if (!self) return undefined;
  if (texts(self.from, scope).some((account) => self.accounts.has(account.toLowerCase())))
    return "own echo: it was caused by one of ignoreSelf.accounts";
  const { marker } = self;
  if (marker !== undefined && texts(self.text, scope).some((text) => text.includes(marker)))
    return "own echo: it carries ignoreSelf.marker";
  return undefined;
}
