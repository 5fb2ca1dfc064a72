import type { TypingPlace, TypingSign } from "../contract/channel.ts";
import { backOff } from "../core/backoff.ts";
import { readMonotonic, type Clock } from "../core/clock.ts";
import type { Logger } from "../core/log.ts";
import { sendPiece } from "../delivery/send.ts";
import type { Channels } from "../delivery/types.ts";
import type { Route } from "../store/types.ts";

/** A turn that is shorter needs no sign, and none can reach the vendor after its answer. */
const FIRST_MS = 300;
/** Time for one call of a channel. */
const CALL_MS = 5_000;
/** Between two signs in one conversation, whose turn may start again with each message. */
const CONVERSATION_GAP_MS = 1_000;
/** Between two signs on one channel: vendors count them against the limit that the messages need. */
const CHANNEL_GAP_MS = 200;
/** The waits after errors, if the vendor names no longer one. */
const PAUSE = { firstMs: 10_000, longestMs: 300_000 };
/** The most channels and conversations whose pauses are kept. */
const MAX_KNOWN = 1_000;

/** When signs on a channel or in a conversation go on; times are monotonic. */
interface Pause {
  until: number;
  failures: number;
  failedAt: number;
}

/** Shows people that the agent works on an answer to them. */
export interface TypingSigns {
  /** Does the work of a run's turn; meanwhile the sign is shown where the message was written that the turn answers, if there is one. */
  during<T>(
    turn: { runId: string; route: Route | undefined; signal: AbortSignal },
    work: () => Promise<T>,
  ): Promise<T>;
}

interface SignDeps {
  clock: Clock;
  log: Logger;
  channels(): Channels;
}

class ChannelSigns implements TypingSigns {
  readonly #deps: SignDeps;
  readonly #pauses = new Map<string, Pause>();

  constructor(deps: SignDeps) {
    this.#deps = deps;
  }

  async during<T>(
    { runId, route, signal }: Parameters<TypingSigns["during"]>[0],
    work: () => Promise<T>,
  ): Promise<T> {
    if (!route) return work();
    const ended = new AbortController();
    void this.#renew(runId, route, AbortSignal.any([signal, ended.signal])).then((shown) => {
      // A turn that another reason has cut off goes on, here or at another gateway.
      if (!signal.aborted || signal.reason === "cancel") return this.#hide(route, shown);
    });
    try {
      return await work();
    } finally {
      ended.abort();
    }
  }

  /** Shows the sign until `stop` aborts. Returns the sign if it was shown. */
  async #renew(
    runId: string,
    { channel, ...place }: Route,
    stop: AbortSignal,
  ): Promise<TypingSign | undefined> {
    const { clock, channels, log } = this.#deps;
    const conversation = JSON.stringify([channel, place.to, place.thread]);
    let shown: TypingSign | undefined;
    await clock.sleep(FIRST_MS, stop);
    while (!stop.aborted) {
      const sign = channels().get(channel)?.channel.typing;
      if (!sign) return shown;
      const now = readMonotonic(clock);
      const waitMs = Math.max(this.#get(channel).until, this.#get(conversation).until) - now;
      if (waitMs <= 0) {
        this.#set(channel, { until: now + CHANNEL_GAP_MS });
        this.#set(conversation, { until: now + CONVERSATION_GAP_MS });
        const result = await sendPiece((signal) => sign.show(place, signal), clock, stop, CALL_MS);
        if (result.status !== "failed") shown = sign;
        if (result.status === "sent")
          for (const key of [channel, conversation]) this.#set(key, { failures: 0 });
        else if (!stop.aborted) {
          // A refusal concerns the conversation; any other error, the vendor.
          this.#pause(
            result.status === "failed" ? conversation : channel,
            now,
            result.status === "retry" ? result.afterMs : undefined,
          );
          log.debug(
            { runId, channel, reason: result.reason },
            "the typing sign could not be shown",
          );
        }
      }
      await clock.sleep(waitMs > 0 ? waitMs : sign.everyMs, stop);
    }
    return shown;
  }

  async #hide(place: TypingPlace, sign: TypingSign | undefined): Promise<void> {
    const hide = sign?.hide?.bind(sign);
    if (hide)
      await sendPiece(
        (signal) => hide(place, signal),
        this.#deps.clock,
        new AbortController().signal,
        CALL_MS,
      );
  }

  /** Has the next sign wait, the longer the more errors there were in a row. Calls side by side that fail count once. */
  #pause(key: string, startedAt: number, afterMs = 0): void {
    const now = readMonotonic(this.#deps.clock);
    const { failures: before, failedAt, until } = this.#get(key);
    const failures = failedAt > startedAt ? before : before + 1;
    const next = now + Math.max(afterMs, backOff(failures, PAUSE));
    this.#set(key, { failures, failedAt: now, until: Math.max(until, next) });
  }

  #get(key: string): Pause {
    return this.#pauses.get(key) ?? { until: 0, failures: 0, failedAt: 0 };
  }

  #set(key: string, change: Partial<Pause>): void {
    const changed = { ...this.#get(key), ...change };
    // What was changed last is last.
    this.#pauses.delete(key);
    this.#pauses.set(key, changed);
    const [oldest = key] = this.#pauses.keys();
    if (this.#pauses.size > MAX_KNOWN) this.#pauses.delete(oldest);
  }
}

/** Creates what shows the signs of a gateway's turns. Nothing of it is recorded, and no error reaches a run. */
export function createTypingSigns(deps: SignDeps): TypingSigns {
  return new ChannelSigns(deps);
}
