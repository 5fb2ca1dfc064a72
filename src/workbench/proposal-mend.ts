import { testInput } from "../admin/test-hook.ts";
import { nearest } from "../config/suggest.ts";
import type { Snapshot } from "../intake/types.ts";
import { parsePath } from "../mapping/template-context.ts";
import type { ConditionTrace } from "../mapping/types.ts";
import { toExpression } from "./draft-preset.ts";
import type { MappingParts } from "./proposal-answer.ts";
import type { FixedMapping } from "./proposal-draft.ts";
import type { Samples } from "./proposal-samples.ts";
import type { FieldShape } from "./shape.ts";

/** What was mended, and what was not. */
export interface Mended {
  parts: MappingParts;
  notes: string[];
}

type Fields = ReadonlyMap<string, FieldShape>;

const EXPRESSION = /\{\{(.*?)\}\}/gs;
const isScalar = (value: unknown): boolean => value === null || typeof value !== "object";

/** The conditions of a mapping that do not hold for an event, each with how it came out for the events. */
async function traceConditions({ id }: FixedMapping, { samples }: Samples, snapshot: Snapshot): Promise<Map<string, ConditionTrace[]>> {
  const failed = new Map<string, ConditionTrace[]>();
  for (const { input } of samples) {
    const { traces } = await testInput(input, snapshot);
    const { conditions = [] } = traces.find(({ mapping }) => mapping === id) ?? {};
    for (const condition of conditions) {
      if (condition.result === true) continue;
      failed.set(condition.condition, [...(failed.get(condition.condition) ?? []), condition]);
    }
  }
  return failed;
}

/** A condition that also takes the values that a field has; undefined if it is more than values, or the field has too many. */
function widen(condition: unknown, values: readonly unknown[] | undefined): unknown {
  const written = Array.isArray(condition) ? condition : [condition];
  if (!values || !written.every(isScalar)) return undefined;
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
  if (near !== field && (!written.every(isScalar) || written.some((value) => values?.includes(value)))) return [near, condition];
  const widened = values && values.length > 0 ? widen(condition, values) : undefined;
  return widened === undefined ? undefined : [near, widened];
}

/** A template in which plain paths that no event has name the nearest field that is there. */
function mendTemplate(text: string, fields: Fields): string {
  return text.replace(EXPRESSION, (all, expression: string) => {
    const [root = "", ...steps] = (parsePath(expression) ?? []).filter((step) => typeof step === "string");
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
 * values that their field has, and templates the names of the nearest fields. Anything else is said, and left as it is.
 */
export async function mendMapping(fixed: FixedMapping, samples: Samples, snapshot: Snapshot): Promise<Mended> {
  const failed = await traceConditions(fixed, samples, snapshot);
  const fields: Fields = new Map(samples.fields.map((field) => [field.name.replaceAll("[]", ""), field]));
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
    const isMended = entries.some(([name, value]) => name !== field || JSON.stringify(value) !== JSON.stringify(payload[field]));
    if (condition === field || !isChanged || !isMended) notes.push(`${condition} was left as it is: ${first?.reason}`);
  }
  return { parts: { ...(isChanged && { payload: Object.fromEntries(entries) }), ...mendTemplates(fixed, fields) }, notes };
}
