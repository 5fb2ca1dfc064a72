/** A part that is made at its first use. */
export interface Lazy<T> {
  (): Promise<T>;
  /** The part if it has been asked for, without making it. */
  current(): Promise<T> | undefined;
  /** Discards the part: the next use makes a new one. */
  reset(): void;
}

/**
 * Makes a part at its first use, once for all who ask: what a gateway may never be asked for shall not make its start
 * longer, nor its memory larger. One that could not be made is tried again.
 */
export function lazy<T>(make: () => Promise<T>): Lazy<T> {
  let made: Promise<T> | undefined;
  const start = (): Promise<T> => {
    const attempt = make().catch((error: unknown) => {
      // After a reset there may be a newer attempt, which stays.
      if (made === attempt) made = undefined;
      throw error;
    });
    return attempt;
  };
  return Object.assign(() => (made ??= start()), {
    current: () => made,
    reset: () => void (made = undefined),
  });
}
