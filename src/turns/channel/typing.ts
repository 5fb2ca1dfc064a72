import type { TypingSign } from "../../contract/channel.ts";
import { backOff, WAITS } from "../../core/backoff.ts";
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../core/log.ts";
import { sendPiece } from "../../delivery/send.ts";
import type { Channels } from "../../delivery/channels.ts";
import type { Route } from "../../store/types.ts";

/** A turn that is shorter needs no sign, and none can reach the vendor after its answer. */
const FIRST_MS = 300;
/** Time for one call of a channel. */
const CALL_MS = 5_000;

interface SignedTurn {
  runId: string;
  /** The place where the message was written that the turn answers. */
  route: Route;
  channels: Channels;
  clock: Clock;
  log: Logger;
}

/** Shows the sign again and again until `stop` aborts, and less often after errors. Returns true if it may still be seen. */
async function renewSign(
  sign: TypingSign,
  { runId, route: { channel, ...place }, clock, log }: SignedTurn,
  stop: AbortSignal,
): Promise<boolean> {
  let isShown = false;
  let failures = 0;
  for (let waitMs = FIRST_MS; ;) {
    await clock.sleep(waitMs, stop);
    if (stop.aborted) return isShown;
    const result = await sendPiece((signal) => sign.show(place, signal), clock, stop, CALL_MS);
    isShown ||= result.status !== "failed";
    waitMs = sign.everyMs;
    if (result.status === "sent") failures = 0;
    else if (!stop.aborted) {
      const { status, reason } = result;
      const afterMs = status === "retry" ? (result.afterMs ?? 0) : 0;
      waitMs = Math.max(waitMs, afterMs, backOff(++failures, WAITS.typingSign));
      log.debug({ runId, channel, reason }, "the typing sign could not be shown");
    }
  }
}

/** Does the work of a turn, and meanwhile shows the person who waits for it that the agent works. */
export async function withTypingSign<T>(
  turn: SignedTurn,
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  const { route, channels, clock } = turn;
  const sign = channels.get(route.channel)?.channel.typing;
  if (!sign) return work();
  const ended = new AbortController();
  void renewSign(sign, turn, AbortSignal.any([signal, ended.signal])).then((isShown) => {
    const hide = sign.hide?.bind(sign);
    // A turn that another reason has cut off goes on, here or at another gateway.
    const isOver = !signal.aborted || signal.reason === "cancel";
    if (!hide || !isShown || !isOver) return;
    return sendPiece(
      (limited) => hide(route, limited),
      clock,
      new AbortController().signal,
      CALL_MS,
    );
  });
  try {
    return await work();
  } finally {
    ended.abort();
  }
}
