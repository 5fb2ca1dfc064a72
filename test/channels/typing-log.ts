/** The signs that the agent is typing, as they came to a vendor's server, and how it answers the next ones. */
export interface TypingLog {
  signs: { to: string; thread: string | undefined; message?: unknown; at: number }[];
  /** Signs that were taken away. */
  hidden: number;
  mode: "ok" | "hang" | "unavailable";
}

export const createTypingLog = (): TypingLog => ({ signs: [], hidden: 0, mode: "ok" });

/** Keeps a sign. Returns how it is to be answered. */
export function keepSign(
  log: TypingLog,
  to: string,
  thread?: string,
  message?: unknown,
): TypingLog["mode"] {
  log.signs.push({ to, thread, message, at: performance.now() });
  return log.mode;
}
