import type { EventRecord, Lists } from "../../store/types.ts";
import type { Bookmarks } from "./bookmarks.ts";
import { matchesSearch, parseSearch, type EventSearch } from "./event-search.ts";
import { byId, given, searchPage, type PageQuery } from "./operation.ts";
import { runStatuses } from "./records.ts";
import type { AdminDeps } from "../types.ts";
import { eventView, iso, type EventView } from "./views.ts";

export type EventsQuery = PageQuery<Omit<Lists["events"]["of"], "failedRuns">> & {
  /** Those with a run that failed. */
  failed?: boolean | undefined;
  /** Those with a bookmark. */
  bookmarked?: boolean | undefined;
  /** Words and `field:value`, as `parseSearch` reads them. */
  search?: string | undefined;
};

export interface EventsPage {
  events: EventView[];
  /** The `before` of the next page; null if there is none. */
  next: string | null;
  /** Set if the search ended before the page was full: the time up to which it looked. */
  searchedTo: string | null;
  /** With `search`: how many events were looked at. */
  looked: number | null;
}

/** How much one search may look at: someone waits for the answer, and hooks come in meanwhile. */
export interface SearchBounds {
  ms: number;
  events: number;
  /** Of bodies. */
  bytes: number;
}

const BOUNDS: SearchBounds = { ms: 400, events: 5_000, bytes: 64 * 2 ** 20 };
/** How many events one read takes: few at first, since each may have a body of megabytes. */
const FIRST_BATCH = 16;
const MAX_BATCH = 200;
const BATCH_BYTES = 4 * 2 ** 20;

const bytesOf = ({ request: { body } }: EventRecord): number => body?.byteLength ?? 0;

/** Looks for events batch by batch, until the page is full or the bounds are reached. */
async function searchEvents(
  { store }: AdminDeps,
  query: PageQuery<Lists["events"]["of"]>,
  search: EventSearch,
  bounds: SearchBounds,
): Promise<EventsPage> {
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

/** Lists the events that have a bookmark. There are few: all filters are applied to each. */
async function listBookmarked(
  deps: AdminDeps & { bookmarks: Bookmarks },
  query: EventsQuery,
): Promise<EventsPage> {
  const {
    before,
    idPrefix = "",
    since = 0,
    outcome,
    path,
    mapping,
    failed,
    search = "",
    limit,
  } = query;
  const asked = parseSearch(search);
  const events: EventView[] = [];
  for (const { eventId } of await deps.bookmarks.list()) {
    if ((before !== undefined && eventId >= before) || !eventId.startsWith(idPrefix)) continue;
    const event = await deps.bookmarks.getEvent(eventId);
    const wanted = { outcome, path, mapping };
    if (!event || event.receivedAt < since || !(await matchesSearch(event, asked))) continue;
    if (
      Object.entries(wanted).some(
        ([name, value]) => value !== undefined && event[name as keyof typeof wanted] !== value,
      )
    )
      continue;
    const statuses = failed ? [...(await runStatuses(deps.store, event)).values()] : ["failed"];
    if (!statuses.some((status) => status === "failed" || status === "timed_out")) continue;
    if (events.length === limit)
      return { events, next: events.at(-1)?.id ?? null, searchedTo: null, looked: null };
    events.push(eventView(event));
  }
  return { events, next: null, searchedTo: null, looked: null };
}

/** Lists events, newest first. */
export async function listEvents(
  deps: AdminDeps,
  query: EventsQuery,
  bounds: SearchBounds = BOUNDS,
): Promise<EventsPage> {
  const { failed, bookmarked, search, ...filters } = query;
  if (bookmarked) return listBookmarked(deps, query);
  const stored = { ...filters, ...(failed ? { failedRuns: true } : {}) };
  if (search !== undefined) return searchEvents(deps, stored, parseSearch(search), bounds);
  const { rows, ...page } = await searchPage(deps.store, "events", stored, byId);
  return { events: rows.map((event) => eventView(event)), ...page, looked: null };
}
