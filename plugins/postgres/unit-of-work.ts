import {
  buildRun,
  buildRunJobs,
  buildSystemEvent,
  collectJob,
  type DeliveryRecord,
  type EventChange,
  type EventRow,
  type FencingToken,
  ID_TAKEN,
  isAsExpected,
  isFencingToken,
  type Job,
  type LastRoute,
  type Ms,
  type NewSystemEvent,
  RouseError,
  RUN_CHANGED,
  type RunAction,
  type RunChange,
  type RunRecord,
  type StoredAction,
  type SystemEventState,
  toRunRow,
  type UsedConfig,
  type WakeMode,
  withChange,
  withEventChange,
} from "#store-kit";
import { JobPlan, type LockedJob } from "./job-plan.ts";
import { collectedRecord, type NewEvent, type Ops, type LoggedRunRow } from "./write-log.ts";
import { SessionPlan } from "./session-plan.ts";
import { type LoadedSteps, StepPlan } from "./step-plan.ts";
import { UsagePlan } from "./usage-plan.ts";

/** What is in the database of the rows that a group may change, read under locks before it writes. */
export interface Loaded {
  /** Ids of events that are there already. */
  events: ReadonlySet<string>;
  /** Heads, by id, of events that change. */
  heads: ReadonlyMap<string, string>;
  /** Records, by id, of runs and deliveries that are there. */
  runs: ReadonlyMap<string, string>;
  deliveries: ReadonlyMap<string, string>;
  jobs: ReadonlyMap<string, LockedJob>;
  /** Tokens of the leases that are asked for, by name, where somebody has them. */
  fencingTokens: ReadonlyMap<string, number>;
  /** Runs whose windows are open, of those that are asked for. */
  windows: ReadonlySet<string>;
  steps: LoadedSteps;
}

type RunState = Omit<RunRecord, "spec">;

/** A run that a group adds or changes. */
export interface PlannedRun {
  fresh: boolean;
  changed: boolean;
  /** Set where it is new, or its spec changes. */
  row?: Pick<LoggedRunRow, "spec" | "sessionKey">;
  state: RunState;
}

interface PlannedDelivery {
  fresh: boolean;
  changed: boolean;
  record: DeliveryRecord;
}

const refused = (): RouseError => new RouseError(ID_TAKEN);

/**
 * What a group of commits comes to: each is checked against what was read, and what the ones before it did, and is then
 * part of it whole or not at all. Nothing is written here.
 */
export class UnitOfWork {
  readonly #loaded: Loaded;
  readonly #eventIds = new Set<string>();
  readonly events: EventRow[] = [];
  readonly heads = new Map<string, string>();
  readonly runs = new Map<string, PlannedRun>();
  readonly deliveries = new Map<string, PlannedDelivery>();
  collected: { runId: string; record: string }[] = [];
  readonly dropped = new Set<string>();
  readonly sessions = new SessionPlan();
  readonly systemEvents = new Map<string, { event: NewSystemEvent; record: string }>();
  readonly systemEventChanges = new Map<
    string,
    { state: SystemEventState | null; failures: number }
  >();
  readonly routes = new Map<string, LastRoute>();
  readonly values = new Map<string, string>();
  readonly configs = new Map<string, UsedConfig>();
  readonly steps: StepPlan;
  readonly jobs: JobPlan;
  readonly usage = new UsagePlan();
  readonly wakes = new Map<string, WakeMode>();

  constructor(loaded: Loaded) {
    this.#loaded = loaded;
    this.steps = new StepPlan(loaded.steps);
    this.jobs = new JobPlan(loaded.jobs);
  }

  /** False where `held` is not held any more: nothing of it is planned. @throws RouseError `internal` for an id that is there. */
  add(ops: Ops, held?: Job | FencingToken): boolean {
    if (held && !this.#isHeld(held)) return false;
    if (!this.#areOpen(ops)) return false;
    this.#check(ops);
    for (const event of ops.events) this.#event(event);
    for (const { id, change } of ops.eventChanges) this.#updateEvent(id, change);
    for (const op of ops.runs) {
      if (op.op === "insert") this.#newRun(op.row);
      else this.#updateRun(op.id, op.change);
    }
    for (const op of ops.deliveries) {
      if (op.op === "insert")
        this.deliveries.set(op.record.id, { fresh: true, changed: true, record: op.record });
      else this.#updateDelivery(op.id, op.change);
    }
    for (const op of ops.sessions) this.sessions.apply(op);
    for (const { event, record } of ops.systemEvents) this.#systemEvent(event, record);
    for (const change of ops.systemEventChanges) this.#changeSystemEvents(change);
    for (const route of ops.routes) this.routes.set(`${route.agentId}\n${route.channel}`, route);
    for (const { key, value } of ops.values) this.values.set(key, value);
    for (const config of ops.configs) this.configs.set(config.id, config);
    for (const id of ops.dropped) {
      this.dropped.add(id);
      this.collected = this.collected.filter(({ runId }) => runId !== id);
    }
    for (const op of ops.steps) this.steps.apply(op);
    for (const op of ops.jobs) this.jobs.apply(op);
    return true;
  }

  #isHeld(held: Job | FencingToken): boolean {
    return isFencingToken(held)
      ? this.#loaded.fencingTokens.get(held.lease) === held.token
      : this.jobs.isHeld(held);
  }

  /** A window that has closed takes no event any more. */
  #areOpen({ events }: Ops): boolean {
    return events.every(({ actions }) =>
      actions.every(
        (action) =>
          action.kind !== "run" ||
          !action.collect?.shared ||
          this.#loaded.windows.has(action.runId),
      ),
    );
  }

  #check(ops: Ops): void {
    const events = new Set(this.#eventIds);
    for (const { row } of ops.events) {
      if (events.has(row.id) || this.#loaded.events.has(row.id)) throw refused();
      events.add(row.id);
    }
    const runs = new Set<string>();
    for (const op of ops.runs) {
      if (op.op !== "insert") {
        const run = op.expected && this.#run(op.id)?.state;
        if (op.expected && !(run && isAsExpected(run, op.expected)))
          throw new RouseError(RUN_CHANGED);
        continue;
      }
      if (runs.has(op.row.id) || this.#run(op.row.id)) throw refused();
      runs.add(op.row.id);
    }
    const deliveries = new Set<string>();
    for (const op of ops.deliveries) {
      if (op.op !== "insert") continue;
      if (deliveries.has(op.record.id) || this.#delivery(op.record.id)) throw refused();
      deliveries.add(op.record.id);
    }
    this.steps.check(ops.steps);
  }

  #run(id: string): PlannedRun | undefined {
    const planned = this.runs.get(id);
    if (planned) return planned;
    const record = this.#loaded.runs.get(id);
    return record === undefined
      ? undefined
      : { fresh: false, changed: false, state: JSON.parse(record) as RunState };
  }

  #delivery(id: string): PlannedDelivery | undefined {
    const planned = this.deliveries.get(id);
    if (planned) return planned;
    const record = this.#loaded.deliveries.get(id);
    return record === undefined
      ? undefined
      : { fresh: false, changed: false, record: JSON.parse(record) as DeliveryRecord };
  }

  #newRun({ id, spec, sessionKey, record }: LoggedRunRow): void {
    const state = JSON.parse(record) as RunState;
    this.runs.set(id, { fresh: true, changed: true, row: { spec, sessionKey }, state });
    this.usage.add(undefined, state);
  }

  #updateRun(id: string, change: RunChange): void {
    const run = this.#run(id);
    if (!run) return;
    const { spec, ...rest } = change;
    const before = run.state;
    run.state = withChange(before, rest);
    run.changed = true;
    this.usage.add(before, run.state);
    if (spec) run.row = { spec: JSON.stringify(spec), sessionKey: spec.session.key };
    this.runs.set(id, run);
  }

  #updateEvent(id: string, change: EventChange): void {
    const head = this.heads.get(id) ?? this.#loaded.heads.get(id);
    if (head !== undefined) this.heads.set(id, withEventChange(head, change));
  }

  #updateDelivery(id: string, change: object): void {
    const delivery = this.#delivery(id);
    if (!delivery) return;
    delivery.record = withChange(delivery.record, change);
    delivery.changed = true;
    this.deliveries.set(id, delivery);
  }

  #systemEvent(event: NewSystemEvent, record: string): void {
    if (!this.systemEvents.has(event.id)) this.systemEvents.set(event.id, { event, record });
  }

  #changeSystemEvents({ ids, state, failed }: Ops["systemEventChanges"][number]): void {
    for (const id of ids) {
      const known = this.systemEventChanges.get(id) ?? { state: null, failures: 0 };
      this.systemEventChanges.set(id, {
        state: state ?? known.state,
        failures: known.failures + (failed ? 1 : 0),
      });
    }
  }

  #event({ row, actions }: NewEvent): void {
    this.#eventIds.add(row.id);
    this.events.push(row);
    for (const action of actions) this.#action(action, row.id, row.at);
  }

  #action(action: StoredAction, eventId: string, at: Ms): void {
    if (action.kind === "wake") {
      const event = buildSystemEvent(action, at);
      this.#systemEvent(event, JSON.stringify(event));
      if (action.mode === "now" || !this.wakes.has(action.agentId))
        this.wakes.set(action.agentId, action.mode);
      return;
    }
    const known = this.#run(action.runId);
    const run = buildRun(action, eventId, at);
    if (!known) this.#newRun(toRunRow(run));
    if (action.collect) return this.#collect(run, action.collect, known);
    if (known) return;
    for (const job of buildRunJobs(run, action.parked))
      this.jobs.enqueue(job, JSON.stringify(job.data));
  }

  /** The first event of a window makes the run, and the job that closes the window; later ones put that off. */
  #collect(
    run: RunRecord,
    { closesAt, event }: NonNullable<RunAction["collect"]>,
    known: PlannedRun | undefined,
  ): void {
    this.collected.push({ runId: run.id, record: collectedRecord(event) });
    if (!known) {
      const job = collectJob(run.id, event.at, closesAt);
      this.jobs.enqueue(job, JSON.stringify(job.data));
      return;
    }
    const { collect } = known.state;
    if (collect)
      this.#updateRun(run.id, { collect: { ...collect, closesAt, count: collect.count + 1 } });
    this.jobs.apply({ op: "reschedule", kind: "turn", id: run.id, runAt: closesAt });
  }
}
