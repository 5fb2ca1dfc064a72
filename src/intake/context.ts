import type { PeopleParts } from "../people/open.ts";
import type { QueueParts } from "../queue/open.ts";
import type { PartContext } from "../store/context.ts";
import type { DecidingConfig } from "../store/types.ts";
import type { TurnParts } from "../turns/open.ts";
import type { IntakeReceipt, ReceivedHook, Snapshot } from "./types.ts";

/** The parts that process all input. */
export interface IntakeDeps extends PartContext, QueueParts, PeopleParts, TurnParts {
  snapshot(): Snapshot;
  /** The token of the state folder, for a config without `hooks.token`. */
  reloader: { keptToken(): string };
  /** Records the config of an event before the event, unless it is among `recorded`. */
  configs: { recorded: ReadonlySet<string>; record(config: DecidingConfig): Promise<void> };
  /** The state of the gateway: draining or not. */
  progress: { draining: boolean };
  options: PartContext["options"] & {
    /** Hears what became of each hook, but for replays. */
    recorded?: ((hook: ReceivedHook, receipt: IntakeReceipt) => void) | undefined;
  };
}
