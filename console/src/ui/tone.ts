/** What a state means to the reader: colour and mark follow it. */
export type Tone = "good" | "warn" | "bad" | "quiet";

const TONES: Record<Exclude<Tone, "quiet">, readonly string[]> = {
  good: ["accepted", "succeeded", "delivered", "ok", "done", "connected", "approved", "resolved", "passed"],
  warn: [
    ..."unmatched parked warn unknown no_route timed_out cancelled collecting waiting denied open testing pending".split(" "),
    ..."queued running snoozed draft missing processing".split(" "),
  ],
  bad: ["failed", "rejected", "fail", "failing", "expired", "lost", "error"],
};
/** The tone of a state's word. */
export const toneOf = (word: string): Tone =>
  (Object.keys(TONES) as Exclude<Tone, "quiet">[]).find((tone) => TONES[tone].includes(word)) ?? "quiet";
