import type { EventRow, FencingToken, Job, StoredAction, Writes } from "#store-kit";
import type { NewDedupeKey } from "./keys.ts";

/** An event as it goes into the database, with what has to be made of it. */
export interface NewEvent {
  row: EventRow;
  actions: readonly StoredAction[];
}

/** One caller's part of a commit. */
export interface Request {
  keys: readonly NewDedupeKey[];
  held?: Job | FencingToken | undefined;
  event?: NewEvent;
  /** May be called several times. */
  write?(tx: Writes): void;
}
