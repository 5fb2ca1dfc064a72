import type { RunErrorCode } from "../core/errors.ts";
import { sessionId, type RunRecord, type RunStatus } from "../store/types.ts";
import type { Telemetry } from "../telemetry/types.ts";
import type { Agent } from "../agent/types.ts";

/** The result of one attempt of a run. `lost`: another gateway has the run. */
export interface TryEnd {
  status: RunStatus | "lost";
  error?: RunErrorCode;
}

interface TracedTry {
  deps: { telemetry?: Telemetry | undefined };
  end?: TryEnd;
}

/** Executes one attempt of a run within a span of its trace, if traces are collected. */
export function traceRun(
  { run, agent }: { run: RunRecord; agent: Agent | undefined },
  current: TracedTry,
  work: () => Promise<void>,
): Promise<void> {
  const { telemetry } = current.deps;
  if (!telemetry) return work();
  const { id, kind, eventId, mapping, attempts, spec } = run;
  const { session, trace, correlation } = spec;
  return telemetry.run(
    {
      id,
      kind,
      eventId,
      mapping,
      attempt: attempts + 1,
      agentId: session.agentId,
      agentName: agent?.name,
      session: sessionId(session),
      trace,
      correlation,
    },
    work,
    () => ({ attributes: { "rouse.run.status": current.end?.status }, error: current.end?.error }),
  );
}
