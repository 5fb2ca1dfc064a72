import type { CompiledMapping } from "./compiled.ts";
import { findLoop, isInShadow } from "./match.ts";
import { describeValue, see, renderJson, typeOf, type SeenType } from "./seen.ts";
import { withEvents, type TemplateContext } from "./template-context.ts";
import type { Template } from "./template.ts";
import type {
  ConditionTrace,
  FieldTrace,
  MappingInput,
  MappingTrace,
  MappingVerdict,
} from "./types.ts";
import type { ConditionCheck, GROUPS, Truth } from "./condition.ts";

/** The words for an operator whose condition holds, and for one whose condition does not. */
const VERBS: Record<string, readonly [holds: string, fails: string]> = {
  $eq: ["equals", "does not equal"],
  $in: ["is one of", "is none of"],
  $regex: ["matches", "does not match"],
  $prefix: ["begins with", "does not begin with"],
  $suffix: ["ends with", "does not end with"],
  $contains: ["contains", "does not contain"],
  $gt: ["is greater than", "is not greater than"],
  $gte: ["is at least", "is less than"],
  $lt: ["is less than", "is not less than"],
  $lte: ["is at most", "is greater than"],
};
/** The operators that are the opposite of another. */
const OPPOSITE: Record<string, string> = { $ne: "$eq", $nin: "$in" };
const ORDERED = new Set(["$gt", "$gte", "$lt", "$lte"]);
const TEXTUAL = new Set(["$regex", "$prefix", "$suffix"]);

/** The subject of a condition: its field in words, the value, and the fields that are there. */
interface Subject {
  field: string;
  value: unknown;
  among: () => Iterable<string>;
}
const NO_FIELD = { field: "", among: () => [] };

/** A type as a noun in the plural. */
const PLURAL: Record<SeenType, string> = {
  text: "text",
  number: "numbers",
  "true or false": "true or false",
  null: "null",
  list: "lists",
  object: "objects",
};

/** Returns the reason that an operator can never hold for a value of this type; undefined if it can. */
function neverHolds(operator: string, operand: unknown, type: SeenType): string | undefined {
  if (ORDERED.has(operator) && type !== typeOf(operand))
    return `${operator} with a ${typeOf(operand)} never holds for ${PLURAL[type]}`;
  if (TEXTUAL.has(operator) && type !== "text")
    return `${operator} holds for text alone, never for ${PLURAL[type]}`;
  if (operator === "$contains") {
    if (type !== "text") return `$contains holds for text and lists, never for ${PLURAL[type]}`;
    return typeof operand === "string"
      ? undefined
      : `$contains with a ${typeOf(operand)} never holds for text`;
  }
  if (operator === "$eq" && type !== typeOf(operand))
    return `it never equals ${describeValue(operand)}`;
  if (operator === "$in" && !(operand as unknown[]).some((one) => typeOf(one) === type))
    return `it is of another type than ${renderOperand(operator, operand)}`;
  return undefined;
}

const renderOperand = (operator: string, operand: unknown): string => {
  if (operator === "$regex") return `/${String(operand)}/`;
  if (operator !== "$in" || !Array.isArray(operand)) return renderJson(operand);
  const shown = operand.slice(0, 5).map((one) => renderJson(one, 40));
  return `${shown.join(", ")}${operand.length > shown.length ? `, … (${operand.length} values)` : ""}`;
};

/** Says of an operator that is no opposite whether it holds for a value that is there, and why. */
function explainPresent(
  operator: string,
  operand: unknown,
  { field, value }: Subject,
  holds: boolean,
): string {
  const [yes, no] = VERBS[operator] as readonly [string, string];
  const wanted = renderOperand(operator, operand);
  if (Array.isArray(value) && operator === "$contains")
    return `${field}, a list of ${value.length}, ${holds ? yes : no} ${wanted}`;
  if (Array.isArray(value)) {
    if (holds) return `an element of ${field} ${yes} ${wanted}`;
    if (value.length === 0) return `${field} is an empty list, so no element ${yes} ${wanted}`;
    const [type, ...others] = new Set(value.map(typeOf));
    const never =
      others.length === 0 && neverHolds(operator, operand, type as SeenType) !== undefined;
    return `no element of ${field} ${yes} ${wanted}${never ? `: all are ${PLURAL[type as SeenType]}` : ""}`;
  }
  const seen = `${field} is ${describeValue(value)}`;
  if (holds) return operator === "$eq" ? seen : `${seen}, which ${yes} ${wanted}`;
  const never = neverHolds(operator, operand, typeOf(value));
  return never === undefined ? `${seen}, which ${no} ${wanted}` : `${seen}; ${never}`;
}

function explainLeaf(operator: string, operand: unknown, subject: Subject, result: Truth): string {
  const { field, value } = subject;
  if (operator === "$exists") return `${field} is ${value === undefined ? "missing" : "there"}`;
  if (value === undefined) return `${field} is missing: ${operator} on a missing field is unknown`;
  const opposite = OPPOSITE[operator];
  return opposite === undefined
    ? explainPresent(operator, operand, subject, result === true)
    : explainPresent(opposite, operand, subject, result === false);
}

/** Says of a group how many of its conditions hold. */
function explainGroup(group: keyof typeof GROUPS, children: readonly ConditionTrace[]): string {
  if (group === "$not") {
    const { result } = children[0] as ConditionTrace;
    if (result === "unknown") return "the condition inside is unknown, and so is its opposite";
    return result
      ? "the condition inside holds, and must not"
      : "the condition inside does not hold, as wanted";
  }
  const count = (truth: Truth): number => children.filter(({ result }) => result === truth).length;
  const unknown = count("unknown");
  const states = [
    `${count(true)} of ${children.length} true`,
    ...(unknown > 0 ? [`${unknown} unknown`] : []),
  ];
  return `${states.join(", ")}; ${group === "$or" ? "one must be" : "all must be"}`;
}

/** Traces a check of a value. `about`: the field that the value is of. */
function traceCheck<T>(
  check: ConditionCheck<T>,
  value: T,
  condition: string,
  about: Omit<Subject, "value"> = NO_FIELD,
): ConditionTrace {
  if ("field" in check) {
    const { field, condition: inner } = check;
    return traceCheck(inner, field.read(value), condition, {
      field: field.name(value),
      among: () => field.among(value),
    });
  }
  const result = check.test(value);
  if ("group" in check) {
    const children = check.parts.map(([at, part]) =>
      traceCheck(part, value, `${condition}${at}`, about),
    );
    const reason = explainGroup(check.group, children);
    return { condition, wants: check.group, result, reason, children };
  }
  const { operator, operand } = check;
  const { field, among } = about;
  return {
    condition,
    field,
    wants: `${operator} ${renderOperand(operator, operand)}`,
    saw: see(value, field, among),
    result,
    reason: explainLeaf(operator, operand, { ...about, value }, result),
  };
}

/** Items of a list for which rendered fields are shown. */
const MAX_ITEMS = 20;

export const isOnPath = ({ match }: CompiledMapping, { path }: MappingInput): boolean =>
  match.paths?.includes(path) ?? true;

/** Explains what `when` gave. */
async function traceWhen(
  source: string,
  { match }: CompiledMapping,
  scope: TemplateContext,
): Promise<ConditionTrace> {
  const result = await match.when?.evaluate(scope);
  const trace = { condition: "match.when", wants: source };
  if (!result?.ok) return { ...trace, result: "unknown", reason: result?.message ?? "" };
  const { value } = result;
  const saw = see(value, "match.when", () => []);
  if (typeof value === "boolean")
    return { ...trace, saw, result: value, reason: `the expression gave ${value}` };
  const given = value === undefined ? "nothing" : describeValue(value);
  return {
    ...trace,
    saw,
    result: "unknown",
    reason: `the expression gave ${given}; only true and false decide`,
  };
}

function tracePath(mapping: CompiledMapping, input: MappingInput): ConditionTrace {
  const { paths } = mapping.match;
  const result = isOnPath(mapping, input);
  const wanted = paths === undefined ? "any path" : paths.join(", ");
  return {
    condition: "match.path",
    field: "the path",
    wants: wanted,
    result,
    reason: `the hook came to ${input.path}`,
  };
}

/** Explains every condition of a mapping. */
async function traceConditions(
  mapping: CompiledMapping,
  input: MappingInput,
  scope: TemplateContext,
): Promise<ConditionTrace[]> {
  const { when } = mapping.config.match;
  const traces = [
    tracePath(mapping, input),
    ...mapping.match.checks.map(([at, check]) => traceCheck(check, scope, at)),
  ];
  if (when !== undefined) traces.push(await traceWhen(when, mapping, scope));
  if (!mapping.config.enabled)
    traces.push({
      condition: "enabled",
      wants: "true",
      result: false,
      reason: "the mapping is not enabled",
    });
  return traces;
}

/** Renders the fields of a mapping piece by piece. */
async function traceTemplates(
  mapping: CompiledMapping,
  scope: TemplateContext,
): Promise<FieldTrace[]> {
  const named: { field: string; template: Template | undefined }[] = [
    ...mapping.fields,
    {
      field: mapping.config.action === "wake" ? "textTemplate" : "messageTemplate",
      template: mapping.content,
    },
    { field: "dedupeKey", template: mapping.dedupeKey },
    { field: "coalesce.key", template: mapping.coalesceKey },
  ];
  const traces: FieldTrace[] = [];
  for (const { field, template } of named) {
    if (!template) continue;
    const rendered = await template.render(scope);
    const item = scope.index === undefined ? {} : { item: scope.index };
    traces.push(
      rendered.ok
        ? { field, ...item, pieces: rendered.pieces }
        : { field, ...item, pieces: [], failure: rendered.message },
    );
  }
  return traces;
}

async function traceFieldsOf(
  mapping: CompiledMapping,
  given: TemplateContext,
): Promise<FieldTrace[]> {
  const scope = mapping.coalesceKey ? withEvents(given, [given.payload]) : given;
  if (!mapping.forEach) return traceTemplates(mapping, scope);
  const list = await mapping.forEach.evaluate(scope);
  if (!list.ok) return [{ field: "forEach", pieces: [], failure: list.message }];
  const items = list.value === undefined || list.value === null ? [] : [list.value].flat();
  const traces = await Promise.all(
    items
      .slice(0, MAX_ITEMS)
      .map((item, index) => traceTemplates(mapping, { ...scope, item, index })),
  );
  return traces.flat();
}

/** The state of the search before a mapping: which one ended it, and whether none has matched. */
interface Before {
  end: { by: string } | undefined;
  first: boolean;
}

function getVerdict(
  { config }: CompiledMapping,
  conditions: readonly ConditionTrace[],
  { end, first }: Before,
  isShadow: boolean,
): MappingVerdict {
  if (!config.enabled) return "disabled";
  const [failed, ...others] = conditions.filter(({ result }) => result !== true);
  if (failed?.condition === "match.when" && failed.saw === undefined && others.length === 0)
    return "failed";
  if (failed) return [failed, ...others].some(({ result }) => result === false) ? "no" : "unknown";
  if (end) return "hidden";
  if (isShadow) return "shadow";
  return first ? "first" : "also";
}

async function traceMapping(
  mapping: CompiledMapping,
  input: MappingInput,
  scope: TemplateContext,
  before: Before,
): Promise<MappingTrace> {
  const { origin, at, id, enabled } = mapping.info;
  const conditions = await traceConditions(mapping, input, scope);
  const isShadow = isInShadow(mapping, input);
  const isAsked = enabled && !isShadow && before.first && !before.end;
  const echo = isAsked && isOnPath(mapping, input) ? findLoop(mapping, scope) : undefined;
  const verdict = echo === undefined ? getVerdict(mapping, conditions, before, isShadow) : "first";
  if (echo !== undefined) conditions.push({ condition: "ignoreSelf", result: false, reason: echo });
  const matched = conditions.every(({ result }) => result === true);
  return {
    mapping: id,
    origin,
    at,
    verdict,
    matched,
    conditions,
    ...(verdict === "hidden" && before.end),
    ...(matched && verdict !== "hidden" && { fields: await traceFieldsOf(mapping, scope) }),
  };
}

/** Explains what each mapping makes of an event, in the order in which they are tried. Runs no transform. */
export async function traceMappings(
  mappings: readonly CompiledMapping[],
  input: MappingInput,
  scope: TemplateContext,
): Promise<MappingTrace[]> {
  const traces: MappingTrace[] = [];
  const before: Before = { end: undefined, first: true };
  for (const mapping of mappings) {
    const trace = await traceMapping(mapping, input, scope, before);
    traces.push(trace);
    const isDecided = ["first", "also", "failed"].includes(trace.verdict);
    if (before.end || !isDecided || isInShadow(mapping, input)) continue;
    before.first = false;
    if (!mapping.config.continue || trace.verdict === "failed" || !trace.matched)
      before.end = { by: trace.mapping };
  }
  return traces;
}
