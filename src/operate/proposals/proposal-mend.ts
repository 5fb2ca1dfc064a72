import { nearest } from "../../config/suggest.ts";
import type { Snapshot } from "../../intake/types.ts";
import { parsePath } from "../../mapping/template-context.ts";
import type { ConditionTrace } from "../../mapping/types.ts";
import { toExpression } from "./draft-mapping.ts";
import type { MappingParts } from "./proposal-answer.ts";
import type { FixedMapping } from "./proposal-text.ts";
import { traceConditions } from "./proposal-edit.ts";
import type { Samples } from "./proposal-samples.ts";
import type { FieldShape } from "../shapes/shape.ts";

/** What was mended, and what was not. */
export interface Mended {
  parts: MappingParts;
  notes: string[];
}

type Fields = ReadonlyMap<string, FieldShape>;

const EXPRESSION = /\{\{(.*?)\}\}/gs;
const isScalar = (value: unknown): boolean => value === null || typeof value !== "object";

type Widened = readonly [operator: string, operand: unknown];

const without = (
  operator: string,
  operand: unknown,
  values: readonly unknown[],
): Widened | null => {
  const left = [operand].flat().filter((one) => !values.includes(one));
  return left.length === 0 ? null : [operator, operator === "$ne" ? left[0] : left];
};

/** The least or the greatest of values of the operand's type; undefined if there are others, or none. */
function findBound(operand: unknown, values: readonly unknown[], isLess: boolean): unknown {
  const same = [operand, ...values].filter((one) => typeof one === typeof operand) as (
    | number
    | string
  )[];
  if (same.length <= values.length || values.length === 0) return undefined;
  return same.toSorted((a, b) => (a < b ? -1 : 1)).at(isLess ? 0 : -1);
}

const least = (
  operator: string,
  operand: unknown,
  values: readonly unknown[],
): Widened | undefined => {
  const bound = findBound(operand, values, true);
  return bound === undefined
    ? undefined
    : [bound === operand && !values.includes(bound) ? operator : "$gte", bound];
};
const greatest = (
  operator: string,
  operand: unknown,
  values: readonly unknown[],
): Widened | undefined => {
  const bound = findBound(operand, values, false);
  return bound === undefined
    ? undefined
    : [bound === operand && !values.includes(bound) ? operator : "$lte", bound];
};
const oneOf = (operator: string, operand: unknown, values: readonly unknown[]): Widened => {
  const all = [...new Set([...[operand].flat(), ...values])];
  return all.length === 1 ? [operator, operand] : ["$in", all];
};

/** What each operator becomes so that it also holds for values; null: it goes away. */
const OPERATORS: Record<
  string,
  (operator: string, operand: unknown, values: readonly unknown[]) => Widened | null | undefined
> = {
  $eq: oneOf,
  $in: oneOf,
  $ne: without,
  $nin: without,
  $gt: least,
  $gte: least,
  $lt: greatest,
  $lte: greatest,
};

/** The operators of a condition so that they also hold for values; undefined if one of them cannot be widened. */
function widenOperators(condition: object, values: readonly unknown[]): unknown {
  const widened = new Map<string, unknown>();
  for (const [operator, operand] of Object.entries(condition)) {
    const made = OPERATORS[operator]?.(operator, operand, values);
    if (made === undefined || (made && widened.has(made[0]))) return undefined;
    if (made) widened.set(...made);
  }
  return widened.size === 0 ? { $exists: true } : Object.fromEntries(widened);
}

/** A condition that also takes the values that a field has; undefined if it cannot be widened, or the field has too many. */
function widen(condition: unknown, values: readonly unknown[] | undefined): unknown {
  if (!values) return undefined;
  if (typeof condition === "object" && condition !== null && !Array.isArray(condition))
    return widenOperators(condition, values);
  const written = Array.isArray(condition) ? condition : [condition];
  if (!written.every(isScalar)) return undefined;
  const all = [...new Set([...written, ...values])];
  return all.length === 1 ? all[0] : all;
}

/** Mends one condition on the payload: the name of its field if that is missing, its values otherwise. */
function mendCondition(
  field: string,
  condition: unknown,
  failed: readonly ConditionTrace[],
  fields: Fields,
  hidden: ReadonlySet<unknown>,
): [string, unknown] | undefined {
  const isMissing = failed.every(({ saw }) => saw === undefined || saw.type === "missing");
  const [near] = isMissing && !fields.has(field) ? nearest(field, fields.keys(), 1) : [field];
  if (near === undefined) return undefined;
  const values = fields.get(near)?.values?.filter((value) => !hidden.has(value));
  const written = [condition].flat();
  if (
    near !== field &&
    (!written.every(isScalar) || written.some((value) => values?.includes(value)))
  )
    return [near, condition];
  const widened = values && values.length > 0 ? widen(condition, values) : undefined;
  return widened === undefined ? undefined : [near, widened];
}

/** A template in which plain paths that no event has name the nearest field that is there. */
function mendTemplate(text: string, fields: Fields): string {
  return text.replace(EXPRESSION, (all, expression: string) => {
    const [root = "", ...steps] = (parsePath(expression) ?? []).filter(
      (step) => typeof step === "string",
    );
    const name = (root === "payload" ? steps : [root, ...steps]).join(".");
    if (name === "" || toExpression(name) !== name || fields.has(name)) return all;
    const [near] = nearest(name, fields.keys(), 1);
    return near === undefined || parsePath(near) === undefined ? all : `{{${toExpression(near)}}}`;
  });
}

function mendTemplates({ value }: FixedMapping, fields: Fields): MappingParts {
  const parts: MappingParts = {};
  for (const name of ["name", "sessionKey"] as const) {
    const text = value[name];
    if (typeof text !== "string") continue;
    const mended = mendTemplate(text, fields);
    if (mended !== text) parts[name] = mended;
  }
  const lines = [value["messageTemplate"] ?? []].flat().map(String);
  const mended = lines.map((line) => mendTemplate(line, fields));
  if (mended.some((line, index) => line !== lines[index])) parts.messageTemplate = mended;
  return parts;
}

/**
 * Mends a mapping without a model: conditions on the payload get the name of the nearest field that is there, or the further
 * values that their field has, limits move as far as these values, and templates get the names of the nearest fields. Anything else is said, and left as it is.
 */
export async function mendMapping(
  fixed: FixedMapping,
  samples: Samples,
  snapshot: Snapshot,
): Promise<Mended> {
  const failed = await traceConditions(fixed, samples, snapshot);
  const fields: Fields = new Map(
    samples.fields.map((field) => [field.name.replaceAll("[]", ""), field]),
  );
  const { payload = {} } = (fixed.value["match"] ?? {}) as { payload?: Record<string, unknown> };
  const notes: string[] = [];
  const entries = Object.entries(payload).map(([field, condition]): [string, unknown] => {
    const traces = failed.get(`match.payload.${field}`);
    if (!traces) return [field, condition];
    return mendCondition(field, condition, traces, fields, samples.standIns) ?? [field, condition];
  });
  const isChanged = JSON.stringify(entries) !== JSON.stringify(Object.entries(payload));
  for (const [condition, [first]] of failed) {
    const field = condition.replace(/^match\.payload\./, "");
    const isMended = entries.some(
      ([name, value]) => name !== field || JSON.stringify(value) !== JSON.stringify(payload[field]),
    );
    if (condition === field || !isChanged || !isMended)
      notes.push(`${condition} was left as it is: ${first?.reason}`);
  }
  return {
    parts: {
      ...(isChanged && { payload: Object.fromEntries(entries) }),
      ...mendTemplates(fixed, fields),
    },
    notes,
  };
}
