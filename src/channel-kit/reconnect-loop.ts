import { backOff } from "../core/backoff.ts";
import type { ChannelHost } from "../contract/channel.ts";
import { classifyError, ChannelError, type FailedSend, type ErrorRules } from "./errors.ts";
import { sleep } from "./kit.ts";

/** A connection that lasted so long was a good one. */
const STABLE_MS = 10_000;

/** A reason, and how long it is until the next try. */
export const retryMessage = (reason: string, waitMs: number): string =>
  `${reason}; trying again in ${waitMs / 1000} s`;

export interface Reconnecting {
  /**
   * One connection, from its start to its end, or one poll. It may report at any time, to a watched host. Returns how long to
   * wait until the next poll, in milliseconds, or undefined if a connection ended. Throws if it failed.
   */
  connect(host: ChannelHost): Promise<number | void>;
  /** Tells the errors: messages of those that are no `ChannelError` may quote anything. */
  vendor: ErrorRules;
  /** What is reported. Default: the reason alone. */
  say?(reason: string, waitMs: number): string;
  stableMs?: number | undefined;
}

/**
 * A host that tells a message that could not be written down from all other errors, by a `ChannelError` that quotes nothing
 * of it, and to which the same good state is reported once.
 */
export function watch(host: ChannelHost): ChannelHost {
  let up: string | undefined;
  return {
    receive: (message) =>
      host.receive(message).catch((cause: unknown) => {
        throw new ChannelError("a message could not be written down", undefined, { cause });
      }),
    decide: (press) =>
      host.decide(press).catch((cause: unknown) => {
        throw new ChannelError("a decision could not be written down", undefined, { cause });
      }),
    notDelivered: (message) => host.notDelivered(message),
    cursor: () => host.cursor(),
    saveCursor: (cursor) => host.saveCursor(cursor),
    report(state) {
      if (state.ok && state.message === up) return;
      up = state.ok ? state.message : undefined;
      host.report(state);
    },
  };
}

/**
 * Keeps a connection until `signal` aborts: reconnects whenever it ends, immediately if it worked, else after a growing
 * pause (1 s to 1 min, or what the vendor asks for), and reports what is wrong.
 */
export async function reconnectLoop(
  signal: AbortSignal,
  host: ChannelHost,
  reconnecting: Reconnecting,
): Promise<void> {
  const { connect, vendor, say = (reason) => reason, stableMs = STABLE_MS } = reconnecting;
  let watched = watch(host);
  for (let failures = 0; !signal.aborted;) {
    const begun = performance.now();
    let failure: FailedSend | undefined;
    let next: number | void = undefined;
    try {
      next = await connect(watched);
    } catch (error) {
      failure = classifyError(vendor, error);
    }
    if (signal.aborted) return;
    // The next connection reports again that it is established; the next poll does not.
    if (next === undefined) watched = watch(host);
    const good = next !== undefined || performance.now() - begun >= stableMs;
    if (good) failures = 0;
    if (!good || failure) {
      failures++;
      const asked = failure?.status === "retry" ? (failure.afterMs ?? 0) : 0;
      const wait = Math.max(backOff(failures), asked);
      watched.report({
        ok: false,
        message: say(failure?.reason ?? "connections do not last; trying again", wait),
      });
      // If all gateways lost their connection at the same moment, they do not reconnect at the same moment.
      next = asked > 0 ? wait : wait * (1 + Math.random() / 4);
    }
    if (next) await sleep(next, signal);
  }
}

/**
 * Stores the position in a vendor's stream as it advances: immediately if `now` is set, as for a message, else only if
 * the position on disk is older than `everyMs` milliseconds. `save` stores it in any case.
 */
export function checkpoint(host: ChannelHost, everyMs: number) {
  let place: string | undefined;
  let savedAt = -Infinity;
  const save = async (): Promise<void> => {
    savedAt = performance.now();
    if (place !== undefined) await host.saveCursor(place);
  };
  return {
    save,
    async move(to: string, now: boolean): Promise<void> {
      place = to;
      if (now || performance.now() - savedAt >= everyMs) await save();
    },
  };
}
