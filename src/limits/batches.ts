import { newId } from "../core/ids.ts";
import type { Ms, RunRecord, SharedBatches, Store } from "../store/types.ts";
import { BatchWindows, MAX_CHARS, windowName } from "./batch-windows.ts";
import type { Applicant, Placement } from "./types.ts";

export type Batched = Pick<Applicant, "action" | "batch"> & {
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
