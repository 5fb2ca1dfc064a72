import { newId } from "../core/ids.ts";
import type { Ms, Reads, RunAction, RunRecord, SharedBatches, Store } from "../store/types.ts";
import type { Applicant, Placement } from "./types.ts";

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

/** Names a window. Two paths have two windows: the events of a window go into a session of its own path. */
const windowName = (
  { mapping, spec }: Pick<RunRecord, "mapping" | "spec">,
  key: string,
): string => {
  const { via } = spec.session;
  return via ? `${mapping}\n${key}\n${via.path}|${via.credential}` : `${mapping}\n${key}`;
};

const newWindow = (
  window: Pick<Window, "name" | "runId" | "firstAt" | "count" | "closesAt">,
): Window => ({ ...window, chars: 0, pending: 0, whenSettled: [] });

/** A run that is to be collected with others. */
interface Batched {
  action: Pick<RunAction, "mapping" | "spec" | "runId">;
  batch: NonNullable<Applicant["batch"]>;
}

export interface Joined {
  placement: Extract<Placement, { state: "collecting" }>;
  /** True if this event opened the batch. */
  opened: boolean;
  /** Must be called once it is known whether the event is on disk. */
  settle(accepted: boolean): void;
}

/** The batches that collect events: of this gateway alone, or of all that share a store. */
export interface Batches {
  join(applicant: Batched): Joined | Promise<Joined>;
  /**
   * Closes the batch of a run: no event joins it any more, and all that did are on disk or given up. Returns when it closes
   * instead, if an event has put that off.
   */
  close(runId: string, now: Ms): Promise<Ms | undefined>;
  /** The same whatever its time. */
  drop(runId: string): Promise<void>;
  /** Opens the batches that were open when the process ended. */
  restore(store: Store): Promise<void>;
}

const PAGE = 1000;

/** Lists all runs of one status, newest first. */
export async function listAllRuns(status: RunRecord["status"], store: Reads): Promise<RunRecord[]> {
  const runs: RunRecord[] = [];
  for (;;) {
    const before = runs.at(-1)?.id;
    const query = { status, limit: PAGE, ...(before !== undefined && { before }) };
    const page = await store.runs.list(query);
    runs.push(...page);
    if (page.length < PAGE) return runs;
  }
}

/** The windows that are open: in memory, since the store's collecting runs tell all of them. */
export class LocalBatches implements Batches {
  readonly #open = new Map<string, Window>();
  readonly #byRun = new Map<string, Window>();

  join({ action, batch }: Batched): Joined {
    const { event, key, windowSeconds, maxSeconds, maxEvents } = batch;
    const name = windowName(action, key);
    const now = event.at;
    const known = this.#open.get(name);
    const window =
      known && known.closesAt > now
        ? known
        : newWindow({ name, runId: action.runId, firstAt: now, count: 0, closesAt: now });
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
    const joined = { key, closesAt: window.closesAt, event };
    return {
      opened,
      settle: (accepted) => this.#settle(window, accepted),
      placement: { state: "collecting", runId: window.runId, batch: joined },
    };
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

  async close(runId: string, now: Ms): Promise<Ms | undefined> {
    const window = this.#byRun.get(runId);
    if (!window) return undefined;
    if (window.closesAt > now) return window.closesAt;
    await this.drop(runId);
    return undefined;
  }

  async drop(runId: string): Promise<void> {
    const window = this.#byRun.get(runId);
    if (!window) return;
    this.#remove(window);
    if (window.pending > 0) await new Promise<void>((done) => window.whenSettled.push(done));
  }

  async restore(store: Store): Promise<void> {
    for (const run of await listAllRuns("collecting", store)) {
      if (run.kind !== "hook" || !run.collect) continue;
      const { key, firstAt, count, closesAt } = run.collect;
      const name = windowName(run, key);
      const window = newWindow({ name, runId: run.id, firstAt, count, closesAt });
      this.#open.set(name, window);
      this.#byRun.set(run.id, window);
    }
  }
}

const createSharedBatches = (shared: SharedBatches): Batches => ({
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
  shared ? createSharedBatches(shared) : new LocalBatches();
