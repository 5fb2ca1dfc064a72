import type { RunRecord } from "./records.ts";

/** What a run was when it was read: a change that depends on it is made only if it is so still. */
export type ExpectedRun = Partial<Pick<RunRecord, "status" | "attempts">> & { edits: number };

export const isAsExpected = (
  { status, attempts, edits = 0 }: Omit<RunRecord, "spec">,
  expected: ExpectedRun,
): boolean =>
  (expected.status ?? status) === status &&
  (expected.attempts ?? attempts) === attempts &&
  expected.edits === edits;
