import { sessionId, type Job, type RunAction, type RunError, type RunRecord } from "../store/types.ts";
import { summaryEvent, writeEnd } from "./finish.ts";
import type { RunJob, TurnDeps } from "./types.ts";

/** What the job carries that closes a window. */
export interface CollectJob {
  type: "collect";
  runId: string;
}

/** Closes a window: what its events come to together becomes the run, which is queued under the id that callers know. */
export async function executeCollect(job: Job, data: CollectJob, deps: TurnDeps): Promise<void> {
  const { store, clock, admission } = deps;
  const openUntil = await admission.closeWindow(data.runId, clock.now());
  if (openUntil !== undefined) {
    await store.commit((tx) => tx.retryJob(job, openUntil, { resetAttempts: true }), job);
    return;
  }
  const events = await store.getCollected(data.runId);
  const run = await store.getRun(data.runId);
  if (!run || run.status !== "collecting" || run.mapping === undefined) {
    await store.commit((tx) => tx.completeJob(job), job);
    return;
  }
  const { debug, ...combined } = await deps.combine(run.mapping, events);
  const noted = debug ? { debug } : {};
  if (combined.ok && "action" in combined) {
    const { action } = combined;
    return queueRun(job, run, { ...action, spec: { ...action.spec, ...noted } }, deps);
  }
  const error: RunError = combined.ok ? { code: "skipped", message: combined.skipped } : combined.failure;
  await end(
    job,
    { ...run, spec: { ...run.spec, ...noted } },
    { code: error.code, message: error.message },
    combined.ok ? "cancelled" : "failed",
    deps,
  );
}

async function queueRun(job: Job, run: RunRecord, action: RunAction, { store, clock, admission }: TurnDeps): Promise<void> {
  const now = clock.now();
  const { spec, warnings } = action;
  const { parked } = admission.place(run, now);
  await store.commit((tx) => {
    tx.updateRun(run.id, { spec, warnings, ...(parked ? { status: "parked", parked } : { status: "queued" }) });
    tx.dropCollected(run.id);
    tx.completeJob(job);
    tx.enqueue({
      id: run.id,
      kind: "turn",
      key: sessionId(spec.session),
      data: { type: "run", runId: run.id } satisfies RunJob,
      enqueuedAt: now,
      ...(parked?.until === undefined ? {} : { runAt: parked.until }),
    });
  }, job);
}

async function end(job: Job, run: RunRecord, error: RunError, status: "cancelled" | "failed", deps: TurnDeps): Promise<void> {
  const now = deps.clock.now();
  const context = deps.context();
  await deps.store.commit((tx) => {
    writeEnd(tx, run, { status, error, endedAt: now, spec: run.spec }, { context, now });
    tx.addSystemEvent(summaryEvent(run, context.agents.standard.id, now, { reason: error.message }));
    tx.dropCollected(run.id);
    tx.completeJob(job);
  }, job);
  deps.admission.over(run, { tokens: 0, again: false });
  deps.onRunEnd(run.id);
}
