/** The bounds of the wait between attempts, in milliseconds. */
export interface Backoff {
  firstMs?: number;
  longestMs?: number;
}

/** The waits of all that is tried again, in milliseconds. */
export const WAITS = {
  /** Connections of channels, and jobs that have thrown. */
  default: { firstMs: 1_000, longestMs: 60_000 },
  /** A commit of what has become of work, while the store does not take it. */
  commit: { firstMs: 100, longestMs: 5_000 },
  /** A model call within its turn; a run as a whole; a heartbeat. */
  modelCall: { firstMs: 500, longestMs: 8_000 },
  run: { firstMs: 2_000, longestMs: 300_000 },
  heartbeat: { firstMs: 5_000, longestMs: 600_000 },
  /** A test of a model or channel that is away. */
  breakerTest: { firstMs: 2_000, longestMs: 60_000 },
  delivery: { firstMs: 1_000, longestMs: 900_000 },
  /** A file of a message, and the sign that the agent is typing. */
  file: { firstMs: 500, longestMs: 10_000 },
  typingSign: { firstMs: 10_000, longestMs: 300_000 },
  mcpServer: { firstMs: 500, longestMs: 60_000 },
  pluginService: { firstMs: 1_000, longestMs: 300_000 },
  embeddings: { firstMs: 5_000, longestMs: 300_000 },
} satisfies Record<string, Backoff>;

/**
 * The time to wait after so many failures in a row, in milliseconds: the first wait, then twice as long each time, up
 * to the longest one. Without bounds: 1 s, 2 s, 4 s up to a minute. `withJitter` spreads it.
 */
export function backOff(failures: number, bounds: Backoff = WAITS.default): number {
  const { firstMs, longestMs } = { ...WAITS.default, ...bounds };
  return Math.min(firstMs * 2 ** (failures - 1), longestMs);
}

/** A wait of between three quarters and five quarters, so that what has failed together is not tried again together. */
export const withJitter = (ms: number, random: () => number = Math.random): number =>
  ms * (0.75 + random() / 2);
