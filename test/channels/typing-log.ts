import { UNAVAILABLE, type Answer } from "./wire.ts";

/** The signs that the agent is typing, as they came to a vendor's server, and how it answers the next ones. */
export interface TypingLog {
  signs: { to: string; thread: string | undefined; message?: unknown; at: number }[];
  /** Signs that were taken away. */
  hidden: number;
  mode: "ok" | "hang" | "unavailable";
}

export const createTypingLog = (): TypingLog => ({ signs: [], hidden: 0, mode: "ok" });

/** Keeps a sign. Returns its answer if it fails. */
export function keepSign(
  log: TypingLog,
  to: string,
  thread?: string,
  message?: unknown,
): Answer | undefined {
  log.signs.push({ to, thread, message, at: performance.now() });
  return failSign(log);
}

/** The answer to a sign that fails. */
export const failSign = ({ mode }: TypingLog): Answer | undefined =>
  mode === "hang" ? "hang" : mode === "unavailable" ? UNAVAILABLE : undefined;
