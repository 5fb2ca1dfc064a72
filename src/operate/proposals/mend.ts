import { nearest } from "../../config/suggest.ts";
import { RouseError } from "../../core/errors.ts";
import { readRecordedInput } from "../../intake/replay.ts";
import type { Snapshot } from "../../intake/types.ts";
import { parsePath } from "../../mapping/template-context.ts";
import type { ConditionTrace, MappingTrace } from "../../mapping/types.ts";
import type { EventRecord } from "../../store/types.ts";
import { testInput } from "../records/test-hook.ts";
import type { FixedMapping } from "./job.ts";
import { toExpression, type MappingParts, type Samples } from "./samples.ts";

const countHeld = ({ conditions }: MappingTrace): number =>
  conditions.filter(({ result }) => result === true).length;

/**
 * Finds the mapping of the user's files that is nearest to taking an event: of those that do not match the one with the most
 * conditions that hold.
 * @throws RouseError `not_found` if the event's body is gone, or `usage` if there is no such mapping.
 */
export async function findNearestMapping(event: EventRecord, snapshot: Snapshot): Promise<string> {
  const recorded = readRecordedInput(event, snapshot);
  if (!recorded.ok)
    throw new RouseError({ code: "not_found", message: `${event.id}: ${recorded.reason}` });
  const { traces } = await testInput(recorded.input, snapshot);
  const near = traces.filter(
    ({ verdict, origin }) => verdict === "no" && !origin.startsWith("preset:"),
  );
  const [found] = near.toSorted((a, b) => countHeld(b) - countHeld(a));
  if (found) return found.mapping;
  throw new RouseError({
    code: "usage",
    message: `no mapping of your files is near to taking ${event.id}: name the one that is to be mended, or propose a new one`,
  });
}

/** The conditions of a mapping that do not hold, each with how it came out for the events. */
export async function traceConditions(
  { id }: FixedMapping,
  { samples }: Samples,
  snapshot: Snapshot,
): Promise<Map<string, ConditionTrace[]>> {
  const failed = new Map<string, ConditionTrace[]>();
  for (const { input } of samples) {
    const { traces } = await testInput(input, snapshot);
    const { conditions = [] } = traces.find(({ mapping }) => mapping === id) ?? {};
    for (const condition of conditions)
      if (condition.result !== true)
        failed.set(condition.condition, [...(failed.get(condition.condition) ?? []), condition]);
  }
  return failed;
}

/** The fields of the events, by their names without places in lists. */
type Fields = ReadonlyMap<string, Samples["fields"][number]>;

const isScalar = (value: unknown): boolean => value === null || typeof value !== "object";

/** An operator with its operand so that it also holds for values. Null: it goes away; undefined: it cannot be widened. */
function widenOperator(
  operator: string,
  operand: unknown,
  values: readonly unknown[],
): [operator: string, operand: unknown] | null | undefined {
  const written = [operand].flat();
  switch (operator) {
    case "$eq":
    case "$in": {
      const all = [...new Set([...written, ...values])];
      return all.length === 1 ? [operator, operand] : ["$in", all];
    }
    case "$ne":
    case "$nin": {
      const left = written.filter((one) => !values.includes(one));
      return left.length === 0 ? null : [operator, operator === "$ne" ? left[0] : left];
    }
    case "$gt":
    case "$gte":
    case "$lt":
    case "$lte": {
      const ordered = [operand, ...values] as (number | string)[];
      if (ordered.some((one) => typeof one !== typeof operand)) return undefined;
      const bound = ordered
        .toSorted((a, b) => (a < b ? -1 : 1))
        .at(operator.startsWith("$g") ? 0 : -1);
      return [values.includes(bound) ? `${operator.slice(0, 3)}e` : operator, bound];
    }
    default:
      return undefined;
  }
}

/** A condition that also takes the values that a field has; undefined if it cannot be widened. */
function widen(condition: unknown, values: readonly unknown[]): unknown {
  if (typeof condition !== "object" || condition === null || Array.isArray(condition)) {
    const written = [condition].flat();
    if (!written.every(isScalar)) return undefined;
    const all = [...new Set([...written, ...values])];
    return all.length === 1 ? all[0] : all;
  }
  const widened = new Map<string, unknown>();
  for (const [operator, operand] of Object.entries(condition)) {
    const made = widenOperator(operator, operand, values);
    if (made === undefined || (made && widened.has(made[0]))) return undefined;
    if (made) widened.set(...made);
  }
  return widened.size === 0 ? { $exists: true } : Object.fromEntries(widened);
}

/** Mends one condition on the payload: the name of its field if that is missing, its values otherwise. */
function mendCondition(
  field: string,
  condition: unknown,
  failed: readonly ConditionTrace[],
  fields: Fields,
  standIns: ReadonlySet<unknown>,
): [field: string, condition: unknown] {
  const isMissing = failed.every(({ saw }) => saw === undefined || saw.type === "missing");
  const [near] = isMissing && !fields.has(field) ? nearest(field, fields.keys(), 1) : [field];
  if (near === undefined) return [field, condition];
  const values = fields.get(near)?.values?.filter((value) => !standIns.has(value)) ?? [];
  const written = [condition].flat();
  const isMended =
    near !== field && (!written.every(isScalar) || written.some((value) => values.includes(value)));
  if (isMended) return [near, condition];
  const widened = values.length > 0 ? widen(condition, values) : undefined;
  return widened === undefined ? [field, condition] : [near, widened];
}

const EXPRESSION = /\{\{(.*?)\}\}/gs;

/** A template in which plain paths that no event has name the nearest field that is there. */
const mendTemplate = (text: string, fields: Fields): string =>
  text.replace(EXPRESSION, (all, expression: string) => {
    const [root = "", ...steps] = (parsePath(expression) ?? []).filter(
      (step) => typeof step === "string",
    );
    const name = (root === "payload" ? steps : [root, ...steps]).join(".");
    if (name === "" || toExpression(name) !== name || fields.has(name)) return all;
    const [near] = nearest(name, fields.keys(), 1);
    return near === undefined || parsePath(near) === undefined ? all : `{{${toExpression(near)}}}`;
  });

function mendTemplates({ value }: FixedMapping, fields: Fields): MappingParts {
  const mended = ["name", "sessionKey", "messageTemplate"].flatMap((name) => {
    const written = value[name];
    if (written === undefined) return [];
    const lines = [written].flat().map(String);
    const after = lines.map((line) => mendTemplate(line, fields));
    if (after.every((line, index) => line === lines[index])) return [];
    return [[name, name === "messageTemplate" ? after : after[0]]];
  });
  return Object.fromEntries(mended) as MappingParts;
}

/**
 * Mends a mapping without a model: conditions on the payload get the name of the nearest field that is there, or the further
 * values that their field has, limits move as far as these values, and templates get the names of the nearest fields. Notes name
 * what was left as it is.
 */
export async function mendMapping(
  fixed: FixedMapping,
  samples: Samples,
  snapshot: Snapshot,
): Promise<{ parts: MappingParts; notes: string[] }> {
  const failed = await traceConditions(fixed, samples, snapshot);
  const fields: Fields = new Map(
    samples.fields.map((field) => [field.name.replaceAll("[]", ""), field]),
  );
  const { payload = {} } = (fixed.value["match"] ?? {}) as { payload?: Record<string, unknown> };
  const mended = new Map<string, [string, unknown]>();
  for (const [field, condition] of Object.entries(payload)) {
    const traces = failed.get(`match.payload.${field}`) ?? [];
    const after =
      traces.length === 0
        ? ([field, condition] as [string, unknown])
        : mendCondition(field, condition, traces, fields, samples.standIns);
    mended.set(field, after);
  }
  const isMended = (field: string): boolean =>
    JSON.stringify(mended.get(field)) !== JSON.stringify([field, payload[field]]);
  const notes = [...failed].flatMap(([condition, [first]]) => {
    const field = condition.replace(/^match\.payload\./, "");
    return mended.has(field) && isMended(field)
      ? []
      : [`${condition} was left as it is: ${first?.reason}`];
  });
  return {
    parts: {
      ...([...mended.keys()].some(isMended) && { payload: Object.fromEntries(mended.values()) }),
      ...mendTemplates(fixed, fields),
    },
    notes,
  };
}
