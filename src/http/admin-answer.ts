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

/** Cuts the row that was fetched to know whether there are more. `next` is the `before` of the next page. */
export function paged<T extends { id: string }>(rows: T[], limit: number): { rows: T[]; next: string | null } {
  if (rows.length <= limit) return { rows, next: null };
  const kept = rows.slice(0, limit);
  return { rows: kept, next: kept.at(-1)?.id ?? null };
}

/** A query without the fields that were not given. */
export function given<T extends object>(query: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined)) as { [K in keyof T]: Exclude<T[K], undefined> };
}
