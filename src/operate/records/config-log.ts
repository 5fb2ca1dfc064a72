import { safeError } from "../../core/errors.ts";
import type { DecidingConfig, Store } from "../../store/types.ts";
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../core/log.ts";
import type { Snapshot } from "../../intake/types.ts";

/** The context of the gateway's own parts. */
export interface GatewayContext {
  store: Store;
  clock: Clock;
  log: Logger;
  /** The current one. */
  snapshot(): Snapshot;
}

/** Keeps in the store what events are decided by. */
export type ConfigLog = ReturnType<typeof createConfigLog>;

/** The time between two notes that a config is in use. */
const USE_NOTED_MS = 600_000;

/** Creates what records configs. Events are accepted also if a config cannot be recorded: the next note tries it again. */
export function createConfigLog({ store, clock, log, snapshot }: GatewayContext) {
  const recorded = new Set<string>();
  let used = snapshot();
  let last = Promise.resolve();
  const write = async (...configs: (DecidingConfig | undefined)[]): Promise<void> => {
    const known = configs.filter((config) => config !== undefined);
    for (const { id } of known) recorded.add(id);
    await store
      .commit((tx) => {
        for (const config of known) tx.configs.use({ ...config, usedAt: clock.now() });
      })
      .catch((error: unknown) =>
        log.warn(
          { err: safeError(error) },
          "the config could not be recorded for explanations; it is tried again",
        ),
      );
  };
  return {
    /** The ids of the configs that are recorded. */
    recorded,
    /** Records the config of an event that is about to be stored. */
    record: (config: DecidingConfig): Promise<void> => write(config),
    /** Waits until the current config is recorded, or could not be. */
    noted: (): Promise<void> => last,
    /** Notes that this gateway uses the current config, and until when it has used the one before. */
    use(): Promise<void> {
      const before = used;
      used = snapshot();
      return (last = write(before.decidingConfig, used.decidingConfig));
    },
    /** Notes the use from time to time. */
    async run(signal: AbortSignal): Promise<void> {
      while (!signal.aborted) {
        await clock.sleep(USE_NOTED_MS, signal);
        if (!signal.aborted) await write(used.decidingConfig);
      }
    },
  };
}
