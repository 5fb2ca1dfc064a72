import { safeError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { SqliteGroupCommit } from "./group-commit.ts";
import type { Materializer } from "./materializer.ts";
import type { SqliteSignals } from "./signals.ts";
import type { SqliteWrites } from "./writes.ts";

/** No hook for so long: the flood is over. */
const QUIET_MS = 5;
/** The first hook after such a pause starts at once. */
const IDLE_MS = 20;
/** While somebody waits for work, a flood of hooks holds it back no longer than this. */
const MAX_DELAY_MS = 50;
const RETRY_MS = 1000;

export interface MaterializeLoop {
  /** To be called when an event with work is on disk. */
  noticed(): void;
  /** Resolves when all that was accepted before the call has been taken up, in slices between which others commit. */
  catchUp(): Promise<void>;
  close(): Promise<void>;
}

interface Parts {
  materializer: Materializer;
  group: SqliteGroupCommit;
  signals: SqliteSignals;
  newWrites(): SqliteWrites;
  log: Logger;
}

/** Decides when accepted events are taken up: accepting goes before starting, but never for long where workers wait. */
export function createMaterializeLoop({ materializer, group, signals, newWrites, log }: Parts): MaterializeLoop {
  let closed = false;
  let slice: Promise<void> | undefined;
  let planned = false;
  let plannedAt = 0;
  let lastNoticed = -Infinity;

  const materializeSlice = async (): Promise<void> => {
    const writes = newWrites();
    const materialized = await group.add(() => materializer.materialize(writes), { many: true });
    materialized.settle();
    signals.announce(writes.touched);
    signals.woke(materialized.wakes);
  };

  const catchUp = async (): Promise<void> => {
    const target = materializer.given;
    while (materializer.done < target && !closed) {
      slice ??= materializeSlice().finally(() => (slice = undefined));
      await slice;
    }
  };

  const look = (): void => {
    if (closed) return;
    const now = performance.now();
    const flood = now - lastNoticed < QUIET_MS || group.waiting > 0;
    if (flood && !(signals.listened && now - plannedAt >= MAX_DELAY_MS)) return plan(QUIET_MS);
    planned = false;
    catchUp().catch((error: unknown) => {
      if (closed) return;
      log.error({ err: safeError(error) }, "accepted events could not be queued yet; it is tried again");
      setTimeout(noticed, RETRY_MS).unref();
    });
  };

  const lookNow = (): void => {
    // Nobody came during this turn of the event loop either: the hook was alone.
    if (group.waiting === 0) lastNoticed -= QUIET_MS;
    look();
  };

  const plan = (ms: number): void => void setTimeout(look, ms).unref();

  const noticed = (): void => {
    const now = performance.now();
    const idle = now - lastNoticed > IDLE_MS;
    lastNoticed = now;
    if (planned || closed) return;
    planned = true;
    plannedAt = now;
    if (idle) setImmediate(lookNow);
    else plan(QUIET_MS);
  };

  if (materializer.done < materializer.given) noticed();

  return {
    noticed,
    catchUp,
    async close() {
      closed = true;
      await slice?.catch(() => undefined);
    },
  };
}
