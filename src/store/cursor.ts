import { RouseError } from "../core/errors.ts";
import type { Cursor } from "../plugin/channel.ts";
import { LEASE_LOST, type Fence, type Store } from "./types.ts";

/** Keeps a cursor in the store, for whichever gateway goes on from there. Saving throws where the lease is lost: the new holder is further on. */
export function keptCursor(store: Pick<Store, "getValue" | "commit">, key: string, fence: Fence | undefined): Cursor {
  return {
    async cursor() {
      const value = await store.getValue(key);
      return typeof value === "string" ? value : undefined;
    },
    async saveCursor(cursor) {
      if (!(await store.commit((tx) => tx.setValue(key, cursor), fence))) throw new RouseError(LEASE_LOST);
    },
  };
}
