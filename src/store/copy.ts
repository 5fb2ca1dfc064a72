import type { Clock } from "../core/clock.ts";
import { RouseError } from "../core/errors.ts";
import type { CopyOptions, CopyTarget, StoreDriver } from "./types.ts";

/**
 * Copies a store from a SQLite file into the store that a URL names. The caller holds the lock of the source's state
 * folder, and copies what else belongs to it before it calls `finish`.
 * @throws RouseError `usage` if nothing can be copied into such a store, and the errors of the driver.
 */
export async function copyStore(
  driver: StoreDriver,
  options: Omit<CopyOptions, "settle"> & { clock: Pick<Clock, "now"> },
): Promise<CopyTarget> {
  const { file, clock, log } = options;
  if (!driver.copy)
    throw new RouseError({
      code: "usage",
      message: `--to: a store cannot be copied into ${driver.protocols[0]}: URLs`,
    });
  return driver.copy({
    ...options,
    // Events that were accepted become runs, and jobs that were held are released.
    async settle() {
      const { openSqlite } = await import("./sqlite/driver.ts");
      const { store, queue } = openSqlite(file, clock, log);
      try {
        await queue.recover();
      } finally {
        await store.close();
      }
    },
  });
}
