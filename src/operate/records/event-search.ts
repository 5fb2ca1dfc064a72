import { readRecordedHook } from "../../intake/replay.ts";
import {
  parsePath,
  readForCondition,
  renderValue,
  type Path,
} from "../../mapping/template-context.ts";
import type { EventRecord, Lists } from "../../store/types.ts";

/** What a search asks of an event: all of it has to hold. */
export interface EventSearch {
  /** What of it the store can be asked for, which has an index of ids and outcomes. */
  stored: Pick<Lists["events"]["of"], "idPrefix" | Recorded>;
  /** Texts of the id, the path, the mapping, the reason or the body, in lower case. */
  texts: readonly string[];
  /** Fields of the record. */
  recorded: readonly { name: Recorded; value: Pattern | null }[];
  /** Fields of the body. An empty value asks only whether the field is there. */
  fields: readonly { path: Path; value: Pattern | null }[];
}

/** A value in lower case, cut at each `*`: what lies between may be anything. */
type Pattern = readonly string[];

const RECORDED = ["path", "mapping", "outcome"] as const;
type Recorded = (typeof RECORDED)[number];

const OWN_ID = /^evt_[0-9a-v]{35}$/;
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
 * value, `*` stands for any characters. `path`, `mapping` and `outcome` are those of the event, and `payload.path` is the body's.
 * A word in quotation marks is never a field.
 */
export function parseSearch(text: string): EventSearch {
  const stored: EventSearch["stored"] = {};
  const texts: string[] = [];
  const recorded: EventSearch["recorded"][number][] = [];
  const fields: EventSearch["fields"][number][] = [];
  for (const [term] of text.matchAll(TERM)) {
    const colon = term.indexOf(":");
    const value = term.slice(colon + 1);
    const path = colon > 0 && !value.startsWith("//") ? parsePath(term.slice(0, colon)) : undefined;
    if (!path) {
      if (OWN_ID.test(term)) stored.idPrefix = term;
      texts.push(unquote(term).toLowerCase());
      continue;
    }
    const exact = unquote(value);
    const pattern = exact === "" ? null : exact.toLowerCase().split("*");
    const name = RECORDED.find((one) => one === term.slice(0, colon));
    if (!name) fields.push({ path, value: pattern });
    else {
      recorded.push({ name, value: pattern });
      if (pattern?.length === 1) Object.assign(stored, { [name]: exact });
    }
  }
  return { stored, texts, recorded, fields };
}

function holdsValue(found: unknown, value: Pattern | null): boolean {
  if (found === undefined) return false;
  if (value === null) return true;
  const values: unknown[] = Array.isArray(found) ? found : [found];
  return values.some((one) =>
    isLike((one === null ? "null" : renderValue(one)).toLowerCase(), value),
  );
}

/** Whether an event is one that a search asks for. A body that is no longer kept, or cannot be read, has no fields and no words. */
export async function matchesSearch(
  event: EventRecord,
  { texts, recorded, fields }: EventSearch,
): Promise<boolean> {
  if (!recorded.every(({ name, value }) => holdsValue(event[name], value))) return false;
  const { id, path, mapping = "", reason = "" } = event;
  const said = [id, path, mapping, reason].map((text) => text.toLowerCase());
  const unsaid = texts.filter((text) => !said.some((one) => one.includes(text)));
  if (unsaid.length === 0 && fields.length === 0) return true;
  const read = readRecordedHook(event, undefined);
  if (!read.ok) return false;
  const { payload } = read.input;
  const body = unsaid.length === 0 ? "" : renderValue(payload, payload).toLowerCase();
  const holds = (field: Path, value: Pattern | null): boolean =>
    holdsValue(readForCondition(field, payload), value);
  return (
    unsaid.every((text) => body.includes(text)) &&
    fields.every(
      ({ path: field, value }) =>
        holds(field, value) || (field[0] === "payload" && holds(field.slice(1), value)),
    )
  );
}
