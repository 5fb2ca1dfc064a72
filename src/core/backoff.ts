/** The bounds of the wait between attempts, in milliseconds. */
export interface Backoff {
  firstMs?: number;
  longestMs?: number;
}

/**
 * The time to wait after so many failures in a row, in milliseconds: the first wait, then twice as long each time, up
 * to the longest one. Without bounds: 1 s, 2 s, 4 s up to a minute. Callers add their own jitter.
 */
export function backOff(
  failures: number,
  { firstMs = 1_000, longestMs = 60_000 }: Backoff = {},
): number {
  return Math.min(firstMs * 2 ** (failures - 1), longestMs);
}
