import type { Context } from "hono";
import type { Failure } from "../core/errors.ts";
import { newId } from "../core/ids.ts";
import type { AdminAnswers } from "./admin-types.ts";
import { failureResponse } from "./errors.ts";

/** Answers a failure of an admin route. */
export const fail = (c: Context, failure: Failure): Response => failureResponse(c, failure, newId("req"));

/** Answers with what a route promises. */
export function answer<K extends keyof AdminAnswers>(c: Context, _route: K, value: AdminAnswers[K]): Response {
  return c.json({ ok: true, ...value });
}

/** How most rows are named. */
export const byId = ({ id }: { id: string }): string => id;

/** Cuts the row that was fetched to know whether there are more. `next` is the `before` of the next page. */
export function paged<T>(rows: T[], limit: number, nameOf: (row: T) => string): { rows: T[]; next: string | null } {
  const kept = rows.slice(0, limit);
  const last = rows.length > limit ? kept.at(-1) : undefined;
  return { rows: kept, next: last === undefined ? null : nameOf(last) };
}

/** A query without the fields that were not given. */
export function given<T extends object>(query: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>;
  };
}
