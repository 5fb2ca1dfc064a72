import { nearest } from "../../config/suggest.ts";
import type { Issue } from "../../core/errors.ts";
import type { LintedMapping } from "./covering.ts";
import { lintIssue } from "./lint.ts";
import { getConditionReads, getRenderedReads, type FieldRead } from "./read-fields.ts";
import { getAround, toType, type FieldType, type Shape } from "./shape.ts";

/** So many bodies say enough about the fields of a hook. */
const ENOUGH = 20;

/** The fields of a hook, by their names without `[]`: as conditions and templates write them. */
interface KnownFields {
  events: number;
  types: Map<string, Set<FieldType>>;
  /** The number of bodies that had an object of this name. */
  objects: Map<string, number>;
  /** The nearest name of fields that are not known; null if there is none. */
  near: Map<string, string | null>;
}

/** Returns whether bodies have a field. Below a name that may be any key, all may be there. */
function isKnown({ types }: KnownFields, field: string): boolean {
  if (types.has(field)) return true;
  let above = [""];
  for (const name of field.split(".")) {
    const found = above.flatMap((before) =>
      [name, "*"]
        .map((one) => (before === "" ? one : `${before}.${one}`))
        .filter((one) => types.has(one)),
    );
    if (found.some((one) => one.endsWith("*"))) return true;
    above = found;
  }
  return false;
}

/** Joins the shapes of the paths of a mapping. Undefined if too few bodies are known, or not all of their fields. */
function toKnownFields(shapes: readonly (Shape | undefined)[]): KnownFields | undefined {
  const known: KnownFields = { events: 0, types: new Map(), objects: new Map(), near: new Map() };
  for (const shape of shapes) {
    if (!shape || shape.isCut || shape.events < ENOUGH) return undefined;
    known.events += shape.events;
    for (const [written, { types }] of shape.fields) {
      const name = written.replaceAll("[]", "").replaceAll("`", "");
      const all = known.types.get(name) ?? new Set<FieldType>();
      known.types.set(name, all);
      for (const type of Object.keys(types) as FieldType[]) all.add(type);
      known.objects.set(name, (known.objects.get(name) ?? 0) + (types.object ?? 0));
    }
  }
  return shapes.length === 0 ? undefined : known;
}

/** Comparing a field with all names takes long: so many fields of a path get a hint. */
const MAX_HINTS = 50;

function findNear({ near, types }: KnownFields, field: string): string | null {
  const before = near.get(field);
  if (before !== undefined || near.size === MAX_HINTS) return before ?? null;
  const found = nearest(field, types.keys(), 1)[0] ?? null;
  near.set(field, found);
  return found;
}

/** Returns whether a condition also holds, or is meant to hold, for a field that is not there. */
function asksForPresence(condition: unknown): boolean {
  return (
    typeof condition === "object" &&
    condition !== null &&
    JSON.stringify(condition).includes('"$exists"')
  );
}

function findUnknownFields(mapping: LintedMapping, known: KnownFields, isAlone: boolean): Issue[] {
  const reads = [
    ...getConditionReads(mapping.config).filter(({ condition }) => !asksForPresence(condition)),
    ...getRenderedReads(mapping.config),
  ];
  return reads.flatMap(({ field, at }) => {
    if (isKnown(known, field)) return [];
    let missing = field;
    for (
      let above = getAround(missing);
      above !== undefined && !known.types.has(above);
      above = getAround(missing)
    )
      missing = above;
    const around = getAround(missing);
    const bodies = around === undefined ? known.events : (known.objects.get(around) ?? 0);
    if (bodies < ENOUGH) return [];
    const near = findNear(known, field);
    // Bodies of other kinds may be all that came so far.
    if (near === null && around === undefined && !isAlone) return [];
    const hint = near === null ? "" : ` Did you mean "${near}"?`;
    return lintIssue(
      mapping,
      "unknown-field",
      at,
      `none of ${known.events} recorded bodies has the field "${field}".${hint}`,
    );
  });
}

/** Returns the types that a value must have for a condition to hold; undefined if any type may do. */
function getComparedTypes(condition: unknown): Set<FieldType> | undefined {
  if (typeof condition !== "object" || condition === null) return new Set([toType(condition)]);
  if (Array.isArray(condition)) return new Set(condition.map(toType));
  const entries = Object.entries(condition);
  const [[operator, operand] = ["", undefined]] = entries as [string, unknown][];
  if (entries.length !== 1) return undefined;
  if (["$eq", "$gt", "$gte", "$lt", "$lte"].includes(operator)) return new Set([toType(operand)]);
  if (["$regex", "$prefix", "$suffix"].includes(operator)) return new Set(["text"]);
  return operator === "$in" && Array.isArray(operand) ? new Set(operand.map(toType)) : undefined;
}

const TYPE_NAMES: Record<FieldType, string> = {
  text: "text",
  number: "a number",
  boolean: "true or false",
  null: "null",
  object: "an object",
  list: "a list",
};
const describe = (types: Iterable<FieldType>): string =>
  [...types].map((type) => TYPE_NAMES[type]).join(" or ");

function checkType(
  mapping: LintedMapping,
  { field, at, condition }: FieldRead,
  known: KnownFields,
): Issue[] {
  const compared = getComparedTypes(condition);
  const found = known.types.get(field);
  if (!compared || compared.size === 0 || !found) return [];
  // Members of lists stand under the name of the list.
  const types = [...found].filter((type) => type !== "list" && type !== "null");
  if (types.length === 0 || types.some((type) => compared.has(type)) || compared.has("null"))
    return [];
  const message = `compares with ${describe(compared)}, and "${field}" was ${describe(types)} in all of ${known.events} recorded bodies`;
  return lintIssue(mapping, "wrong-type", at, message);
}

const findWrongTypes = (mapping: LintedMapping, known: KnownFields): Issue[] =>
  getConditionReads(mapping.config).flatMap((read) => checkType(mapping, read, known));

/**
 * Looks for what the mappings of a config probably do not mean, as far as recorded hooks show it. Fields of presets are left
 * out: senders leave out fields that presets allow for.
 */
export function lintRecorded(
  mappings: readonly LintedMapping[],
  shapes: ReadonlyMap<string, Shape>,
): Issue[] {
  const onPath = new Map<string, number>();
  for (const { info } of mappings)
    for (const path of info.paths) onPath.set(path, (onPath.get(path) ?? 0) + 1);
  const fields = new Map<string, KnownFields | undefined>();
  const own = mappings.filter(
    ({ config, info }) => config.enabled && !info.origin.startsWith("preset:"),
  );
  return own.flatMap((mapping) => {
    const { paths } = mapping.info;
    const key = paths.join("\n");
    if (!fields.has(key)) fields.set(key, toKnownFields(paths.map((path) => shapes.get(path))));
    const known = fields.get(key);
    if (!known) return [];
    const isAlone = paths.every((path) => onPath.get(path) === 1);
    return [...findUnknownFields(mapping, known, isAlone), ...findWrongTypes(mapping, known)];
  });
}
