import { isNested } from "../../exact-json.ts";
import { MAX_READ, readBody } from "./body.ts";
import type { EventInFull } from "./types.ts";

export interface Difference {
  field: string;
  /** Undefined if this event does not have the field. */
  here: string | undefined;
  there: string | undefined;
}

/** So many fields of one event are compared. */
const MAX_FIELDS = 20_000;
const MAX_DEPTH = 60;

const render = (value: unknown): string =>
  typeof value === "string" ? JSON.stringify(value) : String(value);

function flatten(value: unknown, path: string, into: Map<string, string>, depth = 0): void {
  if (into.size >= MAX_FIELDS) return;
  if (!isNested(value) || depth > MAX_DEPTH) {
    into.set(path, depth > MAX_DEPTH ? "nested deeper than is compared" : render(value));
    return;
  }
  const members = Array.isArray(value)
    ? value.map((one, index) => [`${path}[${index}]`, one] as const)
    : Object.entries(value).map(([key, one]) => [`${path}.${key}`, one] as const);
  if (members.length === 0) into.set(path, Array.isArray(value) ? "[]" : "{}");
  for (const [name, one] of members) flatten(one, name, into, depth + 1);
}

function flattenBody(
  { body, encoding, contentType }: EventInFull["request"],
  into: Map<string, string>,
): void {
  if (body === null) return void into.set("body", "no longer kept");
  if (encoding === "base64" || body.length > 4 * MAX_READ)
    return void into.set("body", encoding === "base64" ? body : render(body));
  const read = readBody(body, contentType);
  if (read.kind === "json") return flatten(read.value, "body", into);
  if (read.kind === "text" || read.kind === "xml") {
    for (const [index, line] of read.text.split("\n").slice(0, MAX_FIELDS).entries())
      into.set(`body, line ${index + 1}`, line);
    return;
  }
  const pairs =
    read.kind === "form" ? read.fields : [...read.headers, ["text", read.text] as const];
  for (const [name, value] of pairs) into.set(`body.${name}`, render(value));
}

function fieldsOf(event: EventInFull): Map<string, string> {
  const into = new Map<string, string>();
  const { outcome, reason, mapping, path, credential, request } = event;
  for (const [name, value] of Object.entries({
    outcome,
    reason,
    mapping,
    path,
    credential,
    method: request.method,
    contentType: request.contentType,
  }))
    if (value !== null) into.set(name, value);
  for (const [name, value] of Object.entries(request.headers)) into.set(`header ${name}`, value);
  for (const [name, value] of Object.entries(request.query))
    into.set(`query ${name}`, [value].flat().join(", "));
  flattenBody(request, into);
  return into;
}

/** Compares two events field by field: those that differ, and how many are the same. */
export function compareEvents(
  here: EventInFull,
  there: EventInFull,
): { differences: Difference[]; same: number } {
  const [left, right] = [fieldsOf(here), fieldsOf(there)];
  const names = [...left.keys(), ...[...right.keys()].filter((name) => !left.has(name))];
  const differences = names
    .map((field) => ({ field, here: left.get(field), there: right.get(field) }))
    .filter((one) => one.here !== one.there);
  return { differences, same: names.length - differences.length };
}
