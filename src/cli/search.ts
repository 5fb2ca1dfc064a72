import type { CliIo } from "./io.ts";
import { createProgress } from "./progress.ts";
import { shortTime } from "./text.ts";

/** What every answer with a list says of the rest of the list. */
export interface SearchAnswer {
  /** The `before` of the next page; null if there is none. */
  next: string | null;
  /** Set if the gateway ended the search before the page was full: the time up to which it looked. */
  searchedTo: string | null;
  /** How many rows a search by words has looked at. */
  looked?: number | null;
}

/** Which page of a list. */
export interface ListPage {
  before: string | undefined;
  limit: string | undefined;
}

/** Rows of a page whose caller asks for no number of them. */
const DEFAULT_LIMIT = 50;

/**
 * Reads one page of a list. While the gateway ends the search before the page is full, it is continued, with a line of progress
 * on a terminal. After Ctrl-C the answer has the rows that were found before it.
 */
export async function readListPage<Answer extends SearchAnswer>(
  io: CliIo,
  { before, limit }: ListPage,
  ask: (query: ListPage) => Promise<Answer>,
  getRows: (answer: Answer) => unknown[],
): Promise<Answer> {
  const answer = await ask({ before, limit });
  const rows = getRows(answer);
  const wanted = Number(limit ?? DEFAULT_LIMIT);
  const progress = createProgress(io, "searching");
  let interrupted = false;
  const release = io.onInterrupt?.(() => (interrupted = true));
  let { next, searchedTo, looked = null } = answer;
  try {
    while (next !== null && searchedTo !== null && rows.length < wanted && !interrupted) {
      progress.update(
        0,
        `back to ${shortTime(searchedTo, io.now())}, ${rows.length} found; Ctrl-C ends the search`,
      );
      const more = await ask({ before: next, limit: String(wanted - rows.length) });
      rows.push(...getRows(more));
      ({ next, searchedTo } = more);
      if (looked !== null) looked += more.looked ?? 0;
    }
  } finally {
    progress.end();
    release?.();
  }
  return { ...answer, next, searchedTo, ...(answer.looked === undefined ? {} : { looked }) };
}
