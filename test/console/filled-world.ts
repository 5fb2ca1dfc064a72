import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { StoreHandle } from "../../src/store/types.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { openStoreIn } from "../store/home.ts";

/** A gateway without workers whose store was filled before its start. */
export async function createFilledWorld(
  fill: (handle: StoreHandle) => Promise<void>,
): Promise<World & { close(): Promise<void> }> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-test-"));
  mkdirSync(join(dir, ".rouse"));
  const handle = await openStoreIn(dir);
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
