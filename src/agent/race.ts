/** Returns what a promise becomes. Rejects when the signal aborts: whoever does not listen to it must not hold up a turn. */
export async function raceAbort<T>(made: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = (): void => reject(new DOMException("no answer in time", "TimeoutError"));
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) abort();
  return Promise.race([made, aborted]).finally(() => signal.removeEventListener("abort", abort));
}
