import { RouseError, type Failure } from "../../core/errors.ts";
import type { Listings, Lists, SearchedKind, SearchResult } from "../../store/types.ts";

/**
 * Returns a result that is good.
 * @throws RouseError with the failure of one that is not.
 */
export function unwrap<T extends { ok: true }>(result: T | { ok: false; failure: Failure }): T {
  if (result.ok) return result;
  throw new RouseError(result.failure);
}

/** @throws RouseError `usage` with this message. */
export function refuse(message: string): never {
  throw new RouseError({ code: "usage", message });
}

/**
 * Returns what a lookup has found.
 * @throws RouseError with this failure if it has found nothing.
 */
export function found<T>(value: T | undefined, failure: Failure): T {
  if (value === undefined) throw new RouseError(failure);
  return value;
}

/** Fields of a query without those that were not given. */
export function given<T extends object>(query: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>;
  };
}

/** Returns whether a record has the values of a filter; a field that is undefined there may have any value. */
export const matches = (record: object, filter: object): boolean =>
  Object.entries(filter).every(
    ([name, value]) => value === undefined || Reflect.get(record, name) === value,
  );

/** The filters of a list, and how many rows it may have. */
export type PageQuery<Query> = {
  [K in keyof Query]?: Query[K] | undefined;
} & { limit: number };

/** Reads a page of a list. `next` is the `before` of the next page, null on the last one. */
export async function readPage<Q extends { limit: number }, T>(
  query: Q,
  list: (query: { [K in keyof Q]: Exclude<Q[K], undefined> }) => Promise<T[]>,
  nameOf: (row: T) => string,
): Promise<{ rows: T[]; next: string | null }> {
  // One row more than asked for tells whether there is a next page.
  const all = await list(given({ ...query, limit: query.limit + 1 }));
  const rows = all.slice(0, query.limit);
  const last = all.length > query.limit ? rows.at(-1) : undefined;
  return { rows, next: last === undefined ? null : nameOf(last) };
}

/**
 * Searches a page of a list. With a filter that has no index a search may end before the page is full: then `searchedTo` is the
 * time up to which it looked (ISO 8601), and a search with `before: next` continues it.
 */
export async function searchPage<K extends SearchedKind>(
  store: Pick<Listings, K>,
  kind: K,
  query: PageQuery<Lists[K]["of"]>,
  nameOf: (row: Lists[K]["is"]) => string,
): Promise<{ rows: Lists[K]["is"][]; next: string | null; searchedTo: string | null }> {
  let stopped: SearchResult<unknown>["stopped"];
  const page = await readPage(
    query,
    async (asked) => {
      const found = await store[kind].search(asked);
      ({ stopped } = found);
      return found.rows;
    },
    nameOf,
  );
  if (page.next !== null || !stopped) return { ...page, searchedTo: null };
  return { rows: page.rows, next: stopped.before, searchedTo: new Date(stopped.at).toISOString() };
}

/** Names most rows. */
export const byId = ({ id }: { id: string }): string => id;

/** Yields all rows that a query finds, newest first, read in pages. */
export async function* readAll<K extends "events" | "runs" | "deliveries">(
  store: Pick<Listings, K>,
  kind: K,
  query: Omit<Lists[K]["of"], "limit" | "before">,
  page: number,
): AsyncGenerator<Lists[K]["is"]> {
  let before: string | undefined;
  for (;;) {
    const rows = await store[kind].list({
      ...query,
      limit: page,
      ...(before === undefined ? {} : { before }),
    });
    yield* rows;
    before = rows.at(-1)?.id;
    if (rows.length < page) return;
  }
}

/** Renders the error of an operation on one of many, so that the operation continues with the rest. An unexpected error is not shown in detail. */
export function asFailure(error: unknown): { ok: false; failure: Failure } {
  if (!(error instanceof RouseError))
    return {
      ok: false,
      failure: { code: "internal", message: "something failed inside the gateway" },
    };
  const { code, message, issues } = error;
  return { ok: false, failure: issues ? { code, message, issues } : { code, message } };
}
