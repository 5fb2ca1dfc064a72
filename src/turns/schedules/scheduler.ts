import type { Clock } from "../../core/clock.ts";
import { RouseError, safeError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { Heartbeat } from "../../queue/heartbeat.ts";
import { ID_TAKEN } from "../../store/sql/errors.ts";
import {
  LEASE_LOST,
  type Cluster,
  type Held,
  type Ms,
  type Store,
  type Writes,
} from "../../store/types.ts";
import { planFiring } from "./fire.ts";
import { getScheduleName, planStep } from "./plan.ts";
import { readScheduleState, STATES_KEY, stateKey } from "./state.ts";
import type { Schedule, ScheduleState } from "./types.ts";

export interface SchedulerDeps {
  store: Store;
  /** The schedules run in one gateway at a time. */
  cluster: Pick<Cluster, "shared" | "hold">;
  clock: Clock;
  log: Logger;
  heartbeat: Pick<Heartbeat, "plan" | "resume">;
  /** All schedules as they are now: a reload or a decision of a person takes effect. */
  schedules(): Promise<readonly Schedule[]>;
}

/** Between looks at the clock, which somebody may set; and for wakes and changes that another gateway has left behind. */
const LOOK_MS = 10_000;
/** Steps of one schedule in one look: it catches up at most 100 times. */
const MAX_STEPS = 150;

/** Fires the schedules while this gateway has the lease for it. */
export class Scheduler {
  readonly #deps: SchedulerDeps;
  readonly #stopped = new AbortController();
  #nudged = new AbortController();
  #running: Promise<void> = Promise.resolve();

  constructor(deps: SchedulerDeps) {
    this.#deps = deps;
  }

  /** Resolves when wakes that an earlier process left have been seen to. */
  async start(): Promise<void> {
    const { cluster, heartbeat } = this.#deps;
    await heartbeat.resume();
    this.#running = cluster.hold("schedules", this.#stopped.signal, (held) => this.#run(held));
  }

  /** Looks at the schedules immediately, since they have changed. */
  look(): void {
    this.#nudged.abort();
  }

  /** Fires no more; resolves when nothing is being written any more. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#running;
  }

  async #run(held: Held): Promise<void> {
    const { cluster, clock, heartbeat, log } = this.#deps;
    while (!held.signal.aborted) {
      this.#nudged = new AbortController();
      const next = await this.#lookAtAll(held).catch((error: unknown) => {
        if (!held.signal.aborted)
          log.error(
            { err: safeError(error) },
            "the schedules could not be looked at; it is tried again",
          );
        return undefined;
      });
      if (cluster.shared) await heartbeat.resume().catch(() => undefined);
      const waitMs = Math.min(LOOK_MS, Math.max(0, (next ?? Infinity) - clock.now()));
      await clock.sleep(waitMs, AbortSignal.any([held.signal, this.#nudged.signal]));
    }
  }

  /** Returns when the next schedule is due. */
  async #lookAtAll(held: Held): Promise<Ms> {
    const schedules = await this.#deps.schedules();
    await this.#forgetOthers(schedules, held);
    let next = Infinity;
    for (const schedule of schedules) {
      if (held.signal.aborted) break;
      next = Math.min(next, (await this.#advance(schedule, held)) ?? Infinity);
    }
    return next;
  }

  /** Forgets the states of schedules that are gone, so that one that comes back under its name starts from then. */
  async #forgetOthers(schedules: readonly Schedule[], held: Held): Promise<void> {
    const { store } = this.#deps;
    const names = schedules.map(getScheduleName);
    const known = ((await store.values.get(STATES_KEY)) ?? []) as string[];
    const gone = known.filter((name) => !names.includes(name));
    if (gone.length === 0 && names.every((name) => known.includes(name))) return;
    await this.#commit(held, (tx) => {
      tx.values.set(STATES_KEY, names);
      for (const name of gone) tx.values.set(stateKey(name), null);
    });
  }

  /** Fires a schedule for each due time that is not handled. Returns when it is due next. */
  async #advance(schedule: Schedule, held: Held): Promise<Ms | undefined> {
    const { store, clock } = this.#deps;
    const key = stateKey(getScheduleName(schedule));
    let state = await readScheduleState(schedule, store);
    for (let steps = 0; steps < MAX_STEPS && !held.signal.aborted; steps++) {
      const now = clock.now();
      const step = planStep(schedule, state, now);
      if (step.do === "wait") return step.at;
      if (step.do === "fire") state = await this.#fire(schedule, step, now, held);
      else {
        state = step.state;
        await this.#commit(held, (tx) => tx.values.set(key, step.state));
      }
    }
    return clock.now();
  }

  /** Writes a firing and its mark in one commit. The store refuses the run of a due time that it has already. */
  async #fire(
    schedule: Schedule,
    { dueAt, state }: { dueAt: Ms; state: ScheduleState },
    now: Ms,
    held: Held,
  ): Promise<ScheduleState> {
    const { heartbeat, log } = this.#deps;
    const key = stateKey(getScheduleName(schedule));
    const { firing, write } = planFiring(schedule, { dueAt, at: now }, heartbeat);
    const fired = { ...state, last: firing };
    const { agentId, id: scheduleId } = schedule;
    try {
      await this.#commit(held, (tx) => {
        write(tx);
        tx.values.set(key, fired);
      });
      log.info(
        { agentId, scheduleId, dueAt: new Date(dueAt).toISOString(), runId: firing.runId },
        "a schedule has fired",
      );
      return fired;
    } catch (error) {
      if (!(error instanceof RouseError) || error.message !== ID_TAKEN.message) throw error;
      const handled = { ...state, fired: state.fired - 1 };
      await this.#commit(held, (tx) => tx.values.set(key, handled));
      log.warn(
        { agentId, scheduleId, dueAt: new Date(dueAt).toISOString() },
        "a schedule had fired for this time before; it does not fire again",
      );
      return handled;
    }
  }

  async #commit({ fencingToken }: Held, write: (tx: Writes) => void): Promise<void> {
    if (!(await this.#deps.store.commit(write, fencingToken))) throw new RouseError(LEASE_LOST);
  }
}
