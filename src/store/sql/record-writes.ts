/** Writes the records of a commit as rows, for both drivers. A driver reads and writes the rows. */
import type { WakeMode } from "../../config/schema/common.ts";
import { RouseError } from "../../core/errors.ts";
import { NOT_OPEN, RUN_CHANGED } from "./errors.ts";
import {
  clampTimes,
  newDeliveryRecord,
  toApprovalRow,
  toCallRow,
  toDeliveryRow,
  toRunRow,
  toSessionRow,
  toStepRow,
  withChange,
  withEventChange,
  type NewSession,
} from "./rows.ts";
import {
  countChange,
  isAsExpected,
  newRun,
  PARKED_UNTIL,
  sessionId,
  withRefused,
  type ApprovalRecord,
  type DeliveryRecord,
  type FencingToken,
  type HookRun,
  type Job,
  type LimitReason,
  type MessageRun,
  type Ms,
  type NewJob,
  type NewSystemEvent,
  type NewTurn,
  type RunAction,
  type RunChange,
  type RunRecord,
  type RunState,
  type SessionRef,
  type StepRecord,
  type StoredAction,
  type SystemEventState,
  type ToolCallChange,
  type ToolCallRecord,
  type UsageRow,
  type WakeAction,
  type Writes,
} from "../types.ts";

export interface KnownCall {
  step: number;
  position: number;
  record: ToolCallRecord;
}
/** The name of a tool call. */
export const callKey = (runId: string, callId: string): string => `${runId}\n${callId}`;

/** The values that are read to be changed, by table. Events: their heads. */
export interface Kept {
  events: string;
  runs: RunState;
  deliveries: DeliveryRecord;
  tool_calls: KnownCall;
  approvals: ApprovalRecord;
}

export type RowValue = string | number | Uint8Array | null | undefined;
export type NewRow = Readonly<Record<string, RowValue>>;
type OtherTable = "steps" | "tool_results" | "turns" | "collected" | "system_events";
export type WrittenTable = keyof Kept | OtherTable;
export type SetTable = "last_routes" | "meta" | "configs";

/** Reads and writes rows in a driver. `name` tells the rows of a table apart. */
export interface RecordRows {
  /** The value under a name, as the writes before left it. */
  get<T extends keyof Kept>(table: T, name: string): Kept[T] | undefined;
  /** Adds a row, `kept` being what `get` returns of it from now on. @throws RouseError `internal` if it is there, at the latest when the commit ends. */
  insert<T extends WrittenTable>(
    table: T,
    name: string,
    row: NewRow,
    kept?: T extends keyof Kept ? Kept[T] : never,
  ): void;
  /** Adds a row unless it is there. */
  insertOnce(table: "runs" | "system_events", name: string, row: NewRow, kept?: RunState): boolean;
  /** Changes columns of the row that has these keys. */
  change<T extends keyof Kept>(
    table: T,
    name: string,
    keys: NewRow,
    row: NewRow,
    kept?: Kept[T],
  ): void;
  set(table: SetTable, name: string, row: NewRow): void;
  /** Adds a turn to a session, which is made with its first one. */
  addTurn(session: NewSession, turn: { record: string; covered: number | undefined }): void;
  /** `session`: its `sessionId`. */
  dropTurns(session: string): void;
  dropSession(session: string): void;
  dropCollected(runId: string): void;
  changeSystemEvents(
    ids: readonly string[],
    change: { state?: SystemEventState; failed?: boolean },
  ): void;
  addUsage(row: UsageRow): void;
  /** Notes if a limit holds a run back. */
  setParked(runId: string, isParked: boolean): void;
}

/** True for the token of a lease, false for a job. */
export const isFencingToken = (held: Job | FencingToken): held is FencingToken => "token" in held;

type JobName = Pick<Job, "kind" | "id">;

/** Writes jobs in a driver. */
export interface JobRows {
  add(job: NewJob): void;
  complete(job: Job): void;
  retry(job: Job, runAt: Ms, resetAttempts: boolean): void;
  /** Puts a job that its caller holds under another key. */
  move(job: Job, runAt: Ms, key: string): void;
  reschedule(job: JobName, runAt: Ms): void;
  remove(job: JobName): void;
}

/** Notes of the wakes of several events the one that is most urgent for each agent. */
export function noteWake(wakes: Map<string, WakeMode>, agentId: string, mode: WakeMode): void {
  if (mode === "now" || !wakes.has(agentId)) wakes.set(agentId, mode);
}

/** The run that an accepted action asks for. */
function buildRun(
  { runId: id, spec, warnings, mapping, parked, collect }: RunAction,
  eventId: string,
  at: number,
): HookRun | MessageRun {
  const made = { id, eventId, warnings, createdAt: at };
  if ("incoming" in spec) return newRun<MessageRun>({ ...made, kind: "channel", spec });
  const run = newRun<HookRun>({ ...made, kind: "hook", spec });
  if (mapping !== undefined) run.mapping = mapping;
  if (parked)
    Object.assign(run, { status: "parked", hold: { reason: "limit", ...parked, since: at } });
  if (collect) {
    const { key, closesAt } = collect;
    Object.assign(run, { status: "collecting", collect: { key, closesAt, count: 1, firstAt: at } });
  }
  return run;
}

/** The job that executes a run; a limit holds it back until it is released. */
export const buildRunJob = (
  { id, spec }: Pick<RunRecord, "id" | "spec">,
  enqueuedAt: Ms,
  parked?: LimitReason,
): NewJob => ({
  id,
  kind: "turn",
  key: sessionId(spec.session),
  data: { type: "run", runId: id },
  enqueuedAt,
  ...(parked && { runAt: PARKED_UNTIL }),
});

/** The jobs of an accepted run: its turn, or for a command the job that no turn holds back. */
function buildRunJobs(run: RunRecord, parked: LimitReason | undefined): NewJob[] {
  const turn = buildRunJob(run, run.createdAt, parked);
  const command = run.kind === "channel" ? run.spec.command?.name : undefined;
  if (command === undefined) return [turn];
  // `/new` also waits its turn, to delete the history between the turns before it and those after it.
  return command === "new" ? [turn, { ...turn, kind: "command" }] : [{ ...turn, kind: "command" }];
}

/** The job that closes a window of collected events. */
function collectJob(runId: string, at: Ms, closesAt: Ms): NewJob {
  return {
    id: runId,
    kind: "turn",
    key: `collect/${runId}`,
    data: { type: "collect", runId },
    enqueuedAt: at,
    runAt: closesAt,
  };
}

/** The system event that an accepted wake asks for. */
function buildSystemEvent(
  { systemEventId, agentId, text, hook, mode, unsafe, trace }: WakeAction,
  at: Ms,
): NewSystemEvent {
  return {
    id: systemEventId,
    agentId,
    at,
    text,
    source: hook,
    mode,
    unsafe,
    ...(trace && { trace }),
  };
}

export class RecordWriter {
  readonly #rows: RecordRows;
  readonly #jobs: JobRows;
  readonly #now: () => Ms;
  readonly #usageNow: () => Ms;
  readonly writes: Writes;

  /** `usageNow`: the time by which usage is counted. No record gets a time that is ahead of both. */
  constructor(rows: RecordRows, jobs: JobRows, now: () => Ms, usageNow = now) {
    this.#rows = rows;
    this.#jobs = jobs;
    this.#now = now;
    this.#usageNow = usageNow;
    this.writes = this.#createWrites();
  }

  /** Queues the work that an accepted event asks for. */
  act(action: StoredAction, eventId: string, at: Ms, wakes: Map<string, WakeMode>): void {
    if (action.kind === "wake") {
      this.#addSystemEvent(buildSystemEvent(action, at));
      return noteWake(wakes, action.agentId, action.mode);
    }
    const run = buildRun(action, eventId, at);
    const { spec: _spec, ...state } = run;
    const isNew = this.#rows.insertOnce("runs", run.id, toRunRow(run), state);
    if (isNew) this.#count(undefined, state);
    if (action.collect) return this.#collect(run.id, action.collect, isNew);
    if (!isNew) return;
    for (const job of buildRunJobs(run, action.parked)) this.#jobs.add(job);
  }

  /** The first event of a window makes the run, and the job that closes the window; later ones put that off. */
  #collect(
    id: string,
    { closesAt, event }: NonNullable<RunAction["collect"]>,
    isNew: boolean,
  ): void {
    this.#rows.insert("collected", "", { run_id: id, record: JSON.stringify(event) });
    if (isNew) return this.#jobs.add(collectJob(id, event.at, closesAt));
    const run = this.#rows.get("runs", id);
    if (run?.kind === "hook" && run.collect)
      this.#updateRun(id, { collect: { ...run.collect, closesAt, count: run.collect.count + 1 } });
    this.#jobs.reschedule({ kind: "turn", id }, closesAt);
  }

  #count(before: RunState | undefined, after: RunState): void {
    const rows = countChange(before, after, this.#usageNow());
    for (const row of rows) this.#rows.addUsage(row);
    const [{ parked } = { parked: 0 }] = rows;
    if (parked !== 0) this.#rows.setParked(after.id, parked > 0);
  }

  #addRun(run: RunRecord): void {
    const { spec: _spec, ...state } = run;
    this.#rows.insert("runs", run.id, toRunRow(run), state);
    this.#count(undefined, state);
  }

  #updateRun(id: string, { spec, ...change }: RunChange): void {
    const before = this.#rows.get("runs", id);
    if (!before) return;
    const run = withChange(before, change);
    const state = { status: run.status, ended: run.endedAt, record: JSON.stringify(run) };
    this.#rows.change("runs", id, { id }, state, run);
    this.#count(before, run);
    if (!spec) return;
    const changed = { session_key: spec.session.key, spec: JSON.stringify(spec) };
    this.#rows.change("runs", id, { id }, changed, run);
  }

  #addSystemEvent(event: NewSystemEvent): void {
    const { id, agentId: agent, at } = event;
    const row = { id, agent, at, state: "queued", record: JSON.stringify(event) };
    this.#rows.insertOnce("system_events", id, row);
  }

  #addTurn(ref: SessionRef, turn: NewTurn): void {
    const covered = turn.checkpoint?.covered;
    this.#rows.addTurn(toSessionRow(ref, turn.at), { record: JSON.stringify(turn), covered });
  }

  #addStep(step: StepRecord): void {
    const { runId, index } = step;
    this.#rows.insert("steps", `${runId}\n${index}`, toStepRow(step));
    for (const [position, call] of step.calls.entries()) {
      const kept = { step: index, position, record: call };
      this.#rows.insert(
        "tool_calls",
        callKey(runId, call.id),
        toCallRow(step, call, position),
        kept,
      );
    }
  }

  #updateCall(runId: string, callId: string, change: ToolCallChange): void {
    const name = callKey(runId, callId);
    const known = this.#rows.get("tool_calls", name);
    if (!known) return;
    const { step, position } = known;
    const record = withChange(known.record, change);
    const row = { record: JSON.stringify(record) };
    const keys = { run_id: runId, step, position };
    this.#rows.change("tool_calls", name, keys, row, { step, position, record });
  }

  #changeApproval(approval: ApprovalRecord): void {
    const { id, state, record } = toApprovalRow(approval);
    this.#rows.change("approvals", id, { id }, { state, record }, approval);
  }

  #createWrites(): Writes {
    const [rows, jobs] = [this.#rows, this.#jobs];
    const clamp = <T extends object>(record: T): T =>
      clampTimes(record, Math.min(this.#now(), this.#usageNow()));
    return {
      events: {
        update(id, change) {
          const known = rows.get("events", id);
          if (known === undefined) return;
          const head = withEventChange(known, change);
          rows.change("events", id, { id }, { head }, head);
        },
      },
      runs: {
        add: (run) => this.#addRun(clamp(run)),
        update: (id, change, expected) => {
          const run = expected && rows.get("runs", id);
          if (expected && !(run && isAsExpected(run, expected))) throw new RouseError(RUN_CHANGED);
          this.#updateRun(id, clamp(change));
        },
        dropCollected: (runId) => rows.dropCollected(runId),
      },
      steps: {
        add: (step) => this.#addStep(clamp(step)),
        updateCall: (runId, callId, change) => this.#updateCall(runId, callId, clamp(change)),
      },
      toolResults: {
        add: (result) => {
          const { id, runId } = result;
          const row = { id, run_id: runId, at: this.#now(), record: JSON.stringify(result) };
          rows.insert("tool_results", id, row);
        },
      },
      sessions: {
        addTurn: (ref, turn) => this.#addTurn(ref, clamp(turn)),
        clear: (ref) => rows.dropTurns(sessionId(ref)),
        delete: (ref) => rows.dropSession(sessionId(ref)),
        setLastRoute: ({ agentId: agent, channel, to: recipient, thread, at }) =>
          rows.set("last_routes", `${agent}\n${channel}`, {
            agent,
            channel,
            recipient,
            thread,
            at,
          }),
      },
      systemEvents: {
        add: (event) => this.#addSystemEvent(clamp(event)),
        update: (ids, change) => rows.changeSystemEvents(ids, change),
      },
      deliveries: {
        add: (delivery) => {
          const record = newDeliveryRecord(clamp(delivery));
          const { id, createdAt: created } = record;
          rows.insert("deliveries", id, { id, created, ...toDeliveryRow(record) }, record);
        },
        update: (id, change) => {
          const known = rows.get("deliveries", id);
          if (!known) return;
          const delivery = withChange(known, clamp(change));
          rows.change("deliveries", id, { id }, toDeliveryRow(delivery), delivery);
        },
      },
      approvals: {
        add: (approval) => {
          rows.insert("approvals", approval.id, toApprovalRow(approval), approval);
        },
        decide: (id, decision) => {
          const approval = rows.get("approvals", id);
          if (!approval || approval.decision) throw new RouseError(NOT_OPEN);
          this.#changeApproval({ ...approval, decision: clamp(decision) });
        },
        addRefused: (id, refused) => {
          const approval = rows.get("approvals", id);
          if (approval) this.#changeApproval(withRefused(approval, clamp(refused)));
        },
      },
      jobs: {
        add: (job) => jobs.add(job),
        reschedule: (kind, id, runAt) => jobs.reschedule({ kind, id }, runAt),
        delete: (kind, id) => jobs.remove({ kind, id }),
        settle(job, runAt, options) {
          if (runAt === undefined) jobs.complete(job);
          else if (options?.key !== undefined) jobs.move(job, runAt, options.key);
          else jobs.retry(job, runAt, options?.resetAttempts ?? false);
        },
      },
      values: {
        set: (key, value) => rows.set("meta", key, { key, value: JSON.stringify(value) }),
      },
      configs: {
        use: ({ id, usedAt, content }) => rows.set("configs", id, { id, used: usedAt, content }),
      },
    };
  }
}
