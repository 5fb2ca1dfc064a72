import { safeError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { GroupCommit } from "./commit.ts";
import type { Intake } from "./intake.ts";
import type { Signals } from "./signals.ts";
import type { SqliteWrites } from "./writes.ts";

/** No hook for so long: the flood is over. */
const QUIET_MS = 5;
/** The first hook after such a pause starts at once. */
const IDLE_MS = 20;
/** While somebody waits for work, a flood of hooks holds it back no longer than this. */
const MAX_DELAY_MS = 50;
const RETRY_MS = 1000;

export interface IntakeLoop {
  /** To be called when an event with work is on disk. */
  noticed(): void;
  /** Resolves when all that was accepted before the call has been taken up, in slices between which others commit. */
  catchUp(): Promise<void>;
  close(): Promise<void>;
}

interface Parts {
  intake: Intake;
  group: GroupCommit;
  signals: Signals;
  newWrites(): SqliteWrites;
  log: Logger;
}

/** Decides when accepted events are taken up: accepting goes before starting, but never for long where workers wait. */
export function createIntakeLoop({ intake, group, signals, newWrites, log }: Parts): IntakeLoop {
  let closed = false;
  let slice: Promise<void> | undefined;
  let planned = false;
  let plannedAt = 0;
  let lastNoticed = -Infinity;

  const expandSlice = async (): Promise<void> => {
    const writes = newWrites();
    const expanded = await group.add(() => intake.expand(writes), { many: true });
    expanded.settle();
    signals.announce(writes.touched);
    signals.woke(expanded.wakes);
  };

  const catchUp = async (): Promise<void> => {
    const target = intake.given;
    while (intake.done < target && !closed) {
      slice ??= expandSlice().finally(() => (slice = undefined));
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

  if (intake.done < intake.given) noticed();

  return {
    noticed,
    catchUp,
    async close() {
      closed = true;
      await slice?.catch(() => undefined);
    },
  };
}
