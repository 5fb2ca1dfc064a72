import {
  ID_TAKEN,
  isAsExpected,
  newDeliveryRecord,
  NOT_OPEN,
  RouseError,
  RUN_CHANGED,
  sessionId,
  toWrites,
  withChange,
  withRefused,
  type ApprovalRecord,
  type Collected,
  type ConfigRecord,
  type DedupeRecord,
  type DeliveryRecord,
  type EventRecord,
  type JobKind,
  type LastRoute,
  type Ms,
  type NewTurn,
  type RunRecord,
  type SessionRecord,
  type SessionRef,
  type StepRecord,
  type SystemEvent,
  type ToolResultRecord,
  type TurnRecord,
  type Writes,
} from "rouse/store-kit";
import { Jobs } from "./jobs.ts";

/** What a store holds. Each map keeps the order in which its records came. */
export class Data {
  readonly events = new Map<string, EventRecord>();
  /** The number of each event: later events have higher ones. */
  readonly eventNumbers = new Map<string, number>();
  readonly runs = new Map<string, RunRecord>();
  readonly deliveries = new Map<string, DeliveryRecord>();
  readonly systemEvents = new Map<string, SystemEvent>();
  readonly sessions = new Map<string, SessionRecord>();
  readonly turns = new Map<string, TurnRecord[]>();
  readonly steps = new Map<string, StepRecord>();
  readonly toolResults = new Map<string, ToolResultRecord>();
  readonly approvals = new Map<string, ApprovalRecord>();
  readonly collected = new Map<string, Collected[]>();
  readonly lastRoutes = new Map<string, LastRoute>();
  readonly keys = new Map<string, DedupeRecord>();
  readonly values = new Map<string, unknown>();
  readonly configs = new Map<string, ConfigRecord>();
  readonly jobs = new Jobs();
  #seq = 0;

  nextSeq(): number {
    return ++this.#seq;
  }
}

/** A copy that the caller cannot change. Throws if JSON cannot hold the value. */
export const copy = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

function addTurn(data: Data, ref: SessionRef, turn: NewTurn): void {
  const id = sessionId(ref);
  const { turns = 0, createdAt = turn.at } = data.sessions.get(id) ?? {};
  data.sessions.set(id, { ref, turns: turns + 1, createdAt, lastUsedAt: turn.at });
  data.turns.set(id, [...(data.turns.get(id) ?? []), { ...turn, seq: data.nextSeq() }]);
}

function emptySession(data: Data, ref: SessionRef): void {
  const session = data.sessions.get(sessionId(ref));
  if (session) session.turns = 0;
  data.turns.delete(sessionId(ref));
}

function change<T extends object>(records: Map<string, T>, id: string, changes: object): void {
  const record = records.get(id);
  if (record) records.set(id, withChange(record, changes));
}

/** The writes of one commit. They are only collected, so that a commit that fails changes nothing. */
export interface PendingWrites extends Writes {
  /** Carries the writes out. It cannot fail. Returns the kinds of jobs that may have become ready. */
  apply(): Set<JobKind>;
}

export function createWrites(data: Data, now: Ms): PendingWrites {
  const pending: (() => unknown)[] = [];
  const touched = new Set<JobKind>();
  const added = new Set<string>();
  const later = (write: () => unknown): void => void pending.push(write);
  const addAs = <T>(what: string, records: Map<string, T>, id: string, record: T): void => {
    if (records.has(id) || added.has(`${what} ${id}`)) throw new RouseError(ID_TAKEN);
    added.add(`${what} ${id}`);
    later(() => records.set(id, record));
  };
  const addOnce = <T extends { id: string }>(
    what: string,
    records: Map<string, T>,
    record: T,
  ): void => addAs(what, records, record.id, record);
  /** Approvals by id as the writes so far leave them. */
  const approvals = new Map(data.approvals);
  const keepApproval = (approval: ApprovalRecord): void => {
    approvals.set(approval.id, approval);
    later(() => data.approvals.set(approval.id, approval));
  };
  const writes = toWrites({
    add: {
      run: (run) => addOnce("run", data.runs, copy(run)),
      delivery: (delivery) =>
        addOnce("delivery", data.deliveries, copy(newDeliveryRecord(delivery))),
      turn(...given) {
        const [ref, turn] = copy(given);
        later(() => addTurn(data, ref, turn));
      },
      systemEvent(given) {
        const event = copy(given);
        later(() => {
          if (!data.systemEvents.has(event.id))
            data.systemEvents.set(event.id, {
              ...event,
              seq: data.nextSeq(),
              state: "queued",
              failures: 0,
            });
        });
      },
      job(given) {
        const job = copy(given);
        later(() => data.jobs.add(job, now) && touched.add(job.kind));
      },
      step: (step) =>
        addAs("step", data.steps, JSON.stringify([step.runId, step.index]), copy(step)),
      toolResult: (result) => addOnce("tool result", data.toolResults, copy(result)),
      approval(given) {
        const approval = copy(given);
        const isTaken = [...approvals.values()].some(
          (one) => one.id === approval.id || (!one.decision && one.code === approval.code),
        );
        if (isTaken) throw new RouseError(ID_TAKEN);
        keepApproval(approval);
      },
      decision(id, decision) {
        const approval = approvals.get(id);
        if (!approval || approval.decision) throw new RouseError(NOT_OPEN);
        keepApproval({ ...approval, decision: copy(decision) });
      },
      refusedDecision(id, refused) {
        const approval = approvals.get(id);
        if (approval) keepApproval(withRefused(approval, copy(refused)));
      },
    },
    set: {
      lastRoute(given) {
        const route = copy(given);
        later(() => data.lastRoutes.set(JSON.stringify([route.agentId, route.channel]), route));
      },
      value(key, given) {
        const value = copy(given);
        later(() => data.values.set(key, value));
      },
      config({ id, content, usedAt }) {
        later(() => {
          const known = data.configs.get(id) ?? {
            id,
            content,
            number: data.nextSeq(),
            firstUsedAt: usedAt,
            lastUsedAt: usedAt,
          };
          data.configs.set(id, { ...known, lastUsedAt: Math.max(known.lastUsedAt, usedAt) });
        });
      },
    },
    update: {
      event(id, given) {
        const changes = copy(given);
        later(() => change(data.events, id, changes));
      },
      run(id, given, expected) {
        const run = data.runs.get(id);
        if (expected && !(run && isAsExpected(run, expected))) throw new RouseError(RUN_CHANGED);
        const changes = copy(given);
        later(() => change(data.runs, id, changes));
      },
      delivery(id, given) {
        const changes = copy(given);
        later(() => change(data.deliveries, id, changes));
      },
      systemEvents(ids, { state, failed }) {
        later(() => {
          for (const event of [...data.systemEvents.values()].filter(({ id }) => ids.includes(id)))
            Object.assign(event, {
              state: state ?? event.state,
              failures: event.failures + (failed ? 1 : 0),
            });
        });
      },
      job(kind, id, runAt, key) {
        later(() =>
          key === undefined
            ? data.jobs.reschedule(kind, id, runAt, now)
            : data.jobs.move(kind, id, key, runAt, now),
        );
        touched.add(kind);
      },
      toolCall(runId, callId, given) {
        const changes = copy(given);
        later(() => {
          for (const step of data.steps.values())
            if (step.runId === runId)
              step.calls = step.calls.map((call) =>
                call.id === callId ? withChange(call, changes) : call,
              );
        });
      },
    },
    delete: {
      session(ref) {
        later(() => data.sessions.delete(sessionId(ref)));
        later(() => data.turns.delete(sessionId(ref)));
      },
      turns: (ref) => later(() => emptySession(data, ref)),
      collected: (runId) => later(() => data.collected.delete(runId)),
      job(kind, id) {
        later(() => data.jobs.delete(kind, id, now));
        touched.add(kind);
      },
    },
    settle(job, retryAt, { resetAttempts = false, key } = {}) {
      later(() => {
        if (retryAt === undefined) data.jobs.end(job, now);
        else if (key === undefined) data.jobs.putBack(job, retryAt, resetAttempts, now);
        else data.jobs.moveHeld(job, key, retryAt, now);
      });
      touched.add(job.kind);
    },
  });
  const apply = (): Set<JobKind> => {
    for (const write of pending.splice(0)) write();
    return touched;
  };
  return { ...writes, apply };
}
