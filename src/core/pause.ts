import { setImmediate } from "node:timers/promises";

/** Returns what a promise becomes. Rejects when the signal aborts: whoever does not listen to it must not hold up a turn. */
export async function raceAbort<T>(made: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = (): void => reject(new DOMException("no answer in time", "TimeoutError"));
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) abort();
  return Promise.race([made, aborted]).finally(() => signal.removeEventListener("abort", abort));
}

/** After so much work, in milliseconds, requests and messages get their turn. */
const TURN_MS = 10;

/**
 * Returns what long work calls between its parts: it gives the event loop a turn if the last one is some time ago, and else
 * returns undefined.
 */
export function createPause(): () => Promise<void> | undefined {
  let turned = performance.now();
  return () => {
    if (performance.now() - turned < TURN_MS) return undefined;
    return setImmediate().then(() => void (turned = performance.now()));
  };
}

/**
 * Asks a question once for all who ask it during one turn of the event loop. Who asks later gets an answer of its own, which
 * knows of all that was done before.
 * @param toName tells questions apart
 */
export function shareInTurn<Q, A>(
  ask: (question: Q) => Promise<A>,
  toName: (question: Q) => string,
): (question: Q) => Promise<A> {
  const asked = new Map<string, Promise<A>>();
  return (question) => {
    const name = toName(question);
    const known = asked.get(name);
    if (known) return known;
    const answer = setImmediate().then(() => {
      asked.delete(name);
      return ask(question);
    });
    asked.set(name, answer);
    return answer;
  };
}
