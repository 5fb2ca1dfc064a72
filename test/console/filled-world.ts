import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import type { StoreHandle } from "../../src/store/types.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { silent } from "../store/home.ts";

/** A gateway without workers whose store was filled before its start. */
export async function createFilledWorld(
  fill: (handle: StoreHandle) => Promise<void>,
): Promise<World & { close(): Promise<void> }> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-test-"));
  mkdirSync(join(dir, ".rouse"));
  const handle = await openStore({
    url: `sqlite:${join(dir, ".rouse", "rouse.db")}`,
    clock: systemClock,
    log: silent,
  });
  await fill(handle);
  await handle.store.close();
  const world = await createWorld({ dir, workers: false });
  return {
    ...world,
    async close() {
      await world.stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
