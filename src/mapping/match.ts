import type { z } from "zod";
import type {
  Condition,
  FieldConditions,
  MappingConfig,
  matchSchema,
} from "../config/schema/mapping.ts";
import { didYouMean } from "../config/suggest.ts";
import type { Issue } from "../core/errors.ts";
import { isRecord } from "../core/json.ts";
import {
  compileCondition,
  createFieldCheck,
  createGroup,
  getEqualValues,
  GROUPS,
  isGroup,
  type ConditionCheck,
  type ConditionField,
  type ConditionPart,
  type Truth,
} from "./condition.ts";
import { fieldPaths } from "./seen.ts";
import {
  type Evaluated,
  type Expression,
  parsePath,
  readForCondition,
  type Path,
  ownMember,
  type TemplateContext,
  readPath,
  readScope,
} from "./template-context.ts";
import { compileExpression, type JsonataRunner } from "./jsonata/expression.ts";
import type { CompiledMapping, CompiledMatch, Equality, MatchFailed } from "./compiled.ts";
import type { MappingInput } from "./types.ts";

/** A path with `[]` after each name that leads through a list, as in `labels[].name`. */
function renderThroughLists(path: Path, root: unknown): string {
  let text = "";
  let at = root;
  for (const [index, step] of path.entries()) {
    text += typeof step === "number" ? `[${step}]` : `${text === "" ? "" : "."}${step}`;
    at = readForCondition(path.slice(0, index + 1), root);
    if (Array.isArray(at) && typeof path[index + 1] === "string") text += "[]";
  }
  return text;
}

const NO_PATH =
  "is no plain path: write `a.b[0].c`, and a name with other characters in backticks, such as a.`first name`";

/** Compiles conditions on fields of the payload, one check for each field or group. */
function compileFields(
  conditions: FieldConditions,
  path: string,
  issues: Issue[],
): ConditionPart<TemplateContext>[] {
  return Object.entries(conditions).map(([name, condition]) => {
    const at = `${path}.${name}`;
    if (isGroup(name)) return [`.${name}`, compileFieldGroup(name, condition, at, issues)];
    if (name.startsWith("$"))
      issues.push({
        path: at,
        message: `is no operator here.${didYouMean(name, Object.keys(GROUPS))}`,
      });
    const steps = parsePath(name);
    if (!steps) issues.push({ path: at, message: NO_PATH });
    const field: ConditionField<TemplateContext> = {
      read: ({ payload }) => steps && readForCondition(steps, payload),
      name: ({ payload }) => (steps ? renderThroughLists(steps, payload) : name),
      among: ({ payload }) => fieldPaths(payload),
    };
    return [
      `.${name}`,
      createFieldCheck(field, compileCondition(condition as Condition, at, issues)),
    ];
  });
}

function compileFieldGroup(
  group: keyof typeof GROUPS,
  operand: unknown,
  path: string,
  issues: Issue[],
): ConditionCheck<TemplateContext> {
  const isNot = group === "$not";
  const objects = isNot ? [operand] : Array.isArray(operand) ? (operand as unknown[]) : [];
  if (objects.length === 0 || !objects.every(isRecord)) {
    const wanted = isNot ? "an object of conditions" : "a list of objects of conditions";
    issues.push({ path, message: `must be ${wanted}` });
    return createGroup(group, []);
  }
  const parts = objects.map((object, index): ConditionPart<TemplateContext> => {
    const at = isNot ? "" : `[${index}]`;
    const fields = compileFields(object as FieldConditions, `${path}${at}`, issues);
    const [only] = fields;
    return only && fields.length === 1
      ? [`${at}${only[0]}`, only[1]]
      : [at, createGroup("$and", fields)];
  });
  return createGroup(group, parts);
}

/** Returns whether a condition has an operand that no text equals: a number, `true` or `false`. */
const namesNoText = (condition: unknown): boolean =>
  typeof condition === "object" && condition !== null
    ? Object.entries(condition).some(
        ([name, operand]) => name !== "$exists" && namesNoText(operand),
      )
    : typeof condition === "number" || typeof condition === "boolean";

/** Compiles conditions on headers or parameters. These are flat: a name is looked up as it is. */
function compileFlat(
  conditions: FieldConditions,
  kind: "headers" | "query",
  issues: Issue[],
): ConditionPart<TemplateContext>[] {
  return Object.entries(conditions).map(([name, condition]) => {
    const key = kind === "headers" ? name.toLowerCase() : name;
    const field: ConditionField<TemplateContext> = {
      read: (scope) => ownMember(scope[kind], key),
      name: () => `the ${kind === "headers" ? "header" : "query parameter"} ${key}`,
      among: (scope) => Object.keys(scope[kind]),
    };
    const at = `.${kind}.${name}`;
    if (namesNoText(condition))
      issues.push({ path: `match${at}`, message: 'is text: write "1" or "true", in quotes' });
    return [
      at,
      createFieldCheck(field, compileCondition(condition as Condition, `match${at}`, issues)),
    ];
  });
}

const SOURCE: ConditionField<TemplateContext> = {
  read: ({ payload }) => ownMember(payload, "source"),
  name: () => "source",
  among: ({ payload }) => fieldPaths(payload),
};

function compileChecks(
  { source, headers = {}, query = {}, payload = {} }: z.output<typeof matchSchema>,
  issues: Issue[],
): ConditionPart<TemplateContext>[] {
  const ofSource: ConditionPart<TemplateContext>[] =
    source === undefined
      ? []
      : [[".source", createFieldCheck(SOURCE, compileCondition(source, "match.source", issues))]];
  return [
    ...ofSource,
    ...compileFlat(headers, "headers", issues),
    ...compileFlat(query, "query", issues),
    ...compileFields(payload, "match.payload", issues).map(
      ([at, check]): ConditionPart<TemplateContext> => [`.payload${at}`, check],
    ),
  ];
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

export const isFailed = (truth: Truth | MatchFailed): truth is MatchFailed =>
  typeof truth === "object";

/** Returns whether what a mapping makes of an input is recorded and not done. */
export const isInShadow = (
  { config }: Pick<CompiledMapping, "config">,
  { live }: Pick<MappingInput, "live">,
): boolean => config.shadow && config.id !== live;

function toTruth(result: Evaluated): Truth | MatchFailed {
  if (!result.ok) return { failed: result.message };
  return typeof result.value === "boolean" ? result.value : "unknown";
}

/** Compiles a mapping's `match`. Problems come back with their paths in the mapping: `match.payload.action`. */
export function compileMatch(
  match: z.output<typeof matchSchema>,
  { runner }: { runner?: JsonataRunner } = {},
): { match: CompiledMatch; issues: Issue[] } {
  const issues: Issue[] = [];
  const checks = compileChecks(match, issues);
  let when: Expression | undefined;
  if (match.when !== undefined) {
    const compiled = compileExpression(match.when, { field: "match.when", runner });
    if (compiled.ok) when = compiled.expression;
    else {
      const { ok: _ok, ...problem } = compiled;
      issues.push({ path: "match.when", ...problem });
    }
  }
  const compiled: CompiledMatch = {
    paths: match.path === undefined ? undefined : [match.path].flat(),
    equalities: getEqualities(match),
    checks: checks.map(([at, check]) => [`match${at}`, check]),
    test(scope) {
      for (const [, check] of checks) {
        const truth = check.test(scope);
        if (truth !== true) return truth;
      }
      if (!when) return true;
      const given = when.evaluate(scope);
      return given instanceof Promise ? given.then(toTruth) : toTruth(given);
    },
    when,
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

/**
 * Compiles the rules that recognize the agent's own events. Undefined if the operator has named no account and no marker. What is
 * wrong is added to `issues`.
 */
export function compileSelf(
  rules: MappingConfig["ignoreSelf"],
  issues: Issue[],
): CompiledMapping["self"] {
  if (!rules || (rules.accounts.length === 0 && rules.marker === undefined)) return undefined;
  const toPaths = (field: "from" | "text"): Path[] =>
    rules[field].flatMap((text, index) => {
      const path = parsePath(text);
      if (path) return [path];
      const message = "must be a plain path such as `sender.login`";
      issues.push({ path: `ignoreSelf.${field}[${index}]`, message });
      return [];
    });
  const self = { from: toPaths("from"), text: toPaths("text"), marker: rules.marker };
  if (rules.accounts.length > 0 && self.from.length === 0)
    issues.push({
      path: "ignoreSelf.from",
      message: "is required with `accounts`: where the event names who caused it",
    });
  if (self.marker !== undefined && self.text.length === 0)
    issues.push({
      path: "ignoreSelf.text",
      message: "is required with `marker`: where the event has text that may carry it",
    });
  return { ...self, accounts: new Set(rules.accounts.map((account) => account.toLowerCase())) };
}

function texts(paths: readonly Path[], scope: TemplateContext): string[] {
  return paths
    .flatMap((path) => [readScope(path, scope)].flat())
    .flatMap((value) =>
      typeof value === "string" || typeof value === "number" ? [String(value)] : [],
    );
}

/**
 * Returns the reason that an event is an echo of what the agent itself did, or undefined if it is none. Quotes nothing
 * of the event.
 */
export function findLoop({ self }: CompiledMapping, scope: TemplateContext): string | undefined {
  if (!self) return undefined;
  if (texts(self.from, scope).some((account) => self.accounts.has(account.toLowerCase())))
    return "own echo: it was caused by one of ignoreSelf.accounts";
  const { marker } = self;
  if (marker !== undefined && texts(self.text, scope).some((text) => text.includes(marker)))
    return "own echo: it carries ignoreSelf.marker";
  return undefined;
}
