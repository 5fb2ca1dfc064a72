import type { Clock } from "../core/clock.ts";
import { planDelivery, writeDelivery } from "../delivery/plan.ts";
import type { Channels } from "../delivery/types.ts";
import type { StoredListDeps } from "../store/stored-list.ts";
import type { Writes } from "../store/types.ts";

export interface PeopleDeps extends StoredListDeps {
  clock: StoredListDeps["clock"] & Pick<Clock, "now">;
  channels(): Channels;
}

/** Where a person wrote, and is answered. */
export interface PersonPlace {
  channel: string;
  /** The person's id, as `IncomingMessage.from` gives it. */
  person: string;
  to: string;
  thread?: string;
  language?: string;
}

/** Writes a message to a person. It belongs to no run. */
export function writeNotice(
  tx: Writes,
  place: PersonPlace,
  text: string,
  { channels, clock }: Pick<PeopleDeps, "channels" | "clock">,
): void {
  const { channel, to, thread } = place;
  const route = { channel, to, ...(thread !== undefined && { thread }) };
  writeDelivery(
    tx,
    planDelivery({ runId: "", route, text, channels: channels(), now: clock.now() }),
  );
}
