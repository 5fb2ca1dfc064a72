import { stateSecret } from "../config/state.ts";
import {
  getFileTime,
  haveChanged,
  stampPlaces,
  watchFiles,
  type FileWatcher,
} from "../config/watch.ts";
import type { Clock } from "../core/clock.ts";
import { safeError, type Issue } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { BuildResult, LoadedSnapshot } from "./snapshot.ts";
import type { Reloaded } from "./types.ts";

/** The most reads of files that change while they are read. */
const MAX_READS = 3;

export interface ReloaderOptions {
  first: LoadedSnapshot;
  build(): Promise<BuildResult>;
  /** The hook token that was kept when `first` was built. */
  keptToken: string;
  clock: Clock;
  log: Logger;
  /** Aborts when the gateway stops. */
  signal: AbortSignal;
  /** Called when another snapshot is in use. */
  onSwap(loaded: LoadedSnapshot): void;
}

/** The snapshot in use, and how another takes its place. */
export type Reloader = ReturnType<typeof createReloader>;

/** Makes an issue fit for the log: an excerpt may hold whatever stands in a module. */
const withoutDetail = ({ detail: _detail, ...issue }: Issue): Issue => issue;

/** Builds a snapshot. An error that is no problem of the config becomes one, and the log has it. */
const buildOrReport = ({ build, log }: ReloaderOptions): Promise<BuildResult> =>
  build().catch((error: unknown): BuildResult => {
    log.error({ err: safeError(error) }, "the new config could not be built");
    return {
      ok: false,
      issues: [{ path: "", message: "the config could not be read; the log says why" }],
    };
  });

/** Reads the files into snapshots, and watches what was read. */
function createReader(options: ReloaderOptions) {
  const { first } = options;
  let watcher: FileWatcher | undefined;
  /** The files that were read last, by the snapshot in use or by one that has problems. */
  let places = first.watched;

  return {
    /**
     * Builds a snapshot, and again if files changed meanwhile. `torn`: they did so each time, and the watcher will say so.
     */
    async read(): Promise<{ built: BuildResult; torn: boolean }> {
      for (let tries = 1; ; tries++) {
        const noted = stampPlaces(places);
        const since = getFileTime();
        const built = await buildOrReport(options);
        places = (built.ok ? built.loaded.watched : built.watched) ?? places;
        // Before it is asked what has changed: from then on the watcher says so.
        watcher?.watch(places);
        const torn = haveChanged(places, noted, since);
        if (!torn) return { built, torn };
        if (tries === MAX_READS) {
          watcher?.changed();
          return { built, torn };
        }
        if (built.ok) await built.loaded.dispose();
      }
    },
    /** Watches from now on. Returns whether files have changed since they were first read: then `onChange` follows. */
    watch(onChange: () => void): boolean {
      watcher = watchFiles(onChange);
      watcher.watch(places);
      const torn = haveChanged(places, new Map(), first.readSince);
      if (torn) watcher.changed();
      return torn;
    },
    close: () => watcher?.close(),
  };
}

/**
 * Builds a new snapshot and swaps it in whole, or keeps the old one and says why. Work under way keeps the snapshot it
 * began with, whose runtime goes once the longest turn can be over.
 */
export function createReloader(options: ReloaderOptions) {
  const { clock, log, signal } = options;
  const reader = createReader(options);
  let loaded = options.first;
  let keptToken = options.keptToken;
  let problems: readonly Issue[] = [];
  let last: Promise<unknown> = Promise.resolve();
  /** The reload that waits for the one under way: it will read what there is then. */
  let next: Promise<Reloaded> | undefined;
  /** True if files changed while the snapshot in use was read: it may differ from what its hash is of. */
  let isTorn = false;

  const swap = (built: LoadedSnapshot): void => {
    const { dispose, snapshot: before } = loaded;
    loaded = built;
    options.onSwap(loaded);
    for (const { path, message } of loaded.snapshot.warnings) log.warn({ path }, message);
    log.info({ snapshot: loaded.snapshot.hash.slice(0, 12) }, "the config was reloaded");
    before.runtime.retire();
    void clock.sleep(before.config.agents.defaults.maxTimeoutSeconds * 1000, signal).then(dispose);
  };

  const reloadNow = async (): Promise<Reloaded> => {
    next = undefined;
    const { built, torn } = await reader.read();
    if (!built.ok) {
      problems = built.issues;
      log.error(
        { issues: built.issues.map(withoutDetail) },
        "the config was changed and has problems; the one before it stays in use",
      );
      return { ok: false, issues: built.issues };
    }
    const kept = await stateSecret(loaded.stateDir, "hook-token");
    const isMended = problems.length > 0;
    problems = [];
    const isSame =
      !isTorn && kept === keptToken && built.loaded.snapshot.hash === loaded.snapshot.hash;
    keptToken = kept;
    if (isSame) {
      await built.loaded.dispose();
      if (isMended) log.info("the config has no problems any more, and is the one in use");
    } else {
      isTorn = torn;
      swap(built.loaded);
    }
    return { ok: true, hash: loaded.snapshot.hash };
  };

  const reload = (): Promise<Reloaded> => {
    if (next) return next;
    const waiting = last.then(reloadNow);
    next = waiting;
    last = waiting.catch(() => undefined);
    return waiting;
  };

  return {
    loaded: (): LoadedSnapshot => loaded,
    snapshot: (): LoadedSnapshot["snapshot"] => loaded.snapshot,
    /** The hook token of the state folder, as of the snapshot in use. */
    keptToken: (): string => keptToken,
    /** Set while the last reload failed and the snapshot before it is still in use. */
    problems: (): readonly Issue[] => problems,
    reload,
    /** Watches the files of the snapshot from now on. */
    watch(): void {
      const isChanged = reader.watch(
        () =>
          void reload().catch((error: unknown) =>
            log.error(
              { err: safeError(error) },
              "the config was changed and could not be reloaded",
            ),
          ),
      );
      isTorn ||= isChanged;
    },
    /** Ends the watching; resolves when no reload is under way and nothing of the snapshot runs. */
    async close(): Promise<void> {
      reader.close();
      await last;
      await loaded.dispose();
    },
  };
}
