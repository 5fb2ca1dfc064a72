import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ask, AskError, signedOut } from "./api.ts";
import { returns, type Resource } from "./resource.ts";

/** A page of a list as the admin API answers it. */
interface Answer<T> {
  rows: T[];
  /** The `before` of the next page; null on the last one. */
  next: string | null;
  /** Set if a search ended before the page was full: how far back it looked. */
  searchedTo: string | null;
  /** The number of rows that the searches of the list have looked at so far; 0 if there was none. */
  looked: number;
}

/** The rows of a list so far, newest first. */
export interface Paged<T> extends Answer<T> {
  resource: Resource<T[]>;
  /** The rows so far with those that `matches` leaves out. */
  all: T[];
  /** True while older rows are on their way. */
  busy: boolean;
  rowId(row: T): string;
  /** Loads the page after those that are there. */
  more(): void;
}

export interface PagedOptions<T> {
  /** The name of the rows in the answer, such as `runs`. */
  member: string;
  rowId(row: T): string;
  /** The parameter that names the row before a page. Default: `before`. */
  cursor?: string;
  /** The `next` of an answer that has none. */
  getNext?(answer: Readonly<Record<string, unknown>>): string | null;
  /** Rows that are shown; while there are few of them, older pages are loaded, up to `DEEPEST`. */
  matches?: ((row: T) => boolean) | undefined;
}

const PAGE = 100;
const REFRESH_MS = 5000;
const SIGN_OF_LOADING_MS = 150;
/** Pages of newer rows that one refresh reads; with more, the list begins again with the newest. */
const MAX_REFRESH = 10;
/** With a search in the page: so many rows are enough, and so many pages are looked at before a button asks for more. */
const ENOUGH = 20;
const DEEPEST = 10;

/** A search for a whole id, such as `run_…`: its index has the row, however old it is. */
export const searchById = (kind: string, text: string): { idPrefix?: string } =>
  new RegExp(`^${kind}_[0-9a-v]{35}$`).test(text) ? { idPrefix: text } : {};

/** The query string of a list, without empty values. */
const toQuery = (query: Readonly<Record<string, string | undefined>>): string =>
  new URLSearchParams(
    Object.entries(query).filter((pair): pair is [string, string] => Boolean(pair[1])),
  ).toString();

interface Loaded<T> extends Answer<T> {
  address: string;
  pages: number;
  /** A search ended early on a page before the last one. */
  endedEarly: boolean;
}

type Read<T> = (before: string | null, signal: AbortSignal) => Promise<Answer<T>>;

/**
 * Reads the newest rows until they meet those that are there, so that nothing between them is left out. Rows that have left
 * what was read again are gone.
 */
async function refresh<T>(
  before: Loaded<T>,
  read: Read<T>,
  rowId: (row: T) => string,
  signal: AbortSignal,
): Promise<Loaded<T>> {
  const known = new Map(before.rows.map((row, index) => [rowId(row), index]));
  const rows: T[] = [];
  let page: Answer<T> | undefined;
  let looked = 0;
  let pages = 0;
  do {
    page = await read(page?.next ?? null, signal);
    rows.push(...page.rows);
    looked += page.looked;
    pages++;
    const last = page.rows.at(-1);
    const at = last === undefined ? undefined : known.get(rowId(last));
    if (page.next !== null && at !== undefined && at < before.rows.length - 1) {
      const seen = new Set(rows.map(rowId));
      const older = before.rows.slice(at + 1).filter((row) => !seen.has(rowId(row)));
      return { ...before, rows: [...rows, ...older] };
    }
    if (page.rows.some((row) => known.has(rowId(row)))) break;
    // A search that ended early goes on as far as it went before.
  } while (
    page.next !== null &&
    (page.searchedTo === null || pages < before.pages) &&
    pages < MAX_REFRESH
  );
  return { ...before, ...page, rows, looked, pages };
}

/** Runs one change of a list at a time; a newer list ends the change of the one before. */
function useOneAtATime<T>() {
  const [loaded, setLoaded] = useState<Loaded<T> | null>(null);
  const [error, setError] = useState<AskError>();
  const [loading, setLoading] = useState(false);
  const current = useRef<Loaded<T> | null>(null);
  const work = useRef<AbortController | null>(null);
  const run = useCallback(async (make: (signal: AbortSignal) => Promise<Loaded<T>>) => {
    const abort = new AbortController();
    work.current?.abort();
    work.current = abort;
    const sign = setTimeout(() => setLoading(true), SIGN_OF_LOADING_MS);
    try {
      const next = await make(abort.signal);
      if (abort.signal.aborted) return;
      current.current = next;
      setLoaded(next);
      setError(undefined);
    } catch (failure) {
      if (!abort.signal.aborted)
        setError(failure instanceof AskError ? failure : new AskError("unknown", String(failure)));
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

/** A list of the admin API, page by page: newer rows are looked for every five seconds, older ones are loaded when they are asked for. */
export function usePaged<T>(
  path: string,
  query: Readonly<Record<string, string | undefined>>,
  { member, rowId, cursor = "before", getNext, matches }: PagedOptions<T>,
): Paged<T> {
  const address = `${path}?${toQuery({ limit: String(PAGE), ...query })}`;
  const { loaded, error, loading, current, work, run } = useOneAtATime<T>();
  const [busy, setBusy] = useState(false);
  const read = useCallback<Read<T>>(
    async (before, signal) => {
      const at = before === null ? address : `${address}&${cursor}=${encodeURIComponent(before)}`;
      const answer = await ask<Record<string, unknown>>(at, { signal });
      return {
        rows: answer[member] as T[],
        next: getNext ? getNext(answer) : (answer["next"] as string | null),
        searchedTo: (answer["searchedTo"] as string | null | undefined) ?? null,
        looked: (answer["looked"] as number | undefined) ?? 0,
      };
    },
    [address, member],
  );
  /** Reads the list from its begin: the first time, and again to see what has changed. */
  const reload = useCallback((): void => {
    const list = current.current;
    void run(async (signal) =>
      list?.address === address
        ? refresh(list, read, rowId, signal)
        : { ...(await read(null, signal)), address, pages: 1, endedEarly: false },
    );
  }, [address, read, run]);
  useEffect(() => {
    reload();
    const timer = setInterval(() => {
      if (document.hidden || signedOut.value || work.current) return;
      // A search that ended early, or went on after that, looks at much: it is not repeated without being asked.
      const list = current.current;
      if (!list?.searchedTo && !list?.endedEarly) reload();
    }, REFRESH_MS);
    const stop = returns.subscribe(() => {
      if (current.current === null && !work.current) reload();
    });
    return () => {
      clearInterval(timer);
      stop();
      work.current?.abort();
    };
  }, [reload]);
  const more = useCallback((): void => {
    const list = current.current;
    if (list?.address !== address || list.next === null || busy) return;
    setBusy(true);
    const loading = run(async (signal) => {
      const older = await read(list.next, signal);
      return {
        ...older,
        address,
        rows: [...list.rows, ...older.rows],
        looked: list.looked + older.looked,
        pages: list.pages + 1,
        endedEarly: list.endedEarly || list.searchedTo !== null,
      };
    });
    void loading.finally(() => setBusy(false));
  }, [address, read, run, busy]);
  const shown = loaded?.address === address ? loaded : null;
  const all = shown?.rows ?? [];
  const rows = matches ? all.filter(matches) : all;
  const looksFurther =
    matches !== undefined &&
    rows.length < ENOUGH &&
    (shown?.pages ?? DEEPEST) < DEEPEST &&
    error === undefined;
  useEffect(() => {
    if (looksFurther) more();
  }, [looksFurther, more]);
  return {
    rows,
    all,
    next: shown?.next ?? null,
    searchedTo: shown?.searchedTo ?? null,
    looked: shown?.looked ?? 0,
    resource: { data: shown ? rows : undefined, error, loading, reload },
    busy,
    rowId,
    more,
  };
}
