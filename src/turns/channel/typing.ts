import type { TypingPlace, TypingSign } from "../../contract/channel.ts";
import { backOff, WAITS } from "../../core/backoff.ts";
import { readMonotonic, type Clock } from "../../core/clock.ts";
import { safeError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import { sendPiece } from "../../delivery/send.ts";
import type { Channels } from "../../delivery/channels.ts";
import { replyRoute } from "./channel-input.ts";
import type { Ms, Route, RunRecord, Reads } from "../../store/types.ts";

/** A turn that is shorter needs no sign, and none can reach the vendor after its answer. */
const FIRST_MS = 300;
/** Time for one call of a channel. */
const CALL_MS = 5_000;
/** Between two signs in one conversation, whose turn may start again with each message. */
const CONVERSATION_GAP_MS = 1_000;
/** Between two signs on one channel: vendors count them against the limit that the messages need. */
const CHANNEL_GAP_MS = 200;
/** A message that waits for longer than this behind others shows no sign any more. */
const QUEUED_MS = 300_000;
/** The same for a run that waits for a provider or a limit, of which a sentence tells then. */
const PARKED_MS = 20_000;
/** Messages that wait with a sign at a time: a channel takes no more in the time in which they have to be renewed. */
const MAX_WAITS = 100;
/** The most channels and conversations whose pauses are kept. */
const MAX_KNOWN = 1_000;

/** When signs on a channel or in a conversation go on; times are monotonic. */
interface Pause {
  until: number;
  shownAt?: number;
  failures: number;
  failedAt: number;
}

interface SignDeps {
  store: Reads;
  clock: Clock;
  log: Logger;
  channels(): Channels;
}

/** The sign that is shown for a run: its turn goes on with the sign of its wait. */
interface Shown {
  sign?: TypingSign;
  at?: Ms;
}

/** True if a run that has not begun will begin soon. */
function isWaiting({ status, createdAt }: RunRecord, now: Ms): boolean {
  if (status === "queued" || status === "collecting") return now - createdAt < QUEUED_MS;
  return status === "parked" && now - createdAt < PARKED_MS;
}

/** Shows people that the agent works on an answer to them. */
export class TypingSigns {
  readonly #deps: SignDeps;
  readonly #pauses = new Map<string, Pause>();
  /** The signs of messages that wait. A turn that begins takes its entry over. */
  readonly #waits = new Map<string, Shown>();
  readonly #stopped = new AbortController();

  constructor(deps: SignDeps) {
    this.#deps = deps;
  }

  /** Does the work of a run's turn; meanwhile the sign is shown where the message was written that the turn answers. */
  async during<T>(
    { runId, route, signal }: { runId: string; route: Route; signal: AbortSignal },
    work: () => Promise<T>,
  ): Promise<T> {
    const ended = new AbortController();
    const stop = AbortSignal.any([signal, ended.signal]);
    const shown: Shown = { ...this.#waits.get(runId) };
    this.#waits.delete(runId);
    void this.#renew({ runId, route, stop, shown }).then(() => {
      // A turn that another reason has cut off goes on, here or at another gateway.
      if (!signal.aborted || signal.reason === "cancel") return this.#hide(route, shown);
    });
    try {
      return await work();
    } finally {
      ended.abort();
    }
  }

  /** Shows the sign for a message whose turn has not begun, for as long as it will begin soon. */
  whileWaiting(runId: string): void {
    if (this.#waits.has(runId) || this.#waits.size >= MAX_WAITS) return;
    const shown: Shown = {};
    this.#waits.set(runId, shown);
    this.#wait(runId, shown)
      .catch((error: unknown) =>
        this.#deps.log.debug(
          { runId, err: safeError(error) },
          "the typing sign of a message that waits could not be shown",
        ),
      )
      .finally(() => {
        if (this.#isOf(runId, shown)) this.#waits.delete(runId);
      });
  }

  /** Ends the signs of messages that wait. */
  stop(): void {
    this.#stopped.abort();
  }

  /** True while a wait goes on: no turn of this gateway has taken it over. */
  #isOf(runId: string, shown: Shown): boolean {
    return !this.#stopped.signal.aborted && this.#waits.get(runId) === shown;
  }

  async #wait(runId: string, shown: Shown): Promise<void> {
    const { clock, store } = this.#deps;
    const { signal: stop } = this.#stopped;
    await clock.sleep(FIRST_MS, stop);
    let run: RunRecord | undefined;
    const goesOn = async (): Promise<boolean> => {
      if (!this.#isOf(runId, shown)) return false;
      run = await store.runs.get(runId);
      return run !== undefined && isWaiting(run, clock.now()) && this.#isOf(runId, shown);
    };
    if (!(await goesOn())) return;
    if (run?.kind !== "channel" || run.spec.command) return;
    const route = replyRoute(run.spec);
    await this.#renew({ runId, route, stop, shown, goesOn });
    // The sign of a turn that has begun, here or at another gateway, is its own.
    if (this.#isOf(runId, shown) && run?.status !== "running") await this.#hide(route, shown);
  }

  /** Shows the sign until `stop` aborts, or `goesOn` says no. */
  async #renew({
    runId,
    route: { channel, ...place },
    stop,
    shown,
    goesOn,
  }: {
    runId: string;
    route: Route;
    stop: AbortSignal;
    shown: Shown;
    goesOn?: () => Promise<boolean>;
  }): Promise<void> {
    const { clock, channels, log } = this.#deps;
    const conversation = JSON.stringify([channel, place.to, place.thread]);
    if (!goesOn) await clock.sleep(this.#getFirstWait(shown), stop);
    while (!stop.aborted) {
      const sign = channels().get(channel)?.channel.typing;
      if (!sign) return;
      const now = readMonotonic(clock);
      const { until, shownAt = -Infinity } = this.#get(conversation);
      // The turn before which a message waits shows the sign in the same conversation.
      const next = goesOn ? Math.max(until, shownAt + sign.everyMs) : until;
      const waitMs = Math.max(this.#get(channel).until, next) - now;
      if (waitMs <= 0) {
        this.#set(channel, { until: now + CHANNEL_GAP_MS });
        this.#set(conversation, { until: now + CONVERSATION_GAP_MS, shownAt: now });
        const result = await sendPiece((signal) => sign.show(place, signal), clock, stop, CALL_MS);
        if (result.status !== "failed") Object.assign(shown, { sign, at: now });
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
      if (goesOn && !(await goesOn())) return;
    }
  }

  /** The time until a turn shows its first sign: that of its wait may still stand. */
  #getFirstWait({ sign, at }: Shown): Ms {
    if (!sign || at === undefined) return FIRST_MS;
    return Math.max(0, at + sign.everyMs - readMonotonic(this.#deps.clock));
  }

  async #hide(place: TypingPlace, { sign }: Shown): Promise<void> {
    const hide = sign?.hide?.bind(sign);
    const never = new AbortController().signal;
    if (hide) await sendPiece((signal) => hide(place, signal), this.#deps.clock, never, CALL_MS);
  }

  /** Has the next sign wait, the longer the more errors there were in a row. Calls side by side that fail count once. */
  #pause(key: string, startedAt: number, afterMs = 0): void {
    const now = readMonotonic(this.#deps.clock);
    const { failures: before, failedAt, until } = this.#get(key);
    const failures = failedAt > startedAt ? before : before + 1;
    const next = now + Math.max(afterMs, backOff(failures, WAITS.typingSign));
    this.#set(key, { failures, failedAt: now, until: Math.max(until, next) });
  }

  #get(key: string): Pause {
    return this.#pauses.get(key) ?? { until: 0, failures: 0, failedAt: 0 };
  }

  #set(key: string, change: Partial<Pause>): void {
    const changed = { ...this.#get(key), ...change };
    // The entry that was changed last goes to the end.
    this.#pauses.delete(key);
    this.#pauses.set(key, changed);
    const [oldest = key] = this.#pauses.keys();
    if (this.#pauses.size > MAX_KNOWN) this.#pauses.delete(oldest);
  }
}
