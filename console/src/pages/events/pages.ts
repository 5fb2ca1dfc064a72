import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { AskError, ask, signedOut } from "../../api.ts";
import { returns } from "../../resource.ts";
import type { EventRow, EventsAnswer } from "./types.ts";

const PAGE = 100;
const REFRESH_MS = 5000;
const SIGN_OF_LOADING_MS = 150;
/** Pages of newer events that one refresh reads; with more, the list begins again with the newest. */
const MAX_REFRESH = 10;

interface Loaded {
  query: string;
  rows: readonly EventRow[];
  next: string | null;
  searchedTo: string | null;
  looked: number;
}

export interface EventPages {
  /** Undefined until the first page is there. */
  rows: readonly EventRow[] | undefined;
  /** Whether there are older ones. */
  hasMore: boolean;
  /** Set if a search ended early: the time up to which it looked. */
  searchedTo: string | null;
  /** How many events the searches of this list have looked at so far. */
  looked: number;
  error: AskError | undefined;
  loading: boolean;
  loadMore(): void;
  reload(): void;
}

const read = (query: string, before: string | null, signal: AbortSignal): Promise<EventsAnswer> =>
  ask<EventsAnswer>(
    `/events?${query}&limit=${PAGE}${before === null ? "" : `&before=${encodeURIComponent(before)}`}`,
    { signal },
  );

const toError = (error: unknown): AskError =>
  error instanceof AskError ? error : new AskError("unknown", String(error));

/** Joins what a refresh has read with the rows that were there: those behind its last row, or behind all of it. */
function join(fresh: readonly EventRow[], rows: readonly EventRow[]): EventRow[] {
  const last = fresh.at(-1);
  const at = rows.findIndex(({ id }) => id === last?.id);
  if (at !== -1) return [...fresh, ...rows.slice(at + 1)];
  const read = new Set(fresh.map(({ id }) => id));
  return [...fresh, ...rows.filter(({ id }) => !read.has(id))];
}

/** Reads the newest rows until they meet those that are there, so that nothing between them is left out. */
async function refresh(before: Loaded, signal: AbortSignal): Promise<Loaded> {
  const known = new Set(before.rows.map(({ id }) => id));
  const fresh: EventRow[] = [];
  let cursor: string | null = null;
  let looked = 0;
  for (let count = 0; count < MAX_REFRESH; count++) {
    const page: EventsAnswer = await read(before.query, cursor, signal);
    fresh.push(...page.events);
    looked += page.looked ?? 0;
    if (page.next === null) return { ...before, rows: fresh, next: null, searchedTo: null, looked };
    if (page.searchedTo !== null || known.has(page.events.at(-1)?.id ?? ""))
      return { ...before, rows: join(fresh, before.rows) };
    cursor = page.next;
  }
  return { ...before, rows: fresh, next: cursor, searchedTo: null, looked };
}

/** Runs one change of a list at a time; a newer list ends the change of the one before. */
function useOneAtATime() {
  const [loaded, setLoaded] = useState<Loaded | null>(null);
  const [error, setError] = useState<AskError>();
  const [loading, setLoading] = useState(false);
  const current = useRef<Loaded | null>(null);
  const work = useRef<AbortController | null>(null);
  const run = useCallback(async (make: (signal: AbortSignal) => Promise<Loaded>): Promise<void> => {
    const abort = new AbortController();
    work.current = abort;
    const sign = setTimeout(() => setLoading(true), SIGN_OF_LOADING_MS);
    try {
      const next = await make(abort.signal);
      if (abort.signal.aborted) return;
      current.current = next;
      setLoaded(next);
      setError(undefined);
    } catch (failure) {
      if (!abort.signal.aborted) setError(toError(failure));
    } finally {
      clearTimeout(sign);
      if (work.current === abort) {
        work.current = null;
        setLoading(false);
      }
    }
  }, []);
  return { loaded, error, loading, current, work, run };
}

/** Reads a list of events page by page, and looks for newer ones every five seconds. `query` has the filters, without limits. */
export function useEventPages(query: string): EventPages {
  const { loaded, error, loading, current, work, run } = useOneAtATime();
  const first = useCallback((): void => {
    work.current?.abort();
    void run(async (signal) => {
      const { events, next, searchedTo, looked } = await read(query, null, signal);
      return { query, rows: events, next, searchedTo, looked: looked ?? 0 };
    });
  }, [query, run]);
  useEffect(() => {
    first();
    return () => work.current?.abort();
  }, [first]);
  useEffect(() => {
    const timer = setInterval(() => {
      const list = current.current;
      // A search that ended early looks at much: it is not repeated without being asked.
      if (document.hidden || signedOut.value || work.current || list?.searchedTo) return;
      if (list?.query !== query) first();
      else void run((signal) => refresh(list, signal));
    }, REFRESH_MS);
    const stop = returns.subscribe(() => {
      if (current.current === null && !work.current) first();
    });
    return () => {
      clearInterval(timer);
      stop();
    };
  }, [query, first, run]);
  const loadMore = useCallback((): void => {
    const list = current.current;
    if (!list || list.query !== query || list.next === null || work.current) return;
    void run(async (signal) => {
      const { events, next, searchedTo, looked } = await read(query, list.next, signal);
      return {
        ...list,
        rows: [...list.rows, ...events],
        next,
        searchedTo,
        looked: list.looked + (looked ?? 0),
      };
    });
  }, [query, run]);
  const shown = loaded?.query === query ? loaded : null;
  return {
    rows: shown?.rows,
    hasMore: shown !== null && shown.next !== null,
    searchedTo: shown?.searchedTo ?? null,
    looked: shown?.looked ?? 0,
    error,
    loading,
    loadMore,
    reload: first,
  };
}
