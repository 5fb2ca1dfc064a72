import { isInLine, type Amounts, type RunRecord } from "../store/types.ts";

/** What a run takes when it starts. */
export interface Need extends Pick<Amounts, "starts" | "places"> {
  /** Whether the run is among those that `Counted.inLine` counts. */
  isInLine: boolean;
}

/** A start counts once for all tries of a run; a run that a crash cut off has its place still. */
export const toNeed = (run: RunRecord): Need => ({
  starts: run.attempts === 0 ? 1 : 0,
  places: run.status === "running" ? 0 : 1,
  isInLine: isInLine(run),
});
