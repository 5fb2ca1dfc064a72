import { readRecordedHook } from "../intake/recorded-input.ts";
import {
  parsePath,
  readForCondition,
  renderValue,
  type Path,
} from "../mapping/template-context.ts";
import type { EventRecord } from "../store/types.ts";

/** What a search asks of an event: all of it has to hold. */
export interface EventSearch {
  /** Texts of the id, the path, the mapping or the reason, in lower case. */
  texts: readonly string[];
  /** Fields of the body. An empty value asks only whether the field is there. */
  fields: readonly { path: Path; value: Pattern | null }[];
}

/** A value in lower case, cut at each `*`: what lies between may be anything. */
type Pattern = readonly string[];

const TERM = /(?:[^\s"]|"[^"]*")+/g;
const unquote = (text: string): string => text.replaceAll('"', "");

/** Whether a text is of a pattern, in time that grows with the text alone. */
function isLike(text: string, [first = "", ...rest]: Pattern): boolean {
  const last = rest.pop();
  if (last === undefined) return text === first;
  if (!text.startsWith(first) || !text.endsWith(last) || text.length < first.length + last.length)
    return false;
  let at = first.length;
  const end = text.length - last.length;
  for (const part of rest) {
    const found = text.indexOf(part, at);
    if (found === -1 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}

/**
 * Reads a search: words, `field:value` with a field of the body as templates write it, and quotation marks around spaces. In a
 * value, `*` stands for any characters.
 * A word in quotation marks is never a field.
 */
export function parseSearch(text: string): EventSearch {
  const texts: string[] = [];
  const fields: EventSearch["fields"][number][] = [];
  for (const [term] of text.matchAll(TERM)) {
    const colon = term.indexOf(":");
    const value = term.slice(colon + 1);
    const path = colon > 0 && !value.startsWith("//") ? parsePath(term.slice(0, colon)) : undefined;
    if (path)
      fields.push({ path, value: value === "" ? null : unquote(value).toLowerCase().split("*") });
    else texts.push(unquote(term).toLowerCase());
  }
  return { texts, fields };
}

function holdsValue(found: unknown, value: Pattern | null): boolean {
  if (found === undefined) return false;
  if (value === null) return true;
  const values: unknown[] = Array.isArray(found) ? found : [found];
  return values.some((one) =>
    isLike((one === null ? "null" : renderValue(one)).toLowerCase(), value),
  );
}

/** Whether an event is one that a search asks for. A body that is no longer kept, or cannot be read, has no fields. */
export async function matchesSearch(
  event: EventRecord,
  { texts, fields }: EventSearch,
): Promise<boolean> {
  const { id, path, mapping = "", reason = "" } = event;
  const said = [id, path, mapping, reason].map((text) => text.toLowerCase());
  if (!texts.every((text) => said.some((one) => one.includes(text)))) return false;
  if (fields.length === 0) return true;
  const read = readRecordedHook(event, undefined);
  return (
    read.ok &&
    fields.every(({ path: field, value }) =>
      holdsValue(readForCondition(field, read.input.payload), value),
    )
  );
}
