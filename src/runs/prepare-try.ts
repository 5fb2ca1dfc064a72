import type { Agent } from "../agent/types.ts";
import type { RunRecord } from "../store/types.ts";
import { NotNowError } from "./attachments.ts";
import type { Try } from "./end-run.ts";
import { planAfterFailure } from "./provider-wait.ts";
import type { FailedTurn, Prepared } from "./run-kind.ts";

const toFailure = (message: string): FailedTurn => ({
  ok: false,
  code: "provider_error",
  message,
  retryable: true,
  warnings: [],
});

/**
 * Prepares a try of a run, or says what the run has to wait for: a file that cannot be read now, such as a voice message whose
 * endpoint is busy. The last try that the run may have does not wait, and gets a note in place of the file.
 */
export async function prepareTry(
  run: RunRecord,
  agent: Agent,
  current: Try,
): Promise<Prepared | FailedTurn> {
  const { kind, deps, isStored, steps } = current;
  const attempt = {
    kind,
    run,
    isStored,
    hasSteps: steps.length > 0,
    hasProgress: false,
    now: deps.clock.now(),
  };
  const mayWait = kind.job !== undefined && planAfterFailure(toFailure(""), attempt).do === "retry";
  try {
    return await kind.prepare(run, agent, mayWait);
  } catch (error) {
    if (error instanceof NotNowError) return toFailure(error.message);
    throw error;
  }
}
