import { readdirSync, statSync } from "node:fs";
import { fileStamp } from "../core/files.ts";

/** Folders and files whose change is of interest. */
export interface Places {
  /** Folders in which files come and go. */
  dirs: readonly string[];
  files: readonly string[];
}

/** Between two looks. A change is reported when a look finds no further one, so that files that are saved together are read together. */
const LOOK_MS = 200;
/** A change waits at most so long, whatever else is written meanwhile. */
const MAX_WAIT_MS = 1000;
/** Looks take at most this part of the time, however many files there are. */
const MAX_SHARE = 1 / 50;

/** Files of folders that are never read: what editors, databases and logs write beside those that are. */
const IGNORED = /^(?:node_modules|\.git)$|(?:~|\.swp|\.tmp|\.log|rouse\.db(?:-\w+)?|gateway\.\w+)$/;

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

type Stamps = ReadonlyMap<string, string | undefined>;

/** Notes what places are like, to be compared later. */
export function stampPlaces({ dirs, files }: Places): Stamps {
  return new Map([
    ...dirs.map((dir) => [dir, stampPlace(dir, true)] as const),
    ...files.map((file) => [file, stampPlace(file, false)] as const),
  ]);
}

/**
 * Returns whether a place may have changed since it was noted. One that was not noted has changed if it did so after `since`,
 * by `getFileTime`.
 */
export function haveChanged(places: Places, noted: Stamps, since: number): boolean {
  for (const [path, stamp] of stampPlaces(places)) {
    if (stamp === undefined) continue;
    const isChanged = noted.has(path)
      ? noted.get(path) !== stamp
      : (statSync(path, { throwIfNoEntry: false })?.ctimeMs ?? 0) >= since;
    if (isChanged) return true;
  }
  return false;
}

export type FileWatcher = ReturnType<typeof watchFiles>;

/**
 * Looks at places again and again, and calls `onChange` when it has been quiet for a while after a change. Looking finds what
 * notices of the system miss: links on the way that are replaced, and files of other machines.
 */
export function watchFiles(onChange: () => void) {
  let places: Places = { dirs: [], files: [] };
  let seen = stampPlaces(places);
  let waitingSince: number | undefined;
  let timer: NodeJS.Timeout | undefined;

  const look = (): void => {
    const began = performance.now();
    const found = stampPlaces(places);
    const isChanged = [...found].some(([path, stamp]) => seen.get(path) !== stamp);
    seen = found;
    if (isChanged) waitingSince ??= began;
    if (waitingSince !== undefined && (!isChanged || began - waitingSince >= MAX_WAIT_MS)) {
      waitingSince = undefined;
      onChange();
    }
    lookLater((performance.now() - began) / MAX_SHARE);
  };
  const lookLater = (waitMs: number): void => {
    timer = setTimeout(look, Math.max(LOOK_MS, waitMs)).unref();
  };

  lookLater(LOOK_MS);
  return {
    /** Watches these places instead of those before. A change that waits to be reported is reported still. */
    watch(next: Places): void {
      places = next;
      seen = stampPlaces(next);
    },
    /** Reports a change, as if a file had changed now. */
    changed: (): void => void (waitingSince ??= performance.now()),
    close: (): void => clearTimeout(timer),
  };
}
