import type { ComponentChildren } from "preact";

/** One line of what a preview or the work itself says: for one event, run or delivery. */
export interface BulkResult {
  id: string;
  ok: boolean;
  /** Its state, or for a preview what it would be. */
  status: string;
  text: string;
}

/** What is done with many. */
export interface BulkWork {
  title: string;
  /** What is chosen, in words: the filters. */
  what: ComponentChildren;
  /** The route: `POST` with a body that has `dryRun` answers a line for each. */
  path: string;
  body: Readonly<Record<string, unknown>>;
  /** The word on the button, such as `Retry`. */
  action: string;
  /** What has been done with each, such as `retried`. */
  done: string;
  one: string;
  many: string;
  /** What is done after the preview: the body that names what was previewed. */
  chosen(previewed: readonly BulkResult[]): Readonly<Record<string, unknown>>;
}

/** At most so many at once: the rest is left for the next time. */
export const MOST = 1000;
