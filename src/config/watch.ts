import {
  lstatSync,
  readdirSync,
  readlinkSync,
  statSync,
  watch,
  type FSWatcher,
  type Stats,
} from "node:fs";
import { basename, join, parse, resolve, sep } from "node:path";
import { safeError } from "../core/errors.ts";
import { fileStamp } from "../core/files.ts";
import type { Logger } from "../core/log.ts";

/** Folders and files whose change is of interest. */
export interface Places {
  /** Folders in which files come and go. */
  dirs: readonly string[];
  files: readonly string[];
}

export interface WatchOptions {
  onChange(): void;
  /** The time without a change after which a change is reported. */
  debounceMs: number;
  /** The longest time that a change waits, however much else changes. Default: without a limit. */
  maxWaitMs?: number;
  log: Logger;
}

export interface FileWatcher {
  /** Watches these places instead of those before. A change that waits to be reported is reported still. */
  watch(places: Places): void;
  /** Reports a change, as if a file had changed now. */
  changed(): void;
  close(): void;
}

/** Files of folders that are never read: what editors, databases and logs write beside those that are. */
const IGNORED =
  /(?:^|[/\\])(?:node_modules|\.git)(?:[/\\]|$)|(?:~|\.swp|\.tmp|\.log|rouse\.db(?:-\w+)?|gateway\.\w+)$/;
/** As many as Linux follows. */
const MAX_LINKS = 40;

/** Names by the folder that they are in. */
type Names = Map<string, Set<string>>;

/** Looks at a path; undefined if there is nothing, or nothing that may be seen. */
function find<T>(path: string, look: (path: string) => T): T | undefined {
  try {
    return look(path);
  } catch {
    return undefined;
  }
}

/**
 * Finds each place where something else can take the place of a path: the path itself, links on the way to it (an editor
 * replaces a file by a rename, Kubernetes a folder by another link), and the first member of it that is not there yet.
 * `folders`: the folders, without links.
 */
function findPlaces({ dirs, files }: Places): { names: Names; folders: Set<string> } {
  const names: Names = new Map();
  // A thousand files of one folder have the same way to it.
  const known = new Map<string, Stats | undefined>();
  const look = (path: string): Stats | undefined => {
    if (!known.has(path)) known.set(path, find<Stats>(path, lstatSync));
    return known.get(path);
  };
  /** Returns the path without links, or undefined if there is nothing. */
  const add = (path: string, links = MAX_LINKS): string | undefined => {
    const { root } = parse(path);
    const members = path.slice(root.length).split(sep).filter(Boolean);
    let at = root;
    for (const [index, name] of members.entries()) {
      const next = join(at, name);
      const found = look(next);
      if (!found || found.isSymbolicLink() || index === members.length - 1)
        names.set(at, (names.get(at) ?? new Set()).add(name));
      if (!found) return undefined;
      if (found.isSymbolicLink()) {
        // By now there may be something else.
        const target = find(next, (link) =>
          resolve(at, readlinkSync(link), ...members.slice(index + 1)),
        );
        return links === 0 || target === undefined ? undefined : add(target, links - 1);
      }
      at = next;
    }
    return at;
  };
  for (const file of files) add(resolve(file));
  const folders = dirs.flatMap((dir) => add(resolve(dir)) ?? []);
  return { names, folders: new Set(folders) };
}

/** The time by which files are stamped, in milliseconds since the epoch: the machine's, also if the gateway runs on another clock. */
export const getFileTime = (): number => performance.timeOrigin + performance.now();

/** A stamp that changes with a place: the files of a folder, or each write of a file. Undefined if it is not there. */
function stampPlace(path: string, isFolder: boolean): string | undefined {
  if (!isFolder) return fileStamp(path);
  try {
    return readdirSync(path)
      .filter((name) => !IGNORED.test(name))
      .join("\0");
  } catch {
    return undefined;
  }
}

/** Notes what places are like, to be compared later. */
export function stampPlaces({ dirs, files }: Places): Map<string, string | undefined> {
  return new Map([
    ...dirs.map((dir) => [dir, stampPlace(dir, true)] as const),
    ...files.map((file) => [file, stampPlace(file, false)] as const),
  ]);
}

/**
 * Returns whether a place may have changed since it was noted. One that was not noted has changed if it did so after `since`,
 * by `getFileTime`.
 */
export function haveChanged(
  places: Places,
  noted: ReadonlyMap<string, string | undefined>,
  since: number,
): boolean {
  for (const [path, stamp] of stampPlaces(places)) {
    if (stamp === undefined) continue;
    const isChanged = noted.has(path)
      ? noted.get(path) !== stamp
      : (find<Stats>(path, statSync)?.ctimeMs ?? 0) >= since;
    if (isChanged) return true;
  }
  return false;
}

/** Watches places, and calls `onChange` when it has been quiet for a while after a change. */
export function watchFiles({
  onChange,
  debounceMs,
  maxWaitMs = Infinity,
  log,
}: WatchOptions): FileWatcher {
  let wanted: Places = { dirs: [], files: [] };
  let { names, folders } = findPlaces(wanted);
  const watchers = new Map<string, { watcher: FSWatcher; ino: number }>();
  let timer: NodeJS.Timeout | undefined;
  let waitingSince: number | undefined;
  let closed = false;

  const changed = (): void => {
    if (closed) return;
    const now = performance.now();
    waitingSince ??= now;
    clearTimeout(timer);
    timer = setTimeout(
      () => {
        waitingSince = undefined;
        attach();
        onChange();
      },
      Math.min(debounceMs, Math.max(0, waitingSince + maxWaitMs - now)),
    );
  };

  const drop = (dir: string): void => {
    watchers.get(dir)?.watcher.close();
    watchers.delete(dir);
  };

  const open = (dir: string, ino: number): void => {
    try {
      const watcher = watch(dir, { persistent: false }, (_event, name) => {
        // The folder itself was moved or deleted: another may have its name by now.
        if (name === basename(dir)) drop(dir);
        else if (name !== null && !names.get(dir)?.has(name))
          if (!folders.has(dir) || IGNORED.test(name)) return;
        changed();
      });
      watcher.on("error", () => {
        drop(dir);
        changed();
      });
      watchers.set(dir, { watcher, ino });
    } catch (error) {
      log.warn(
        { err: safeError(error) },
        "a folder cannot be watched; changes in it take effect on SIGHUP",
      );
    }
  };

  const attach = (): void => {
    ({ names, folders } = findPlaces(wanted));
    const inodes = new Map<string, number>();
    for (const dir of [...names.keys(), ...folders]) {
      const found = find<Stats>(dir, statSync);
      if (found?.isDirectory()) inodes.set(dir, found.ino);
    }
    for (const [dir, { ino }] of watchers) if (inodes.get(dir) !== ino) drop(dir);
    for (const [dir, ino] of inodes) if (!watchers.has(dir)) open(dir, ino);
  };

  return {
    watch(places) {
      wanted = places;
      attach();
    },
    changed,
    close() {
      closed = true;
      clearTimeout(timer);
      for (const dir of watchers.keys()) drop(dir);
    },
  };
}
