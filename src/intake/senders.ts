import type { Clock } from "../core/clock.ts";
import type { IncomingMessage } from "../contract/channel.ts";
import type { PairingResult } from "../people/pairings.ts";
import type { KnownPeople } from "../people/links.ts";
import type { ActionContext } from "../turns/types.ts";

/** Whether a message is processed. One that is not `recorded` leaves no event either. */
export type SenderCheck = { ok: true } | { ok: false; reason: string; recorded: boolean };

export interface SenderDeps {
  people: KnownPeople;
  /** Counts the events of strangers of this gateway. */
  strangers: StrangerCount;
}

/** So many messages of strangers to one channel leave events within an hour. */
const MAX_EVENTS = 100;
const HOUR_MS = 3_600_000;

/** Counts messages by channel and hour, so that a flood of strangers does not fill the store. */
export class StrangerCount {
  readonly #hours = new Map<string, { since: number; count: number }>();
  readonly #clock: Pick<Clock, "now">;

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  /** Counts a message. False if its channel has had enough of them. */
  take(channel: string): boolean {
    const now = this.#clock.now();
    const before = this.#hours.get(channel);
    const hour =
      before && Math.abs(now - before.since) < HOUR_MS ? before : { since: now, count: 0 };
    this.#hours.set(channel, hour);
    return ++hour.count <= MAX_EVENTS;
  }
}

const WHY: Record<Exclude<PairingResult, "approved">, string> = {
  asked: "a code was sent to the person, who waits for approval",
  waiting: "the person has a code, and waits for approval",
  denied: "the person was denied",
  too_many: "too many people have asked within an hour: no code was sent",
};

const denied = (reason: string): SenderCheck => ({ ok: false, reason, recorded: true });

/** Checks whether a person may write to the agent. A stranger on a channel with `dmPolicy: "pairing"` may be sent a code. */
export async function checkSender(
  channel: string,
  message: IncomingMessage,
  { channels }: Pick<ActionContext, "channels">,
  { people, strangers }: SenderDeps,
): Promise<SenderCheck> {
  const { from, direct } = message;
  const { allowFrom = [], dmPolicy = "allowlist" } = channels.get(channel)?.channel ?? {};
  if (direct && dmPolicy === "closed")
    return denied(`dmPolicy of channels.${channel} is "closed": no direct message is answered`);
  if (allowFrom.includes(from) || (direct && dmPolicy === "open")) return { ok: true };
  if (!direct || dmPolicy !== "pairing")
    return denied(`"${from}" is not in allowFrom of channels.${channel}: nothing is answered`);
  const admitted = await people.pairings.admit(channel, message);
  if (admitted === "approved") return { ok: true };
  return { ok: false, reason: `pairing: ${WHY[admitted]}`, recorded: strangers.take(channel) };
}
