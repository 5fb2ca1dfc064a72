import { RouseError } from "../core/errors.ts";
import { LEASE_LOST, type FencingToken, type Store } from "./types.ts";

/** The place of what reads on where it stopped, kept across restarts and in whichever gateway runs it next. */
export interface Cursor {
  cursor(): Promise<string | undefined>;
  /** On disk when it resolves. Save it after what lies before it was received. Throws where another gateway runs it meanwhile. */
  saveCursor(cursor: string): Promise<void>;
}

/** Keeps a cursor in the store, for whichever gateway goes on from there. Saving throws where the lease is lost: the new holder is further on. */
export function keptCursor(
  store: Store,
  key: string,
  fencingToken: FencingToken | undefined,
): Cursor {
  return {
    async cursor() {
      const value = await store.values.get(key);
      return typeof value === "string" ? value : undefined;
    },
    async saveCursor(cursor) {
      if (!(await store.commit((tx) => tx.values.set(key, cursor), fencingToken)))
        throw new RouseError(LEASE_LOST);
    },
  };
}
