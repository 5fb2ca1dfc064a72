import { RouseError, type Failure } from "../core/errors.ts";

/** The time between two looks if the store answers, while callers wait. */
const LOOK_MS = 100;

/** Resolves like an answer, or rejects as soon as the store is known not to answer. */
export type InTime = <T>(answer: Promise<T>) => Promise<T>;

/**
 * Bounds how long callers wait for the beginning of an answer while the store hangs: senders give up after some seconds,
 * without an answer that asks them to try again.
 * @param responding see `Cluster`
 * @param unavailable the answer of callers that have waited
 */
export function createInTime(responding: () => boolean, unavailable: Failure): InTime {
  const waiting = new Set<(reason: unknown) => void>();
  let timer: NodeJS.Timeout | undefined;
  const look = (): void => {
    if (responding()) return;
    for (const reject of waiting) reject(new RouseError(unavailable));
  };
  return (answer) =>
    new Promise((resolve, reject) => {
      waiting.add(reject);
      timer ??= setInterval(look, LOOK_MS).unref();
      answer.then(resolve, reject).finally(() => {
        waiting.delete(reject);
        if (waiting.size > 0) return;
        clearInterval(timer);
        timer = undefined;
      });
    });
}
