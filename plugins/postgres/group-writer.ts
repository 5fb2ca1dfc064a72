import {
  type ApprovalRecord,
  buildRun,
  buildRunJobs,
  buildSystemEvent,
  collectJob,
  countChange,
  DAY_WINDOW,
  type DeliveryRecord,
  deliveryState,
  HOUR_WINDOW,
  ID_TAKEN,
  isAsExpected,
  isFencingToken,
  type Ms,
  newDeliveryRecord,
  type NewSystemEvent,
  type NewTurn,
  NOT_OPEN,
  RouseError,
  RUN_CHANGED,
  type RunAction,
  type RunChange,
  type RunRecord,
  type SessionRef,
  sessionId,
  type StepRecord,
  type StoredAction,
  type SystemEventState,
  toApprovalRow,
  toBucket,
  toRunRow,
  toStepRow,
  toWrites,
  type WakeMode,
  withChange,
  withEventChange,
  withRefused,
  type Writes,
} from "#store-kit";
import { digest } from "./digest.ts";
import { GroupJobs } from "./group-jobs.ts";
import { Batch } from "./list-statements.ts";
import { callKey, type Loaded, type RunState } from "./loaded.ts";
import type { NewEvent, Request } from "./request.ts";
import * as statements from "./statements.ts";

export interface WriterParts {
  now: Ms;
  dbTime: (at: Ms) => Ms;
  /** The part of the counters that these groups write: no others do, so that none waits for another. */
  part: string;
}

/** Writes the requests of a group into a batch, one after the other: each sees what those before it did. */
export class GroupWriter {
  readonly #loaded: Loaded;
  readonly #parts: WriterParts;
  readonly #writes: Writes;
  readonly batch = new Batch();
  readonly jobs: GroupJobs;
  readonly wakes = new Map<string, WakeMode>();

  constructor(loaded: Loaded, parts: WriterParts) {
    this.#loaded = loaded;
    this.#parts = parts;
    this.jobs = new GroupJobs(this.batch, loaded.jobs, parts.now, parts.dbTime);
    this.#writes = this.#createWrites();
  }

  /** Returns false if `held` is not held any more, or if a window has closed: nothing is written then. */
  write({ keys, held, event, write }: Request): boolean {
    if (held && !(isFencingToken(held) ? this.#isStanding(held) : this.jobs.isHeld(held)))
      return false;
    if (event && !this.#areOpen(event)) return false;
    for (const key of keys) statements.addKey(this.batch, key, this.#parts.now);
    if (event) this.#event(event);
    write?.(this.#writes);
    return true;
  }

  #isStanding({ lease, token }: { lease: string; token: number }): boolean {
    return this.#loaded.fencingTokens.get(lease) === token;
  }

  #areOpen({ actions }: NewEvent): boolean {
    return actions.every(
      (action) =>
        action.kind !== "run" || !action.collect?.shared || this.#loaded.windows.has(action.runId),
    );
  }

  #event({ row, actions }: NewEvent): void {
    this.batch.add(statements.EVENTS, row.id, { ...row });
    for (const action of actions) this.#action(action, row.id, row.at);
  }

  #action(action: StoredAction, eventId: string, at: Ms): void {
    if (action.kind === "wake") {
      this.#addSystemEvent(buildSystemEvent(action, at));
      if (action.mode === "now" || !this.wakes.has(action.agentId))
        this.wakes.set(action.agentId, action.mode);
      return;
    }
    const run = buildRun(action, eventId, at);
    const known = this.#loaded.runs.get(run.id);
    if (!known) this.#addRun(run);
    if (action.collect) return this.#collect(run, action.collect, known);
    if (known) return;
    for (const job of buildRunJobs(run, action.parked)) this.jobs.add(job);
  }

  /** The first event of a window makes the run, and the job that closes the window; later ones put that off. */
  #collect(
    { id }: RunRecord,
    { closesAt, event }: NonNullable<RunAction["collect"]>,
    known: RunState | undefined,
  ): void {
    this.batch.put(statements.COLLECTED, this.#nextKey(), {
      run_id: id,
      record: JSON.stringify(event),
    });
    if (!known) return this.jobs.add(collectJob(id, event.at, closesAt));
    const { collect } = known;
    if (collect)
      this.#updateRun(id, { collect: { ...collect, closesAt, count: collect.count + 1 } });
    this.jobs.reschedule({ kind: "turn", id }, closesAt);
  }

  #appended = 0;
  /** A key for a row that replaces no other. */
  #nextKey(): string {
    return String(this.#appended++);
  }

  #addRun(run: RunRecord): void {
    if (this.#loaded.runs.has(run.id)) throw new RouseError(ID_TAKEN);
    const { spec: _spec, ...state } = run;
    const { id, eventId, sessionKey, status, created, ended, spec, record } = toRunRow(run);
    this.#loaded.runs.set(id, state);
    this.batch.add(statements.RUNS, id, {
      id,
      event_id: eventId,
      created,
      mapping: run.mapping,
      status,
      ended,
      record,
      session_key: sessionKey,
      spec,
    });
    this.#count(undefined, state);
  }

  #updateRun(id: string, { spec, ...change }: RunChange): void {
    const before = this.#loaded.runs.get(id);
    if (!before) return;
    const run = withChange(before, change);
    this.#loaded.runs.set(id, run);
    this.#count(before, run);
    const state = { status: run.status, ended: run.endedAt, record: JSON.stringify(run) };
    const changed = spec && { session_key: spec.session.key, spec: JSON.stringify(spec) };
    const added = this.batch.get(statements.RUNS, id);
    if (added) return this.batch.put(statements.RUNS, id, { ...added, ...state, ...changed });
    this.batch.put(statements.CHANGED_RUNS, id, { id, ...state });
    if (changed) this.batch.put(statements.CHANGED_SPECS, id, { id, ...changed });
  }

  #count(before: RunState | undefined, after: RunState): void {
    const change = countChange(before, after);
    if (!change) return;
    const { counters, running, waiting, parked, inLine, used } = change;
    const { part, dbTime, now } = this.#parts;
    const counts = { running, waiting, parked, in_line: inLine, ...used };
    const { starts, tokens, micros } = used;
    for (const counter of counters) {
      this.batch.sum(statements.COUNTS, counter, { counter, part }, counts);
      const use = (
        window: typeof HOUR_WINDOW,
        numbers: Pick<typeof used, "starts" | "tokens" | "micros">,
      ) => {
        const row = { counter, part, width: window.widthMs, at: toBucket(window, dbTime(now)) };
        this.batch.sum(statements.USAGE, `${counter} ${window.widthMs}`, row, numbers);
      };
      if (starts > 0) use(HOUR_WINDOW, { starts, tokens: 0, micros: 0 });
      if (tokens + micros > 0) use(DAY_WINDOW, { starts: 0, tokens, micros });
    }
    if (parked < 0) this.batch.put(statements.UNPARKED, after.id, { run: after.id });
    if (parked > 0) this.batch.drop(statements.UNPARKED, (_, id) => id === after.id);
  }

  #addSystemEvent(event: NewSystemEvent): void {
    const { id, agentId: agent, at, mode } = event;
    if (this.batch.get(statements.SYSTEM_EVENTS, id)) return;
    this.batch.put(statements.SYSTEM_EVENTS, id, {
      id,
      agent,
      at,
      mode,
      record: JSON.stringify(event),
    });
  }

  #changeSystemEvents(
    ids: readonly string[],
    { state, failed }: { state?: SystemEventState; failed?: boolean },
  ): void {
    for (const id of ids) {
      const row = {
        id,
        state: state ?? this.batch.get(statements.CHANGED_SYSTEM_EVENTS, id)?.state,
      };
      this.batch.sum(statements.CHANGED_SYSTEM_EVENTS, id, row, { failures: failed ? 1 : 0 });
    }
  }

  #addTurn(ref: SessionRef, turn: NewTurn): void {
    const session = sessionId(ref);
    const id = digest(session);
    const row = {
      id,
      session,
      agent: ref.agentId,
      origin: ref.origin,
      key: ref.key,
      path: ref.via?.path,
      credential: ref.via?.credential,
      created: this.batch.get(statements.SESSIONS, session)?.created ?? turn.at,
      used: turn.at,
    };
    this.batch.sum(statements.SESSIONS, session, row, { turns: 1 });
    this.batch.put(statements.TURNS, this.#nextKey(), {
      session: id,
      record: JSON.stringify(turn),
      covered: turn.checkpoint?.covered,
    });
  }

  #dropTurns(ref: SessionRef): void {
    const session = sessionId(ref);
    const id = digest(session);
    this.batch.drop(statements.TURNS, (turn) => id.equals(turn["session"] as Buffer));
    const used = this.batch.get(statements.SESSIONS, session);
    if (used) this.batch.put(statements.SESSIONS, session, { ...used, turns: 0 });
    this.batch.put(statements.DROPPED_TURNS, session, { session: id });
    this.batch.put(statements.EMPTIED_SESSIONS, session, { id, turns: 0 });
  }

  #dropSession(ref: SessionRef): void {
    this.#dropTurns(ref);
    const session = sessionId(ref);
    this.batch.drop(statements.SESSIONS, (_, key) => key === session);
    this.batch.put(statements.DROPPED_SESSIONS, session, { id: digest(session) });
  }

  #saveDelivery(delivery: DeliveryRecord, isNew = false): void {
    const { id, route, createdAt, endedAt } = delivery;
    const [status, record] = [deliveryState(delivery), JSON.stringify(delivery)];
    const state = { id, status, channel: route.channel, ended: endedAt, record };
    if (isNew) this.batch.add(statements.DELIVERIES, id, { ...state, created: createdAt });
    else if (this.batch.get(statements.DELIVERIES, id))
      this.batch.put(statements.DELIVERIES, id, { ...state, created: createdAt });
    else this.batch.put(statements.CHANGED_DELIVERIES, id, state);
    this.#loaded.deliveries.set(id, delivery);
  }

  #addStep(step: StepRecord): void {
    const { runId, index, at, record, calls } = toStepRow(step);
    this.batch.add(statements.STEPS, `${runId}\n${index}`, {
      run_id: runId,
      step: index,
      at,
      record,
    });
    for (const { id, position, record } of calls) {
      const [key, call] = [callKey(runId, id), step.calls[position]];
      if (call) this.#loaded.calls.set(key, { step: index, position, record: call });
      this.batch.put(statements.CALLS, key, {
        run_id: runId,
        step: index,
        position,
        id,
        at,
        record,
      });
    }
  }

  #updateCall(runId: string, callId: string, change: object): void {
    const key = callKey(runId, callId);
    const known = this.#loaded.calls.get(key);
    if (!known) return;
    const call = { ...known, record: withChange(known.record, change) };
    this.#loaded.calls.set(key, call);
    const [added, record] = [this.batch.get(statements.CALLS, key), JSON.stringify(call.record)];
    if (added) return this.batch.put(statements.CALLS, key, { ...added, record });
    const { step, position } = call;
    this.batch.put(statements.CHANGED_CALLS, key, { run_id: runId, step, position, record });
  }

  #saveApproval(approval: ApprovalRecord, isNew = false): void {
    const { id, runId, code, at, state, record } = toApprovalRow(approval);
    const row = { id, run_id: runId, code, at, state, record };
    if (isNew) this.batch.add(statements.APPROVALS, id, row);
    else if (this.batch.get(statements.APPROVALS, id))
      this.batch.put(statements.APPROVALS, id, row);
    else this.batch.put(statements.CHANGED_APPROVALS, id, { id, state, record });
    this.#loaded.approvals.set(id, approval);
  }

  #createWrites(): Writes {
    const { batch, jobs } = this;
    const at = this.#parts.now;
    const { heads, runs, deliveries, approvals } = this.#loaded;
    return toWrites({
      add: {
        run: (run) => this.#addRun(run),
        turn: (ref, turn) => this.#addTurn(ref, turn),
        systemEvent: (event) => this.#addSystemEvent(event),
        delivery: (delivery) => this.#saveDelivery(newDeliveryRecord(delivery), true),
        job: (job) => jobs.add(job),
        step: (step) => this.#addStep(step),
        toolResult(result) {
          const { id, runId } = result;
          batch.add(statements.TOOL_RESULTS, id, {
            id,
            run_id: runId,
            at,
            record: JSON.stringify(result),
          });
        },
        approval: (approval) => this.#saveApproval(approval, true),
        decision: (id, decision) => {
          const approval = approvals.get(id);
          if (!approval || approval.decision) throw new RouseError(NOT_OPEN);
          this.#saveApproval({ ...approval, decision });
        },
        refusedDecision: (id, refused) => {
          const approval = approvals.get(id);
          if (approval) this.#saveApproval(withRefused(approval, refused));
        },
      },
      set: {
        lastRoute({ agentId: agent, channel, to: recipient, thread, at }) {
          const row = { agent, channel, recipient, thread, at };
          batch.put(statements.LAST_ROUTES, `${agent}\n${channel}`, row);
        },
        value: (key, value) =>
          batch.put(statements.VALUES, key, { key, value: JSON.stringify(value) }),
        config: ({ id, usedAt, content }) =>
          batch.put(statements.CONFIGS, id, { id, used: usedAt, content }),
      },
      update: {
        event(id, change) {
          const head = heads.get(id);
          if (head === undefined) return;
          const changed = withEventChange(head, change);
          heads.set(id, changed);
          batch.put(statements.HEADS, id, { id, head: changed });
        },
        run: (id, change, expected) => {
          const run = runs.get(id);
          if (expected && !(run && isAsExpected(run, expected))) throw new RouseError(RUN_CHANGED);
          this.#updateRun(id, change);
        },
        delivery: (id, change) => {
          const delivery = deliveries.get(id);
          if (delivery) this.#saveDelivery(withChange(delivery, change));
        },
        systemEvents: (ids, change) => this.#changeSystemEvents(ids, change),
        job(kind, id, runAt, key) {
          if (key === undefined) jobs.reschedule({ kind, id }, runAt);
          else jobs.move({ kind, id }, runAt, key);
        },
        toolCall: (runId, callId, change) => this.#updateCall(runId, callId, change),
      },
      delete: {
        session: (ref) => this.#dropSession(ref),
        turns: (ref) => this.#dropTurns(ref),
        collected(runId) {
          batch.drop(statements.COLLECTED, (row) => row["run_id"] === runId);
          batch.put(statements.DROPPED_COLLECTED, runId, { run_id: runId });
        },
        job: (kind, id) => jobs.remove({ kind, id }),
      },
      settle(job, runAt, options) {
        if (runAt === undefined) jobs.complete(job);
        else if (options?.key !== undefined) jobs.moveHeld(job, runAt, options.key);
        else jobs.retry(job, runAt, options?.resetAttempts ?? false);
      },
    });
  }
}
