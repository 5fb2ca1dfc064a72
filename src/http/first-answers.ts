import { RouseError, type Failure } from "../core/errors.ts";

/** The time between two looks if the store answers, while callers wait. */
const LOOK_MS = 100;

export interface FirstAnswers {
  /** The same answer, or a rejection as soon as the store is known not to answer. */
  before<T>(answer: Promise<T>): Promise<T>;
}

/** Lets an answer begin while the store can be asked, or fail with the error that it cannot. */
export function answerInTime(
  answer: () => Promise<Response>,
  { firstAnswers }: { firstAnswers: FirstAnswers | undefined },
): Promise<Response> {
  return firstAnswers ? firstAnswers.before(answer()) : answer();
}

/**
 * Bounds how long callers wait for the beginning of an answer while the store hangs: senders give up after some seconds,
 * without an answer that asks them to try again. `responding`: see `Cluster`; `unavailable`: what they are answered.
 */
export function createFirstAnswers(responding: () => boolean, unavailable: Failure): FirstAnswers {
  const waiting = new Set<(reason: unknown) => void>();
  let timer: NodeJS.Timeout | undefined;

  const stop = (): void => {
    clearInterval(timer);
    timer = undefined;
  };
  const look = (): void => {
    if (responding()) return;
    for (const reject of waiting) reject(new RouseError(unavailable));
  };

  return {
    before: (answer) =>
      new Promise((resolve, reject) => {
        waiting.add(reject);
        timer ??= setInterval(look, LOOK_MS).unref();
        answer.then(resolve, reject).finally(() => {
          waiting.delete(reject);
          if (waiting.size === 0) stop();
        });
      }),
  };
}
