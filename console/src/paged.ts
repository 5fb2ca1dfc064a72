import { useCallback, useEffect, useState } from "preact/hooks";
import { ask, AskError } from "./api.ts";
import { useResource, type Resource } from "./resource.ts";

/** A page of a list as the admin API answers it. */
interface Answer<T> {
  rows: T[];
  /** The `before` of the next page; null on the last one. */
  next: string | null;
  /** Set if a search ended before the page was full: how far back it looked. */
  searchedTo: string | null;
}

/** The rows of a list so far, newest first. */
export interface Paged<T> extends Answer<T> {
  resource: Resource<T[]>;
  /** The rows so far with those that `matches` leaves out. */
  looked: T[];
  /** Whether older rows are on their way. */
  busy: boolean;
  /** Loads the page after those that are there. */
  more(): void;
}

export interface PagedOptions<T> {
  /** The name of the rows in the answer, such as `runs`. */
  member: string;
  rowId(row: T): string;
  /** Rows that are shown; while there are few of them, older pages are loaded, up to `DEEPEST`. */
  matches?: ((row: T) => boolean) | undefined;
}

const PAGE = 100;
/** With a search in the page: so many rows are enough, and so many pages are looked at before a button asks for more. */
const ENOUGH = 20;
const DEEPEST = 10;

/**
 * The first page as it is now, with the older rows that were loaded before: those that have left the first page are gone,
 * and nothing is missing between the two.
 */
function joinFirst<T>(first: Answer<T>, before: Answer<T>, rowId: (row: T) => string): Answer<T> {
  const last = first.rows.at(-1);
  const at = last === undefined ? -1 : before.rows.findIndex((row) => rowId(row) === rowId(last));
  if (first.next === null || at === -1 || at === before.rows.length - 1) return first;
  const seen = new Set(first.rows.map(rowId));
  return {
    ...before,
    rows: [...first.rows, ...before.rows.slice(at + 1).filter((row) => !seen.has(rowId(row)))],
  };
}

/** A search for a whole id, such as `run_…`: its index has the row, however old it is. */
export const searchById = (kind: string, text: string): { idPrefix?: string } =>
  new RegExp(`^${kind}_[0-9a-v]{35}$`).test(text) ? { idPrefix: text } : {};

/** The query string of a list, without empty values. */
const toQuery = (query: Readonly<Record<string, string | undefined>>): string =>
  new URLSearchParams(
    Object.entries(query).filter((pair): pair is [string, string] => Boolean(pair[1])),
  ).toString();

/** A list of the admin API: its first page stays up to date, older ones are loaded when they are asked for. */
export function usePaged<T>(
  path: string,
  query: Readonly<Record<string, string | undefined>>,
  options: PagedOptions<T>,
): Paged<T> {
  const { member, rowId, matches } = options;
  const address = `${path}?${toQuery({ limit: String(PAGE), ...query })}`;
  const read = (answer: Record<string, unknown>): Answer<T> => ({
    rows: answer[member] as T[],
    next: answer["next"] as string | null,
    searchedTo: (answer["searchedTo"] as string | null | undefined) ?? null,
  });
  const first = useResource<Record<string, unknown>>(address, { live: true });
  const [kept, setKept] = useState<{ address: string; all: Answer<T>; pages: number } | null>(null);
  const [failed, setFailed] = useState<AskError | undefined>();
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    if (!first.data) return;
    const fresh = read(first.data);
    setKept((before) =>
      before?.address === address
        ? { ...before, all: joinFirst(fresh, before.all, rowId) }
        : { address, all: fresh, pages: 1 },
    );
    setFailed(undefined);
  }, [first.data, address]);
  const current = kept?.address === address ? kept : null;
  const next = current?.all.next ?? null;
  const more = useCallback(() => {
    if (busy || next === null) return;
    setBusy(true);
    ask<Record<string, unknown>>(`${address}&before=${encodeURIComponent(next)}`)
      .then((answer) => {
        const older = read(answer);
        setKept((before) =>
          before?.address === address
            ? {
                ...before,
                pages: before.pages + 1,
                all: { ...older, rows: [...before.all.rows, ...older.rows] },
              }
            : before,
        );
      })
      .catch((error: unknown) =>
        setFailed(error instanceof AskError ? error : new AskError("unknown", String(error))),
      )
      .finally(() => setBusy(false));
  }, [address, next, busy]);
  const all = current?.all ?? { rows: [], next: null, searchedTo: null };
  const rows = matches ? all.rows.filter(matches) : all.rows;
  const looksFurther =
    matches !== undefined &&
    rows.length < ENOUGH &&
    (current?.pages ?? DEEPEST) < DEEPEST &&
    failed === undefined;
  useEffect(() => {
    if (looksFurther) more();
  }, [looksFurther, more]);
  const error = first.error ?? failed;
  const resource: Resource<T[]> = {
    data: current ? rows : undefined,
    error,
    loading: first.loading,
    reload: first.reload,
  };
  return { ...all, rows, resource, looked: all.rows, busy, more };
}
