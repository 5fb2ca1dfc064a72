import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLogger } from "../../src/core/log.ts";
import { openStore } from "../../src/store/open.ts";
import { createTestClock, type Home } from "./suite/make.ts";

export const silent = createLogger("silent");

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
