import type { ListQuery } from "./types.ts";

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 1000;

/** How many rows a list has at most. */
export function getListLimit(query: ListQuery): number {
  return Math.min(Math.max(query.limit ?? DEFAULT_LIMIT, 1), MAX_LIMIT);
}
