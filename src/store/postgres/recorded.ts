import { eventColumns, newDeliveryRecord, runColumns, type EventRow } from "../rows.ts";
import type {
  Collected,
  DeliveryChange,
  DeliveryRecord,
  EventRecord,
  Job,
  JobKind,
  LastRoute,
  Ms,
  NewDelivery,
  NewJob,
  NewSystemEvent,
  NewTurn,
  RunChange,
  RunRecord,
  SessionRef,
  StoredAction,
  SystemEventState,
  Writes,
} from "../types.ts";

export type RunRow = ReturnType<typeof runColumns>;

/** An event as it goes into the database, with what has to be made of it. */
export interface NewEvent {
  row: EventRow;
  actions: readonly StoredAction[];
}

export type JobOp =
  | { op: "enqueue"; job: NewJob; data: string }
  | { op: "complete"; job: Job }
  | { op: "retry"; job: Job; runAt: Ms; reset: boolean }
  | { op: "reschedule"; kind: JobKind; id: string; runAt: Ms }
  | { op: "remove"; kind: JobKind; id: string };

export type SessionOp = { ref: SessionRef } & ({ op: "append"; at: Ms; record: string } | { op: "reset" } | { op: "delete" });

/** What one commit asks for, table by table; within a table in the order in which it was asked for. */
export interface Ops {
  events: NewEvent[];
  runs: ({ op: "insert"; row: RunRow } | { op: "update"; id: string; change: RunChange })[];
  deliveries: ({ op: "insert"; record: DeliveryRecord } | { op: "update"; id: string; change: DeliveryChange })[];
  sessions: SessionOp[];
  systemEvents: { event: NewSystemEvent; record: string }[];
  systemEventChanges: { ids: readonly string[]; state?: SystemEventState; failed?: boolean }[];
  routes: LastRoute[];
  values: { key: string; value: string }[];
  dropped: string[];
  jobs: JobOp[];
}

export const newEvent = (event: EventRecord): NewEvent => ({ row: eventColumns(event), actions: event.actions });

export const noOps = (): Ops => ({
  events: [],
  runs: [],
  deliveries: [],
  sessions: [],
  systemEvents: [],
  systemEventChanges: [],
  routes: [],
  values: [],
  dropped: [],
  jobs: [],
});

/** A collected event as it is kept. */
export const collectedRecord = (event: Collected): string => JSON.stringify(event);

/** A change is merged into its record later, where others would suffer from what is no JSON. */
const refuseUnkept = (change: object): void => void JSON.stringify(change);

/** Notes what a commit asks for; what cannot be kept (a value that is no JSON) throws here, in the caller's own call. */
export class RecordedWrites implements Writes {
  readonly ops: Ops = noOps();

  insertRun(run: RunRecord): void {
    this.ops.runs.push({ op: "insert", row: runColumns(run) });
  }

  updateRun(id: string, change: RunChange): void {
    refuseUnkept(change);
    this.ops.runs.push({ op: "update", id, change });
  }

  appendTurn(ref: SessionRef, turn: NewTurn): void {
    this.ops.sessions.push({ op: "append", ref, at: turn.at, record: JSON.stringify(turn) });
  }

  resetSession(ref: SessionRef): void {
    this.ops.sessions.push({ op: "reset", ref });
  }

  deleteSession(ref: SessionRef): void {
    this.ops.sessions.push({ op: "delete", ref });
  }

  addSystemEvent(event: NewSystemEvent): void {
    this.ops.systemEvents.push({ event, record: JSON.stringify(event) });
  }

  setSystemEvents(ids: readonly string[], change: { state?: SystemEventState; failed?: boolean }): void {
    this.ops.systemEventChanges.push({ ids, ...change });
  }

  addDelivery(delivery: NewDelivery): void {
    this.ops.deliveries.push({ op: "insert", record: newDeliveryRecord(delivery) });
  }

  updateDelivery(id: string, change: DeliveryChange): void {
    refuseUnkept(change);
    this.ops.deliveries.push({ op: "update", id, change });
  }

  setLastRoute(route: LastRoute): void {
    this.ops.routes.push(route);
  }

  setValue(key: string, value: unknown): void {
    this.ops.values.push({ key, value: JSON.stringify(value) });
  }

  enqueue(job: NewJob): void {
    this.ops.jobs.push({ op: "enqueue", job, data: JSON.stringify(job.data) });
  }

  completeJob(job: Job): void {
    this.ops.jobs.push({ op: "complete", job });
  }

  retryJob(job: Job, runAt: Ms, options?: { resetAttempts?: boolean }): void {
    this.ops.jobs.push({ op: "retry", job, runAt, reset: options?.resetAttempts ?? false });
  }

  rescheduleJob(kind: JobKind, id: string, runAt: Ms): void {
    this.ops.jobs.push({ op: "reschedule", kind, id, runAt });
  }

  dropCollected(runId: string): void {
    this.ops.dropped.push(runId);
  }

  removeJob(kind: JobKind, id: string): void {
    this.ops.jobs.push({ op: "remove", kind, id });
  }
}
