import {
  getDelayEnd,
  type Job,
  type JobKind,
  type JobRows,
  type Ms,
  type NewJob,
} from "#store-kit";
import { digest } from "../client/digest.ts";
import type { Batch } from "./list-statements.ts";
import {
  DELETED_JOBS,
  DEMOTED_KEYS,
  FREED_KEYS,
  JOBS,
  LOCKED_JOBS,
  MOVED_JOBS,
  MOVED_KEYS,
  RESCHEDULED_JOBS,
  RETRIED_JOBS,
} from "./statements.ts";

/** A job of the database that a group may change, as it was locked. */
export interface LockedJob {
  kind: JobKind;
  id: string;
  key: Buffer;
  starts: number;
  held: boolean;
}

type JobName = Pick<Job, "kind" | "id">;

export const jobName = ({ kind, id }: JobName): string => `${kind} ${id}`;

/** The changes of jobs in a group. */
export class GroupJobs implements JobRows {
  readonly #batch: Batch;
  /** Jobs that the group may change, by name, as the writes before left them. */
  readonly #jobs: Map<string, LockedJob>;
  readonly #dbTime: (at: Ms) => Ms;
  /** The database's time. */
  readonly #now: Ms;
  /** Kinds of which a job may have become ready. */
  readonly touched = new Set<JobKind>();
  /** When jobs that wait may start. */
  readonly later: { kind: JobKind; at: Ms }[] = [];

  constructor(batch: Batch, jobs: Map<string, LockedJob>, now: Ms, dbTime: (at: Ms) => Ms) {
    this.#batch = batch;
    this.#jobs = jobs;
    this.#dbTime = dbTime;
    this.#now = dbTime(now);
  }

  #held(job: Job): LockedJob | undefined {
    const known = this.#jobs.get(jobName(job));
    return known?.held && known.starts === job.lease ? known : undefined;
  }

  isHeld(job: Job): boolean {
    return this.#held(job) !== undefined;
  }

  /** A job's `run_at`: the end of its delay, or 0. */
  #delayEnd(kind: JobKind, runAt: Ms): Ms {
    this.later.push({ kind, at: runAt });
    return getDelayEnd(this.#dbTime(runAt), this.#now);
  }

  #free(statement: typeof FREED_KEYS, kind: JobKind, key: Buffer): void {
    this.#batch.put(statement, `${kind} ${key.toString("hex")}`, { kind, key, now: this.#now });
  }

  #delete({ kind, id, key }: LockedJob): void {
    const name = jobName({ kind, id });
    this.#jobs.delete(name);
    this.#batch.put(DELETED_JOBS, name, { kind, id });
    this.#free(FREED_KEYS, kind, key);
  }

  add({ kind, id, key, data, enqueuedAt, runAt }: NewJob): void {
    const name = jobName({ kind, id });
    if (this.#batch.get(JOBS, name)) return;
    this.touched.add(kind);
    this.#batch.put(JOBS, name, {
      kind,
      id,
      key: digest(key),
      name: key,
      data: JSON.stringify(data),
      enqueued: enqueuedAt,
      run_at: runAt === undefined ? 0 : this.#delayEnd(kind, runAt),
    });
  }

  complete(job: Job): void {
    this.touched.add(job.kind);
    const held = this.#held(job);
    if (held) this.#delete(held);
  }

  retry(job: Job, runAt: Ms, reset: boolean): void {
    const { kind, id } = job;
    this.touched.add(kind);
    const held = this.#held(job);
    if (!held) return;
    held.held = false;
    const row = { kind, id, run_at: this.#delayEnd(kind, runAt), reset };
    this.#batch.put(RETRIED_JOBS, jobName(job), row);
  }

  move(job: Job, runAt: Ms, name: string): void {
    const held = this.#held(job);
    if (!held) return;
    held.held = false;
    const { kind, id } = job;
    this.touched.add(kind);
    const [batch, key] = [this.#batch, digest(name)];
    batch.put(LOCKED_JOBS, jobName(job), { kind, id });
    const row = { kind, id, key, name, run_at: this.#delayEnd(kind, runAt) };
    batch.put(MOVED_JOBS, jobName(job), row);
    batch.put(DEMOTED_KEYS, `${kind} ${key.toString("hex")}`, { kind, key });
    this.#free(MOVED_KEYS, kind, held.key);
    this.#free(MOVED_KEYS, kind, key);
  }

  reschedule({ kind, id }: JobName, runAt: Ms): void {
    this.touched.add(kind);
    const row = { kind, id, run_at: this.#delayEnd(kind, runAt) };
    this.#batch.put(RESCHEDULED_JOBS, jobName({ kind, id }), row);
  }

  remove(job: JobName): void {
    this.touched.add(job.kind);
    const name = jobName(job);
    for (const statement of [JOBS, RESCHEDULED_JOBS])
      this.#batch.drop(statement, (_, key) => key === name);
    const known = this.#jobs.get(name);
    if (known && !known.held) this.#delete(known);
  }
}
