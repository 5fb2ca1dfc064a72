import { stateSecret } from "../config/state.ts";
import { watchFiles } from "../config/watch.ts";
import type { Clock } from "../core/clock.ts";
import { safeError, type Issue } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { AdminDeps } from "../admin/types.ts";
import type { BuildResult, LoadedSnapshot } from "./snapshot.ts";

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
export interface Reloader {
  loaded(): LoadedSnapshot;
  snapshot(): LoadedSnapshot["snapshot"];
  /** The hook token of the state folder, as of the snapshot in use. */
  keptToken(): string;
  /** Set while the last reload failed and the snapshot before it is still in use. */
  problems(): readonly Issue[];
  reload: AdminDeps["reload"];
  /** Watches the files of the snapshot from now on. */
  watch(): void;
  /** Ends the watching; resolves when no reload is under way and nothing of the snapshot runs. */
  close(): Promise<void>;
}

/** Makes an issue fit for the log: an excerpt may hold whatever stands in a module. */
const withoutDetail = ({ detail: _detail, ...issue }: Issue): Issue => issue;

/** Builds a snapshot. An error that is no problem of the config becomes one, and the log has it. */
async function buildOrReport({ build, log }: ReloaderOptions): Promise<BuildResult> {
  const built = await build().catch((error: unknown): BuildResult => {
    log.error({ err: safeError(error) }, "the new config could not be built");
    return {
      ok: false,
      issues: [{ path: "", message: "the config could not be read; the log says why" }],
    };
  });
  // The first hook would have to wait for it.
  if (built.ok) built.loaded.snapshot.decidingConfig();
  return built;
}

/**
 * Builds a new snapshot and swaps it in whole, or keeps the old one and says why. Work under way keeps the snapshot it
 * began with, whose runtime goes once the longest turn can be over.
 */
export function createReloader(options: ReloaderOptions): Reloader {
  const { clock, log, signal } = options;
  let loaded = options.first;
  let keptToken = options.keptToken;
  let problems: readonly Issue[] = [];
  let last: Promise<unknown> = Promise.resolve();
  let watcher: { close(): void } | undefined;

  const watch = (): void => {
    watcher?.close();
    watcher = watchFiles({
      ...loaded.watched,
      debounceMs: 200,
      log,
      onChange: () => void reload(),
    });
  };

  const swap = (next: LoadedSnapshot): void => {
    const { dispose, snapshot: before } = loaded;
    loaded = next;
    options.onSwap(loaded);
    if (watcher) watch();
    for (const { path, message } of loaded.snapshot.warnings) log.warn({ path }, message);
    log.info({ snapshot: loaded.snapshot.hash.slice(0, 12) }, "the config was reloaded");
    before.runtime.retire();
    void clock.sleep(before.config.agents.defaults.maxTimeoutSeconds * 1000, signal).then(dispose);
  };

  const reloadNow: AdminDeps["reload"] = async () => {
    const next = await buildOrReport(options);
    if (!next.ok) {
      problems = next.issues;
      log.error(
        { issues: next.issues.map(withoutDetail) },
        "the config was changed and has problems; the one before it stays in use",
      );
      return { ok: false, issues: next.issues };
    }
    problems = [];
    const kept = await stateSecret(loaded.stateDir, "hook-token");
    const isSame = kept === keptToken && next.loaded.snapshot.hash === loaded.snapshot.hash;
    keptToken = kept;
    if (isSame) await next.loaded.dispose();
    else swap(next.loaded);
    return { ok: true, hash: loaded.snapshot.hash };
  };

  const reload: AdminDeps["reload"] = () => {
    const next = last.then(reloadNow);
    last = next.catch(() => undefined);
    return next;
  };

  return {
    loaded: () => loaded,
    snapshot: () => loaded.snapshot,
    keptToken: () => keptToken,
    problems: () => problems,
    reload,
    watch,
    async close() {
      watcher?.close();
      await last;
      await loaded.dispose();
    },
  };
}
