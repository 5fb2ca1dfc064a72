import { isInShadow, type CompiledMapping } from "./compiled.ts";
import { traceFields, traceFlat, traceCondition } from "./condition-trace.ts";
import { findLoop } from "./match.ts";
import { describeValue, fieldPaths, see } from "./seen.ts";
import { ownMember, withEvents, type TemplateContext } from "./template-context.ts";
import type { Template } from "./template.ts";
import type { ConditionTrace, FieldTrace, MappingInput, MappingTrace } from "./types.ts";

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
  const { source, headers, query, payload, when } = mapping.config.match;
  const traces = [tracePath(mapping, input)];
  if (source !== undefined) {
    const value = ownMember(scope.payload, "source");
    traces.push(
      traceCondition(source, {
        field: "source",
        at: "match.source",
        value,
        among: () => fieldPaths(scope.payload),
      }),
    );
  }
  if (headers) traces.push(...traceFlat(headers, "match.headers", scope.headers, "header"));
  if (query) traces.push(...traceFlat(query, "match.query", scope.query, "query parameter"));
  if (payload) traces.push(...traceFields(payload, "match.payload", scope.payload));
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
    const pieces = await template.trace(scope);
    const item = scope.index === undefined ? {} : { item: scope.index };
    traces.push(
      pieces.ok
        ? { field, ...item, pieces: pieces.pieces }
        : { field, ...item, pieces: [], failure: pieces.message },
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

/** What ended the search for further mappings. */
type End = { by: string } | undefined;

async function traceMapping(
  mapping: CompiledMapping,
  input: MappingInput,
  scope: TemplateContext,
  before: { end: End; first: boolean },
) {
  const { id, enabled } = mapping.config;
  const conditions = await traceConditions(mapping, input, scope);
  const matched = conditions.every(({ result }) => result === true);
  const { origin, at } = mapping.info;
  const trace: MappingTrace = { mapping: id, origin, at, verdict: "no", matched, conditions };
  if (!enabled) return { ...trace, verdict: "disabled" as const };
  const isShadow = isInShadow(mapping, input);
  if (!before.end && before.first && !isShadow && conditions[0]?.result === true) {
    const echo = findLoop(mapping, scope);
    if (echo !== undefined) {
      const condition: ConditionTrace = { condition: "ignoreSelf", result: false, reason: echo };
      return {
        ...trace,
        verdict: "first" as const,
        matched: false,
        conditions: [...conditions, condition],
      };
    }
  }
  const when = conditions.find(({ condition }) => condition === "match.when");
  const others = conditions.filter((one) => one !== when);
  const hasFailed =
    when?.saw === undefined && when !== undefined && others.every(({ result }) => result === true);
  if (hasFailed) return { ...trace, verdict: "failed" as const };
  if (!matched)
    return {
      ...trace,
      verdict: conditions.some(({ result }) => result === false)
        ? ("no" as const)
        : ("unknown" as const),
    };
  if (before.end) return { ...trace, verdict: "hidden" as const, by: before.end.by };
  const reached = before.first ? ("first" as const) : ("also" as const);
  return {
    ...trace,
    verdict: isShadow ? ("shadow" as const) : reached,
    fields: await traceFieldsOf(mapping, scope),
  };
}

/** Explains what each mapping makes of an event, in the order in which they are tried. Runs no transform. */
export async function traceMappings(
  mappings: readonly CompiledMapping[],
  input: MappingInput,
  scope: TemplateContext,
): Promise<MappingTrace[]> {
  const traces: MappingTrace[] = [];
  let end: End;
  let first = true;
  for (const mapping of mappings) {
    const trace = await traceMapping(mapping, input, scope, { end, first });
    traces.push(trace);
    const isDecided = ["first", "also", "failed"].includes(trace.verdict);
    if (end || !isDecided || isInShadow(mapping, input)) continue;
    first = false;
    if (!mapping.config.continue || trace.verdict === "failed" || !trace.matched)
      end = { by: trace.mapping };
  }
  return traces;
}
