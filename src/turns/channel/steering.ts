import { isSamePlace } from "./channel-input.ts";
import { listSessionRuns } from "./session-runs.ts";
import type { Ms, Reads } from "../../store/types.ts";

/** The reason with which a turn is aborted that starts again with the messages that came since. */
export const STEER = "steer";

/** A turn is started again only for so long after its first message: a person who goes on writing gets an answer. */
const MAX_AGE_MS = 60_000;
const MAX_RUNNING = 20;

/** Has the running turn of a message's session started again with the message, if it answers the same place. */
export async function steerRunning(
  runId: string,
  { store, steer, now }: { store: Reads; steer(runId: string): void; now: Ms },
): Promise<void> {
  const run = await store.runs.get(runId);
  if (run?.kind !== "channel" || run.spec.command) return;
  const query = { status: "running", limit: MAX_RUNNING } as const;
  for (const { id, kind, spec, createdAt } of await listSessionRuns(run.spec.session, query, store))
    if (kind === "channel" && isSamePlace(spec, run.spec) && now - createdAt < MAX_AGE_MS)
      steer(id);
}

/** The turns of this process that can start again: none of their tools was called. */
export class SteerableTurns {
  readonly #signals = new Map<string, AbortController>();

  /** Adds a turn. `signal` aborts with `STEER` too; `leave` takes the turn away at its end, and no later one of the same run. */
  add(runId: string, signal: AbortSignal): { signal: AbortSignal; leave: () => void } {
    const steered = new AbortController();
    this.#signals.set(runId, steered);
    const leave = (): void => {
      if (this.#signals.get(runId) === steered) this.#signals.delete(runId);
    };
    return { signal: AbortSignal.any([signal, steered.signal]), leave };
  }

  /** Takes a turn away: it calls tools. */
  remove(runId: string): void {
    this.#signals.delete(runId);
  }

  steer(runId: string): void {
    this.#signals.get(runId)?.abort(STEER);
  }
}
