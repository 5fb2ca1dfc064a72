import { existsSync, watch, type FSWatcher } from "node:fs";
import { dirname, resolve } from "node:path";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";

export interface WatchOptions {
  /** Folders; one that is not there yet is waited for in its parent. */
  dirs: readonly string[];
  /** Files, each watched through its folder, since editors save by rename. */
  files: readonly string[];
  onChange(): void;
  debounceMs: number;
  log: Logger;
}

const IGNORED =
  /(?:^|[/\\])(?:node_modules|\.git)(?:[/\\]|$)|(?:~|\.swp|\.tmp|rouse\.db(?:-\w+)?|gateway\.\w+)$/;

/** Watches folders and calls `onChange` once things have been quiet for `debounceMs`. */
export function watchFiles(options: WatchOptions): { close(): void } {
  const { log } = options;
  const wanted = new Set([
    ...options.dirs.map((dir) => resolve(dir)),
    ...options.files.map((file) => dirname(resolve(file))),
  ]);
  const watchers = new Map<string, FSWatcher>();
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  const changed = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      attach();
      options.onChange();
    }, options.debounceMs);
  };

  const open = (dir: string): void => {
    if (watchers.has(dir)) return;
    try {
      const watcher = watch(dir, { persistent: false }, (_event, name) => {
        if (name === null || !IGNORED.test(name)) changed();
      });
      const drop = (): void => {
        watcher.close();
        watchers.delete(dir);
        if (!closed) changed();
      };
      watcher.on("error", drop);
      watchers.set(dir, watcher);
    } catch (error) {
      log.warn(
        { err: safeError(error) },
        "a folder cannot be watched; changes in it take effect on SIGHUP",
      );
    }
  };

  /** Watches each folder that is there, or else the nearest one above it that is. */
  const attach = (): void => {
    if (closed) return;
    const now = new Set<string>();
    for (const dir of wanted) {
      let there = dir;
      while (!existsSync(there) && dirname(there) !== there) there = dirname(there);
      now.add(there);
    }
    for (const [dir, watcher] of watchers) {
      if (now.has(dir) && existsSync(dir)) continue;
      watcher.close();
      watchers.delete(dir);
    }
    for (const dir of now) open(dir);
  };

  attach();
  return {
    close() {
      closed = true;
      clearTimeout(timer);
      for (const watcher of watchers.values()) watcher.close();
      watchers.clear();
    },
  };
}
