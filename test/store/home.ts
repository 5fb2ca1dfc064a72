import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLogger } from "../../src/core/log.ts";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import { createTestClock, type Home } from "./suite/make.ts";

export const silent = createLogger("silent");

/** Opens the store of a gateway's folder, beside that gateway or without one. */
export const openStoreIn = (dir: string) =>
  openStore({
    url: `sqlite:${join(dir, ".rouse", "rouse.db")}`,
    clock: systemClock,
    log: silent,
  });

/** A SQLite store in a folder of its own. */
export async function sqliteHome(): Promise<Home> {
  const folder = await mkdtemp(join(tmpdir(), "rouse-store-"));
  const clock = createTestClock();
  const open = (file: string) => openStore({ url: `sqlite:${file}`, clock, log: silent });
  return {
    clock,
    open: () => open(join(folder, "state", "rouse.db")),
    copies: { open, file: (name) => join(folder, name) },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
