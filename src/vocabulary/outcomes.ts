/** The outcomes of events. */
export const OUTCOMES = [
  "accepted",
  "skipped",
  "unmatched",
  "duplicate",
  "rejected",
  "failed",
] as const;
export type EventOutcome = (typeof OUTCOMES)[number];
