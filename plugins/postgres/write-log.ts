import {
  type ApprovalDecision,
  type ApprovalRecord,
  type Collected,
  type DeliveryChange,
  type DeliveryRecord,
  type EventChange,
  type EventRecord,
  type EventRow,
  type ExpectedRun,
  type Job,
  type JobKind,
  type LastRoute,
  type Ms,
  newDeliveryRecord,
  type NewJob,
  type NewSystemEvent,
  type RefusedDecision,
  type RunChange,
  type SessionRef,
  type StoredAction,
  type SystemEventState,
  type ToolCallChange,
  type UsedConfig,
  toEventRow,
  toRunRow,
  toStepRow,
  toWrites,
  type Writes,
} from "#store-kit";

export type LoggedRunRow = ReturnType<typeof toRunRow>;

/** An event as it goes into the database, with what has to be made of it. */
export interface NewEvent {
  row: EventRow;
  actions: readonly StoredAction[];
}

export type JobOp =
  | { op: "enqueue"; job: NewJob; data: string }
  | { op: "complete"; job: Job }
  | { op: "retry"; job: Job; runAt: Ms; reset: boolean; key?: string }
  | { op: "reschedule"; kind: JobKind; id: string; runAt: Ms; key?: string }
  | { op: "remove"; kind: JobKind; id: string };

/** A turn as its row. `covered` is set on checkpoints. */
export interface PlannedTurn {
  record: string;
  covered: number | undefined;
}

export type SessionOp = { ref: SessionRef } & (
  | { op: "append"; at: Ms; turn: PlannedTurn }
  | { op: "reset" }
  | { op: "delete" }
);

export type StepOp =
  | { op: "step"; row: ReturnType<typeof toStepRow> }
  | { op: "call"; runId: string; callId: string; change: ToolCallChange }
  | { op: "result"; id: string; runId: string; record: string }
  | { op: "approval"; approval: ApprovalRecord }
  | { op: "decision"; id: string; decision: ApprovalDecision }
  | { op: "refused"; id: string; refused: RefusedDecision };

/** What one commit asks for, table by table; within a table in the order in which it was asked for. */
export interface Ops {
  events: NewEvent[];
  eventChanges: { id: string; change: EventChange }[];
  runs: (
    | { op: "insert"; row: LoggedRunRow }
    | { op: "update"; id: string; change: RunChange; expected?: ExpectedRun }
  )[];
  deliveries: (
    | { op: "insert"; record: DeliveryRecord }
    | { op: "update"; id: string; change: DeliveryChange }
  )[];
  sessions: SessionOp[];
  systemEvents: { event: NewSystemEvent; record: string }[];
  systemEventChanges: { ids: readonly string[]; state?: SystemEventState; failed?: boolean }[];
  routes: LastRoute[];
  values: { key: string; value: string }[];
  configs: UsedConfig[];
  dropped: string[];
  steps: StepOp[];
  jobs: JobOp[];
}

export const newEvent = (event: EventRecord): NewEvent => ({
  row: toEventRow(event),
  actions: event.actions,
});

export const noOps = (): Ops => ({
  events: [],
  eventChanges: [],
  runs: [],
  deliveries: [],
  sessions: [],
  systemEvents: [],
  systemEventChanges: [],
  routes: [],
  values: [],
  configs: [],
  dropped: [],
  steps: [],
  jobs: [],
});

/** A collected event as it is kept. */
export const collectedRecord = (event: Collected): string => JSON.stringify(event);

/** A change is merged into its record later, where others would suffer from what is no JSON. */
const refuseUnkept = (change: object): void => void JSON.stringify(change);

/**
 * Notes in `ops` what a commit asks for. What cannot be kept (a value that is no JSON) throws here, in the caller's own
 * call.
 */
export const createWriteLog = (ops: Ops): Writes =>
  toWrites({
    add: {
      run: (run) => void ops.runs.push({ op: "insert", row: toRunRow(run) }),
      turn(ref, turn) {
        const planned = { record: JSON.stringify(turn), covered: turn.checkpoint?.covered };
        ops.sessions.push({ op: "append", ref, at: turn.at, turn: planned });
      },
      systemEvent: (event) => void ops.systemEvents.push({ event, record: JSON.stringify(event) }),
      delivery: (delivery) =>
        void ops.deliveries.push({ op: "insert", record: newDeliveryRecord(delivery) }),
      job: (job) => void ops.jobs.push({ op: "enqueue", job, data: JSON.stringify(job.data) }),
      step: (step) => void ops.steps.push({ op: "step", row: toStepRow(step) }),
      toolResult: (result) =>
        void ops.steps.push({
          op: "result",
          id: result.id,
          runId: result.runId,
          record: JSON.stringify(result),
        }),
      approval(approval) {
        refuseUnkept(approval);
        ops.steps.push({ op: "approval", approval });
      },
      decision: (id, decision) => void ops.steps.push({ op: "decision", id, decision }),
      refusedDecision: (id, refused) => void ops.steps.push({ op: "refused", id, refused }),
    },
    set: {
      lastRoute: (route) => void ops.routes.push(route),
      value: (key, value) => void ops.values.push({ key, value: JSON.stringify(value) }),
      config: (config) => void ops.configs.push(config),
    },
    update: {
      event: (id, change) => void ops.eventChanges.push({ id, change }),
      run(id, change, expected) {
        refuseUnkept(change);
        ops.runs.push({ op: "update", id, change, ...(expected && { expected }) });
      },
      delivery(id, change) {
        refuseUnkept(change);
        ops.deliveries.push({ op: "update", id, change });
      },
      systemEvents: (ids, change) => void ops.systemEventChanges.push({ ids, ...change }),
      job: (kind, id, runAt, key) =>
        void ops.jobs.push({
          op: "reschedule",
          kind,
          id,
          runAt,
          ...(key === undefined ? {} : { key }),
        }),
      toolCall(runId, callId, change) {
        refuseUnkept(change);
        ops.steps.push({ op: "call", runId, callId, change });
      },
    },
    delete: {
      session: (ref) => void ops.sessions.push({ op: "delete", ref }),
      turns: (ref) => void ops.sessions.push({ op: "reset", ref }),
      collected: (runId) => void ops.dropped.push(runId),
      job: (kind, id) => void ops.jobs.push({ op: "remove", kind, id }),
    },
    settle(job, runAt, options) {
      if (runAt === undefined) ops.jobs.push({ op: "complete", job });
      else {
        const { resetAttempts = false, key } = options ?? {};
        ops.jobs.push({
          op: "retry",
          job,
          runAt,
          reset: resetAttempts,
          ...(key === undefined ? {} : { key }),
        });
      }
    },
  });
