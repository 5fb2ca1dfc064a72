import type { NamedMapping } from "../../mapping/source.ts";
import { parsePath, TEMPLATE_ROOTS } from "../../mapping/template-context.ts";

/** A field of the payload that a mapping reads. */
export interface FieldRead {
  /** A dotted path without positions: `labels.name`. */
  field: string;
  /** The key of the mapping that reads it: `match.payload.labels.name`, `messageTemplate`. */
  at: string;
  /** The condition on it; undefined if a template renders it. */
  condition?: unknown;
}

/** A path of the payload as a field; undefined if it is no plain path, or leads elsewhere. */
function toField(text: string, isCondition: boolean): string | undefined {
  const [first, ...names] = (parsePath(text) ?? []).filter((step) => typeof step === "string");
  if (first === undefined) return undefined;
  if (isCondition) return [first, ...names].join(".");
  if (first === "payload") return names.length === 0 ? undefined : names.join(".");
  return TEMPLATE_ROOTS.has(first) ? undefined : [first, ...names].join(".");
}

function readConditions(conditions: object, at: string): FieldRead[] {
  return Object.entries(conditions).flatMap(([name, condition]): FieldRead[] => {
    const here = `${at}.${name}`;
    if (!name.startsWith("$")) {
      const field = toField(name, true);
      return field === undefined ? [] : [{ field, at: here, condition: condition as unknown }];
    }
    const inner = [condition as unknown]
      .flat()
      .filter((one) => typeof one === "object" && one !== null);
    return inner.flatMap((one, index) =>
      readConditions(one, Array.isArray(condition) ? `${here}[${index}]` : here),
    );
  });
}

/** The fields that the conditions of a mapping read. */
export function getConditionReads({ match }: NamedMapping): FieldRead[] {
  const source =
    match.source === undefined
      ? []
      : [{ field: "source", at: "match.source", condition: match.source }];
  return [...source, ...readConditions(match.payload ?? {}, "match.payload")];
}

const TEMPLATES = [
  "messageTemplate",
  "textTemplate",
  "event",
  "name",
  "agentId",
  "sessionKey",
  "channel",
  "to",
  "model",
  "thinking",
  "dedupeKey",
] as const;
const EXPRESSION = /\{\{(.*?)\}\}/gs;

/** The templates of a mapping with their places. */
function getTemplates(config: NamedMapping): { at: string; text: string }[] {
  const templates = TEMPLATES.flatMap((at) => {
    const text = config[at];
    if (Array.isArray(text))
      return text.map((line, index) => ({ at: `${at}[${index}]`, text: line }));
    return text === undefined ? [] : [{ at, text }];
  });
  return config.coalesce
    ? [...templates, { at: "coalesce.key", text: config.coalesce.key }]
    : templates;
}

/** The fields that the templates of a mapping render unchanged. Expressions that are more than a path are left out. */
export function getRenderedReads(config: NamedMapping): FieldRead[] {
  return getTemplates(config).flatMap(({ at, text }) =>
    [...text.matchAll(EXPRESSION)].flatMap(([, expression = ""]) => {
      const field = toField(expression, false);
      return field === undefined ? [] : [{ field, at }];
    }),
  );
}

const TEXTS = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g;
const PATHS = /[A-Za-z_][\w-]*(?:\[-?\d+\])*(?:\.[A-Za-z_][\w-]*(?:\[-?\d+\])*)*/g;

/** All fields that a mapping reads: by conditions, templates, and as far as it can be seen expressions. */
export function getReadFields(config: NamedMapping): Set<string> {
  const { match, forEach, transform } = config;
  const whole = [
    match.when,
    forEach,
    transform && "jsonata" in transform ? transform.jsonata : undefined,
  ];
  const expressions = [
    ...whole.flatMap((text) => text ?? []),
    ...getTemplates(config).flatMap(({ text }) =>
      [...text.matchAll(EXPRESSION)].map(([, expression = ""]) => expression),
    ),
  ];
  const paths = expressions.flatMap((text) => text.replaceAll(TEXTS, " ").match(PATHS) ?? []);
  const fields = paths.flatMap((path) => toField(path, false) ?? []);
  return new Set([...getConditionReads(config).map(({ field }) => field), ...fields]);
}
