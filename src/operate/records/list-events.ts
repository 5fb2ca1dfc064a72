import type { EventRecord, Lists } from "../../store/types.ts";
import { byId, given, searchPage, type PageQuery } from "./operation.ts";
import type { AdminDeps } from "../types.ts";
import { eventView, iso, type EventView } from "./views.ts";
import { readRecordedHook } from "../../intake/replay.ts";
import {
  parsePath,
  readForCondition,
  renderValue,
  type Path,
} from "../../mapping/template-context.ts";

/** The conditions of a search: an event has to meet all of them. */
interface EventSearch {
  /** The part that the store can be asked for, which has an index of ids and outcomes. */
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

/** Returns whether a text is of a pattern, in time that grows with the text alone. */
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
function parseSearch(text: string): EventSearch {
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

/** Returns whether an event is one that a search asks for. A body that is no longer kept, or cannot be read, has no fields and no words. */
async function matchesSearch(
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

export type EventsQuery = PageQuery<Omit<Lists["events"]["of"], "failedRuns">> & {
  /** Those with a run that failed. */
  failed?: boolean | undefined;
  /** Words and `field:value`, as `parseSearch` reads them. */
  search?: string | undefined;
};

/** The most that one search may look at: someone waits for the answer, and hooks come in meanwhile. */
export interface SearchBounds {
  ms: number;
  events: number;
  /** Of bodies. */
  bytes: number;
}

const BOUNDS: SearchBounds = { ms: 400, events: 5_000, bytes: 64 * 2 ** 20 };
/** The events of one read: few at first, since each may have a body of megabytes. */
const FIRST_BATCH = 16;
const MAX_BATCH = 200;
const BATCH_BYTES = 4 * 2 ** 20;

const bytesOf = ({ request: { body } }: EventRecord): number => body?.byteLength ?? 0;

/**
 * Looks for events batch by batch, until the page is full or the bounds are reached: then `searchedTo` is the time up to which it
 * looked. `looked` is the number of events.
 */
async function searchEvents(
  { store }: Pick<AdminDeps, "store">,
  query: PageQuery<Lists["events"]["of"]>,
  search: EventSearch,
  bounds: SearchBounds,
) {
  const { limit, ...filters } = { ...search.stored, ...given(query) };
  const deadline = performance.now() + bounds.ms;
  const events: EventView[] = [];
  let { before } = query;
  let size = Math.min(FIRST_BATCH, bounds.events);
  for (let looked = 0, bytes = 0; ;) {
    const batch = await searchPage(store, "events", { ...filters, before, limit: size }, byId);
    let batchBytes = 0;
    for (const [index, event] of batch.rows.entries()) {
      looked++;
      batchBytes += bytesOf(event);
      if (await matchesSearch(event, search)) events.push(eventView(event));
      const isLast = index === batch.rows.length - 1 && batch.next === null;
      if (events.length === limit && !isLast)
        return { events, next: event.id, searchedTo: null, looked };
    }
    if (batch.next === null) return { events, next: null, searchedTo: null, looked };
    bytes += batchBytes;
    before = batch.next;
    if (looked >= bounds.events || bytes >= bounds.bytes || performance.now() >= deadline) {
      const last = batch.rows.at(-1);
      return {
        events,
        next: before,
        searchedTo: batch.searchedTo ?? (last ? iso(last.receivedAt) : null),
        looked,
      };
    }
    const average = Math.max(1, batchBytes / Math.max(1, batch.rows.length));
    size = Math.max(
      1,
      Math.min(MAX_BATCH, size * 4, Math.floor(BATCH_BYTES / average), bounds.events - looked),
    );
  }
}

/** Lists events, newest first. */
export async function listEvents(
  deps: Pick<AdminDeps, "store">,
  query: EventsQuery,
  bounds: SearchBounds = BOUNDS,
) {
  const { failed, search, ...filters } = query;
  const stored = { ...filters, ...(failed ? { failedRuns: true } : {}) };
  if (search !== undefined) return searchEvents(deps, stored, parseSearch(search), bounds);
  const { rows, ...page } = await searchPage(deps.store, "events", stored, byId);
  return { events: rows.map((event) => eventView(event)), ...page, looked: null };
}
