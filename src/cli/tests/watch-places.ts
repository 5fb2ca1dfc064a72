import { readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { watchFiles, type Places } from "../../config/watch.ts";
import { createLogger } from "../../core/log.ts";
import type { CliIo } from "../io.ts";

/** Folders in a folder, at any depth; a folder that is not there has none. */
export function listFolders(folder: string): string[] {
  try {
    const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
    return [
      folder,
      ...entries
        .filter((entry) => entry.isDirectory())
        .map(({ name, parentPath }) => join(parentPath, name)),
    ];
  } catch {
    return [folder];
  }
}

const QUIET_MS = 100;

/**
 * Calls `run` immediately, and again after each change of the places, until Ctrl-C; a run that has begun is finished. `run` adds
 * places with `watch`, and does so before it reads what is in them: what changes while it runs makes it run again.
 * @param run returns whether it has printed something.
 */
export async function watchPlaces(
  first: Places,
  io: CliIo,
  run: (watch: (places: Places) => void) => Promise<boolean>,
): Promise<void> {
  const ended = Promise.withResolvers<"ended">();
  let changed = Promise.withResolvers<void>();
  let changedAt = -Infinity;
  const watcher = watchFiles({
    debounceMs: 1,
    log: createLogger("silent"),
    onChange() {
      changedAt = performance.now();
      changed.resolve();
    },
  });
  let all: Places = { dirs: [], files: [] };
  const watch = ({ dirs, files }: Places): void => {
    all = {
      dirs: [...new Set([...all.dirs, ...dirs])],
      files: [...new Set([...all.files, ...files])],
    };
    watcher.watch(all);
  };
  watch(first);
  const release = io.onInterrupt?.(() => ended.resolve("ended"));
  // The watchers alone do not keep the process.
  const alive = setInterval(() => undefined, 60_000);
  try {
    do {
      // A file is written in several steps.
      for (let wait = 0; wait >= 0; wait = changedAt + QUIET_MS - performance.now())
        await sleep(wait);
      changed = Promise.withResolvers();
      if (await run(watch)) io.err("waiting for changes; Ctrl-C ends\n");
    } while ((await Promise.race([ended.promise, changed.promise])) !== "ended");
  } finally {
    clearInterval(alive);
    release?.();
    watcher.close();
  }
}
