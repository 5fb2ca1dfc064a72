import type { Job, JobKind, Ms, NewJob } from "#store-kit";
import type { JobOp } from "./write-log.ts";

/** A job of the database that a group may change, as it was locked. */
export interface LockedJob {
  kind: JobKind;
  id: string;
  key: Buffer;
  starts: number;
  held: boolean;
}

export const jobKey = (kind: JobKind, id: string): string => `${kind} ${id}`;

/** What a group does to jobs, folded: at most one change of each sort for a job, in the order completes, retries, removes, inserts, reschedules. */
export class JobPlan {
  readonly #locked: ReadonlyMap<string, LockedJob>;
  /** Jobs that somebody held before this group, and that nobody holds any more. */
  readonly #let = new Set<string>();
  readonly #gone = new Set<string>();
  readonly completes: LockedJob[] = [];
  readonly removes: LockedJob[] = [];
  readonly retries: { kind: JobKind; id: string; runAt: Ms; reset: boolean }[] = [];
  readonly inserts = new Map<string, { job: NewJob; data: string }>();
  readonly reschedules = new Map<string, { kind: JobKind; id: string; runAt: Ms }>();
  readonly touched = new Set<JobKind>();

  constructor(locked: ReadonlyMap<string, LockedJob>) {
    this.#locked = locked;
  }

  #held(job: Job): LockedJob | undefined {
    const name = jobKey(job.kind, job.id);
    const locked = this.#locked.get(name);
    if (!locked?.held || locked.starts !== job.lease || this.#let.has(name)) return undefined;
    return locked;
  }

  isHeld(job: Job): boolean {
    return this.#held(job) !== undefined;
  }

  apply(op: JobOp): void {
    switch (op.op) {
      case "enqueue":
        this.enqueue(op.job, op.data);
        return;
      case "complete":
        return this.#complete(op.job);
      case "retry":
        return this.#retry(op.job, op.runAt, op.reset);
      case "remove":
        return this.#remove(op.kind, op.id);
      case "reschedule":
        this.reschedules.set(jobKey(op.kind, op.id), op);
        this.touched.add(op.kind);
    }
  }

  enqueue(job: NewJob, data: string): void {
    const name = jobKey(job.kind, job.id);
    if (this.inserts.has(name)) return;
    this.inserts.set(name, { job, data });
    this.touched.add(job.kind);
  }

  #complete(job: Job): void {
    this.touched.add(job.kind);
    const locked = this.#held(job);
    if (!locked) return;
    const name = jobKey(job.kind, job.id);
    this.#let.add(name);
    this.#gone.add(name);
    this.completes.push(locked);
  }

  #retry(job: Job, runAt: Ms, reset: boolean): void {
    this.touched.add(job.kind);
    if (!this.#held(job)) return;
    this.#let.add(jobKey(job.kind, job.id));
    this.retries.push({ kind: job.kind, id: job.id, runAt, reset });
  }

  #remove(kind: JobKind, id: string): void {
    this.touched.add(kind);
    const name = jobKey(kind, id);
    this.inserts.delete(name);
    this.reschedules.delete(name);
    const locked = this.#locked.get(name);
    if (!locked || this.#gone.has(name) || (locked.held && !this.#let.has(name))) return;
    this.#gone.add(name);
    this.removes.push(locked);
  }
}
