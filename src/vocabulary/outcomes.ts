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

/** The statuses of runs. `waiting`: a person has to decide about a tool call, and no worker is held meanwhile. */
export const RUN_STATUSES = [
  "parked",
  "collecting",
  "queued",
  "running",
  "waiting",
  "succeeded",
  "failed",
  "timed_out",
  "cancelled",
] as const;
export type RunStatus = (typeof RUN_STATUSES)[number];

/** The states that lists and counts of deliveries and receipts use. `no_route` is a delivery that failed with that error. */
export const DELIVERY_STATES = ["pending", "delivered", "failed", "no_route", "unknown"] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];
