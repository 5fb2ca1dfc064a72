import type { Job, JobKind, Ms, NewJob } from "#store-kit";
import { digest } from "./digest.ts";
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

/** What a group does to jobs, folded: at most one change of each sort for a job, in the order completes, retries, removes, inserts, moves, reschedules. */
export class JobPlan {
  readonly #locked: ReadonlyMap<string, LockedJob>;
  /** Jobs that somebody held before this group, and that nobody holds any more. */
  readonly #let = new Set<string>();
  readonly #gone = new Set<string>();
  readonly completes: LockedJob[] = [];
  readonly removes: LockedJob[] = [];
  readonly retries: { kind: JobKind; id: string; runAt: Ms; reset: boolean }[] = [];
  readonly inserts = new Map<string, { job: NewJob; data: string }>();
  /** Jobs that get another key, with the one that they had when they were locked. */
  readonly moves = new Map<
    string,
    { kind: JobKind; id: string; runAt: Ms; from: Buffer; key: string }
  >();
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
        return op.key === undefined
          ? this.#retry(op.job, op.runAt, op.reset)
          : this.#moveHeld(op.job, op.runAt, op.key);
      case "remove":
        return this.#remove(op.kind, op.id);
      case "reschedule":
        if (op.key !== undefined) return this.#move(op, op.runAt, op.key);
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

  #moveHeld(job: Job, runAt: Ms, key: string): void {
    if (!this.#held(job)) return;
    this.#let.add(jobKey(job.kind, job.id));
    this.#move(job, runAt, key);
  }

  #move({ kind, id }: Pick<Job, "kind" | "id">, runAt: Ms, key: string): void {
    this.touched.add(kind);
    const name = jobKey(kind, id);
    const locked = this.#locked.get(name);
    if (!locked || this.#gone.has(name) || (locked.held && !this.#let.has(name))) return;
    if (!locked.held && locked.key.equals(digest(key))) return;
    this.moves.set(name, { kind, id, runAt, from: locked.key, key });
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
