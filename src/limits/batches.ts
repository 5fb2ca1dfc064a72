import { newId } from "../core/ids.ts";
import type { Ms, RunRecord, SharedBatches, Store, RunAction } from "../store/types.ts";
import type { Applicant, Placement, BatchSettings } from "./types.ts";

interface Window {
  name: string;
  runId: string;
  firstAt: Ms;
  count: number;
  closesAt: Ms;
  /** Characters of JSON collected so far. */
  chars: number;
  /** Joins that are not on disk yet. */
  pending: number;
  whenSettled: (() => void)[];
}

/** A window with this many characters closes immediately: one run takes no more. */
const MAX_CHARS = 4_000_000;

/** What tells windows apart. Those of two paths are two: what one collects goes into a session of its own path. */
const windowName = (
  { mapping, spec }: Pick<RunAction, "mapping" | "spec">,
  key: string,
): string => {
  const { via } = spec.session;
  return via ? `${mapping}\n${key}\n${via.path}|${via.credential}` : `${mapping}\n${key}`;
};

/** The windows that are open: in memory, since the store's collecting runs tell all of them. */
export class BatchWindows {
  readonly #open = new Map<string, Window>();
  readonly #byRun = new Map<string, Window>();

  /**
   * Puts an event into the open window of its key, or opens one with the action's own run. `settle` must be called once it
   * is known whether the event is on disk.
   * @returns the run that collects the event, and what the action's `collect` becomes.
   */
  join(
    action: RunAction,
    { key, windowSeconds, maxSeconds, maxEvents }: BatchSettings,
    event: NonNullable<RunAction["collect"]>["event"],
  ): {
    opened: boolean;
    runId: string;
    batch: NonNullable<RunAction["collect"]>;
    settle(accepted: boolean): void;
  } {
    const name = windowName(action, key);
    const now = event.at;
    const known = this.#open.get(name);
    const window: Window =
      known && known.closesAt > now
        ? known
        : {
            name,
            runId: action.runId,
            firstAt: now,
            count: 0,
            closesAt: now,
            chars: 0,
            pending: 0,
            whenSettled: [],
          };
    const opened = window.count === 0;
    window.count++;
    window.pending++;
    window.chars += JSON.stringify(event).length;
    window.closesAt = Math.min(now + windowSeconds * 1000, window.firstAt + maxSeconds * 1000);
    this.#byRun.set(window.runId, window);
    if (window.count >= maxEvents || window.chars > MAX_CHARS) {
      window.closesAt = now;
      this.#open.delete(name);
    } else this.#open.set(name, window);
    const batch = { key, closesAt: window.closesAt, event };
    return {
      opened,
      runId: window.runId,
      batch,
      settle: (accepted) => this.#settle(window, accepted),
    };
  }

  /** Whether an event of this key would join a window, and not open one. */
  isOpen(action: Pick<RunAction, "mapping" | "spec">, key: string, now: Ms): boolean {
    return (this.#open.get(windowName(action, key))?.closesAt ?? 0) > now;
  }

  #settle(window: Window, accepted: boolean): void {
    window.pending--;
    if (!accepted && --window.count === 0) this.#remove(window);
    if (window.pending > 0) return;
    for (const done of window.whenSettled.splice(0)) done();
  }

  #remove(window: Window): void {
    this.#byRun.delete(window.runId);
    if (this.#open.get(window.name) === window) this.#open.delete(window.name);
  }

  /**
   * Closes the window of a run: no event joins it any more, and all that did are on disk or given up.
   * @returns when it closes instead, if an event has put that off.
   */
  async close(runId: string, now: Ms): Promise<Ms | undefined> {
    const window = this.#byRun.get(runId);
    if (!window) return undefined;
    if (window.closesAt > now) return window.closesAt;
    await this.drop(runId);
    return undefined;
  }

  /** The same whatever its time. */
  async drop(runId: string): Promise<void> {
    const window = this.#byRun.get(runId);
    if (!window) return;
    this.#remove(window);
    if (window.pending > 0) await new Promise<void>((done) => window.whenSettled.push(done));
  }

  /** Opens the windows of runs that were collecting when the process ended. */
  restore(runs: readonly RunRecord[]): void {
    for (const { id, collect, ...run } of runs) {
      if (!collect) continue;
      const name = windowName(run, collect.key);
      const { firstAt, count, closesAt } = collect;
      const window: Window = {
        name,
        runId: id,
        firstAt,
        count,
        closesAt,
        chars: 0,
        pending: 0,
        whenSettled: [],
      };
      this.#open.set(name, window);
      this.#byRun.set(id, window);
    }
  }
}

type Batched = Pick<Applicant, "action" | "batch"> & {
  action: Extract<Applicant["action"], { kind: "run" }>;
  batch: NonNullable<Applicant["batch"]>;
};

export const isBatched = (applicant: Applicant): applicant is Batched =>
  applicant.action.kind === "run" && applicant.batch !== undefined;

/** The mappings of runs that are not collected. */
export const toPlain = (applicants: readonly Applicant[]): (string | undefined)[] =>
  applicants.flatMap(({ action, batch }) =>
    action.kind === "run" && !batch ? [action.mapping] : [],
  );

export interface Joined {
  placement: Extract<Placement, { state: "collecting" }>;
  /** True if this event opened the batch. */
  opened: boolean;
  /** Must be called once it is known whether the event is on disk. */
  settle(accepted: boolean): void;
}

/** The batches that collect events: of this gateway alone, or of all that share a store. */
export interface Batches {
  /** Whether an event would join a batch and open none; false if that is not known before. */
  isOpen(applicant: Batched, now: Ms): boolean;
  join(applicant: Batched): Joined | Promise<Joined>;
  close(runId: string, now: Ms): Promise<Ms | undefined>;
  drop(runId: string): Promise<void>;
  /** Opens the batches that were open when the process ended. */
  restore(store: Store): Promise<void>;
}

const PAGE = 1000;

async function listCollecting(store: Store): Promise<RunRecord[]> {
  const runs: RunRecord[] = [];
  for (;;) {
    const before = runs.at(-1)?.id;
    const page = await store.list("runs", {
      status: "collecting",
      limit: PAGE,
      ...(before === undefined ? {} : { before }),
    });
    runs.push(...page);
    if (page.length < PAGE) return runs;
  }
}

function createLocalBatches(): Batches {
  const windows = new BatchWindows();
  return {
    isOpen: ({ action, batch }, now) => windows.isOpen(action, batch.key, now),
    join({ action, batch: { event, ...settings } }) {
      const { opened, settle, ...joined } = windows.join(action, settings, event);
      return { opened, settle, placement: { state: "collecting", ...joined } };
    },
    close: (runId, now) => windows.close(runId, now),
    drop: (runId) => windows.drop(runId),
    restore: async (store) => windows.restore(await listCollecting(store)),
  };
}

const createSharedBatches = (shared: SharedBatches): Batches => ({
  isOpen: () => false,
  async join({ action, batch: { event, key, windowSeconds, maxSeconds, maxEvents } }) {
    const { runId, closesAt, opened } = await shared.join({
      name: windowName(action, key),
      // Another one than that of a batch which has closed meanwhile.
      runId: newId("run", event.at),
      at: event.at,
      windowMs: windowSeconds * 1000,
      maxMs: maxSeconds * 1000,
      maxEvents,
      chars: JSON.stringify(event).length,
      maxChars: MAX_CHARS,
    });
    return {
      opened,
      settle: () => undefined,
      placement: { state: "collecting", runId, batch: { key, closesAt, event, shared: true } },
    };
  },
  close: (runId, now) => shared.close(runId, now),
  drop: async (runId) => void (await shared.close(runId, Number.MAX_SAFE_INTEGER / 2)),
  restore: async () => undefined,
});

export const createBatches = (shared: SharedBatches | undefined): Batches =>
  shared ? createSharedBatches(shared) : createLocalBatches();
