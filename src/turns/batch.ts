import { joinTraces } from "../core/http/trace-context.ts";
import type { HookRun, Job, RunError } from "../store/types.ts";
import { endHold, toQueued } from "./journal.ts";
import { buildRunJob } from "../store/sql/record-writes.ts";
import { summaryEvent } from "./hook.ts";
import { writeEnd } from "./end-run.ts";
import type { TurnDeps } from "./context.ts";

/** The data of the job that closes a batch. */
export interface BatchJob {
  type: "collect";
  runId: string;
}

/** Closes a batch: what its events come to together becomes the run, which is queued under the id that callers know. */
export async function executeBatch(job: Job, data: BatchJob, deps: TurnDeps): Promise<void> {
  const { store, clock, admission } = deps;
  const openUntil = await admission.closeBatch(data.runId, clock.now());
  if (openUntil !== undefined) {
    await store.commit((tx) => tx.jobs.settle(job, openUntil, { resetAttempts: true }), job);
    return;
  }
  const events = await store.runs.listCollected(data.runId);
  const run = await store.runs.get(data.runId);
  if (run?.kind !== "hook" || run.status !== "collecting" || run.mapping === undefined) {
    await store.commit((tx) => tx.jobs.settle(job), job);
    return;
  }
  const { debug, config, ...combined } = await deps.combine(run.mapping, events);
  const number = config === undefined ? undefined : (await store.configs.get(config))?.number;
  const by = number === undefined ? {} : { combinedBy: number };
  const noted = { ...(debug && { debug }), ...joinTraces(events) };
  if (combined.ok && "action" in combined) {
    const { action } = combined;
    return queueRun(
      job,
      run,
      { spec: { ...action.spec, ...noted }, warnings: action.warnings, ...by },
      deps,
    );
  }
  const error: RunError = combined.ok
    ? { code: "skipped", message: combined.skipped }
    : combined.failure;
  await end(
    job,
    { ...run, ...by, spec: { ...run.spec, ...noted } },
    { code: error.code, message: error.message },
    combined.ok ? "cancelled" : "failed",
    deps,
  );
}

type Combined = Pick<HookRun, "spec" | "warnings" | "combinedBy">;

async function queueRun(
  job: Job,
  run: HookRun,
  combined: Combined,
  { store, clock, admission }: TurnDeps,
): Promise<void> {
  const now = clock.now();
  const { spec } = combined;
  const parked = admission.place(run, now);
  await store.commit((tx) => {
    tx.runs.update(run.id, {
      ...combined,
      ...endHold(run, now),
      ...toQueued(parked, now),
    });
    tx.runs.dropCollected(run.id);
    tx.jobs.settle(job);
    tx.jobs.add(buildRunJob({ ...run, spec }, now, parked));
  }, job);
}

async function end(
  job: Job,
  run: HookRun,
  error: RunError,
  status: "cancelled" | "failed",
  deps: TurnDeps,
): Promise<void> {
  const now = deps.clock.now();
  const context = deps.snapshot();
  const { spec, combinedBy } = run;
  await deps.store.commit((tx) => {
    writeEnd(
      tx,
      run,
      { status, error, endedAt: now, spec, ...(combinedBy !== undefined && { combinedBy }) },
      { context, now },
    );
    tx.systemEvents.add(
      summaryEvent(run, context.agents.default.id, now, { reason: error.message }),
    );
    tx.runs.dropCollected(run.id);
    tx.jobs.settle(job);
  }, job);
  deps.admission.release(run, { again: false });
  deps.runEnds.ended(run.id);
}
