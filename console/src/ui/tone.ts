/** The meaning of a state for the reader. It sets colour and mark. */
export type Tone = "good" | "info" | "warn" | "bad" | "quiet";

const TONES: Record<Exclude<Tone, "quiet">, readonly string[]> = {
  good: [
    "accepted",
    "succeeded",
    "delivered",
    "ok",
    "done",
    "connected",
    "approved",
    "resolved",
    "passed",
  ],
  info: "queued running collecting processing pending testing sending started extracting indexing".split(
    " ",
  ),
  warn: "unmatched parked warn unknown no_route timed_out cancelled waiting denied open missing".split(
    " ",
  ),
  bad: ["failed", "rejected", "fail", "failing", "expired", "lost", "error"],
};
/** The tone of a state's word. */
export const toneOf = (word: string): Tone =>
  (Object.keys(TONES) as Exclude<Tone, "quiet">[]).find((tone) => TONES[tone].includes(word)) ??
  "quiet";
