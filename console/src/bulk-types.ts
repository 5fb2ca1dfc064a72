import type { ComponentChildren } from "preact";

/** One line of what a preview or the work itself says: for one event, run or delivery. */
export interface BulkResult {
  id: string;
  ok: boolean;
  /** Its state, or for a preview what it would be. */
  status: string;
  text: string;
}

/** An operation on many events, runs or deliveries. */
export interface BulkWork {
  title: string;
  /** The chosen records, in words. */
  what: ComponentChildren;
  /** The route: `POST` with a body that has `dryRun` answers a line for each. */
  path: string;
  body: Readonly<Record<string, unknown>>;
  /** The word on the button, such as `Retry`. */
  action: string;
  /** The participle of the action, such as `retried`. */
  done: string;
  one: string;
  many: string;
  /** The body of the request after the preview. It names the previewed records. */
  chosen(previewed: readonly BulkResult[]): Readonly<Record<string, unknown>>;
}

/** The most records of one operation. The rest is left for the next one. */
export const MOST = 1000;
