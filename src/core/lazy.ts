/** A part that is created at its first use. */
export interface Lazy<T> {
  (): Promise<T>;
  /** The part if it exists, without creating it. */
  current(): Promise<T> | undefined;
  /** Discards the part. The next use creates a new one. */
  reset(): void;
}

/**
 * Creates a part at its first use, once for all callers: a part that is never used must not cost start time or memory.
 * If the creation fails, the next use tries again.
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
