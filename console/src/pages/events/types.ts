// The answers of the admin API about events.
export type {
  EventDetail as EventInFull,
  EventView as EventRow,
} from "../../../../src/operate/records/views.ts";
export type { Explanation as ExplanationView } from "../../../../src/operate/records/explain.ts";
export type {
  PlacedTrace as Trace,
  TestedAction as ActionView,
  TestedHook as Evaluation,
} from "../../../../src/operate/records/test-hook.ts";
export type { Failure as FailureView } from "../../../../src/core/errors.ts";
export type { ReplayResult as ReplayView } from "../../../../src/intake/types.ts";
