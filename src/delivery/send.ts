import type { CallOutcome } from "../core/breaker.ts";
import type { Clock } from "../core/clock.ts";
import { safeError } from "../core/errors.ts";
import { cutText, oneLine } from "../core/text.ts";
import type { SendResult } from "../contract/channel.ts";

/** Time for one piece; then the plugin's signal aborts. */
const SEND_TIMEOUT_MS = 30_000;
/** How long a plugin may take to tell how a send that was aborted has ended. */
const GRACE_MS = 1_000;
const MAX_REASON = 300;
const MAX_ID = 500;

/** What a plugin answered, in the shape that the contract promises. An answer that says nothing may have been sent. */
function checkResult(result: unknown): SendResult {
  const given = (typeof result === "object" && result !== null ? result : {}) as Record<
    string,
    unknown
  >;
  const { status, reason, afterMs, messageIds, uncertain } = given;
  if (status === "sent") {
    const ids = Array.isArray(messageIds)
      ? messageIds.filter((id): id is string => typeof id === "string" && id.length <= MAX_ID)
      : [];
    return { status, messageIds: ids };
  }
  const text = typeof reason === "string" ? cutText(oneLine(reason), MAX_REASON).text : "";
  if (status === "retry") {
    const wait =
      typeof afterMs === "number" && Number.isFinite(afterMs) && afterMs >= 0 ? { afterMs } : {};
    return {
      status,
      reason: text || "the channel gave no reason",
      ...wait,
      ...(uncertain === true && { uncertain }),
    };
  }
  if (status === "failed" || status === "unknown")
    return { status, reason: text || "the channel gave no reason" };
  return { status: "unknown", reason: "the plugin did not say how sending ended" };
}

/**
 * Sends one piece by a plugin's `call`: never throws and never takes longer than the timeout, whatever the plugin does. A
 * thrown error counts as `retry`, with the error's code alone as the reason.
 */
export async function sendPiece(
  call: (signal: AbortSignal) => Promise<SendResult>,
  clock: Clock,
  stop: AbortSignal,
  timeoutMs = SEND_TIMEOUT_MS,
): Promise<SendResult> {
  const abort = new AbortController();
  const settled = new AbortController();
  const renderTimeout = (): string =>
    stop.aborted ? "the gateway stopped" : `no answer within ${timeoutMs / 1000} seconds`;
  const send = async (): Promise<SendResult> => {
    try {
      return checkResult(await call(abort.signal));
    } catch (error) {
      const { code, name, status } = safeError(error);
      const reason = abort.signal.aborted
        ? renderTimeout()
        : `sending failed (${[code ?? name, status].filter((part) => part !== undefined).join(", ")})`;
      return { status: "retry", reason };
    } finally {
      settled.abort();
    }
  };
  const giveUp = async (): Promise<SendResult> => {
    await clock.sleep(timeoutMs, AbortSignal.any([stop, settled.signal]));
    if (!settled.signal.aborted) abort.abort();
    await clock.sleep(GRACE_MS, settled.signal);
    return { status: "retry", reason: renderTimeout() };
  };
  const sending = send();
  // A send that has ended just as the wait did is what counts.
  return Promise.race([
    sending,
    giveUp().then((result) => (settled.signal.aborted ? sending : result)),
  ]);
}

/** What the result of a send says about the vendor. A vendor that names a wait limits its callers, and is not away. */
export function toOutcome(result: SendResult, signal: AbortSignal): CallOutcome {
  if (signal.aborted || result.status === "unknown") return "none";
  if (result.status === "sent") return "ok";
  if (result.status === "failed") return "answered";
  return result.afterMs === undefined ? "away" : "busy";
}
