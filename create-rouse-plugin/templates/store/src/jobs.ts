import type { Job, JobKind, Ms, NewJob } from "rouse/store-kit";

interface Entry extends Omit<Job, "lease"> {
  seq: number;
  /** When it may start, once it is the first of its key. */
  runAt: Ms;
  /** The number of the start that is under way; undefined while nobody holds the job. */
  lease: number | undefined;
}

/** The queue: jobs of the same key start in the order in which they came, one at a time. */
export class Jobs {
  readonly #byId = new Map<string, Entry>();
  readonly #byKey = new Map<string, Entry[]>();
  #added = 0;
  #starts = 0;

  /** Adds a job. Returns false if its id is there already. */
  add({ runAt, ...job }: NewJob): boolean {
    const id = `${job.kind}/${job.id}`;
    if (this.#byId.has(id)) return false;
    const entry: Entry = { ...job, seq: ++this.#added, runAt: runAt ?? job.enqueuedAt, attempts: 0, lease: undefined };
    const key = `${job.kind}/${job.key}`;
    const line = this.#byKey.get(key) ?? [];
    line.push(entry);
    this.#byKey.set(key, line);
    this.#byId.set(id, entry);
    return true;
  }

  /** Starts up to `limit` jobs that may start now. */
  take(kind: JobKind, limit: number, now: Ms): Job[] {
    const ready = this.#first(kind).filter(({ runAt }) => runAt <= now);
    ready.sort((one, other) => one.runAt - other.runAt || one.seq - other.seq);
    return ready.slice(0, limit).map((entry) => {
      entry.attempts++;
      entry.lease = ++this.#starts;
      const { seq: _seq, runAt: _runAt, lease, ...job } = entry;
      return { ...structuredClone(job), lease };
    });
  }

  isHeld(job: Job): boolean {
    return this.#find(job) !== undefined;
  }

  /** Ends a job that its caller holds. */
  end(job: Job, now: Ms): void {
    const entry = this.#find(job);
    if (entry) this.#delete(entry, now);
  }

  /** Puts a job back that its caller holds. It stays the first of its key. */
  putBack(job: Job, runAt: Ms, resetAttempts: boolean): void {
    const entry = this.#find(job);
    if (entry) Object.assign(entry, { runAt, lease: undefined, ...(resetAttempts && { attempts: 0 }) });
  }

  /** Changes when a job may start that nobody holds. */
  reschedule(kind: JobKind, id: string, runAt: Ms): void {
    const entry = this.#byId.get(`${kind}/${id}`);
    if (entry && entry.lease === undefined) entry.runAt = runAt;
  }

  /** Deletes a job that nobody holds. */
  delete(kind: JobKind, id: string, now: Ms): void {
    const entry = this.#byId.get(`${kind}/${id}`);
    if (entry && entry.lease === undefined) this.#delete(entry, now);
  }

  /** Lets the jobs start again that a stop cut off. Returns their kinds. */
  recover(now: Ms): JobKind[] {
    const cut = [...this.#byId.values()].filter(({ lease }) => lease !== undefined);
    for (const entry of cut) Object.assign(entry, { runAt: now, lease: undefined });
    return cut.map(({ kind }) => kind);
  }

  /** When the next job of a kind may start; undefined if none waits. */
  nextAt(kind: JobKind): Ms | undefined {
    const times = this.#first(kind).map(({ runAt }) => runAt);
    return times.length === 0 ? undefined : Math.min(...times);
  }

  /** Ids of the jobs that are the first of their keys and may not start before `at`, in the order in which they came. */
  firstFrom(kind: JobKind, at: Ms): string[] {
    const later = this.#first(kind).filter(({ runAt }) => runAt >= at);
    return later.toSorted((one, other) => one.seq - other.seq).map(({ id }) => id);
  }

  /** Whether a job may not start before `at`. */
  waitsUntil(kind: JobKind, id: string, at: Ms): boolean {
    return (this.#byId.get(`${kind}/${id}`)?.runAt ?? 0) >= at;
  }

  waiting(kind: JobKind, now: Ms): { count: number; oldestMs: number } {
    const waiting = [...this.#byId.values()].filter((entry) => entry.kind === kind && entry.lease === undefined);
    return { count: waiting.length, oldestMs: waiting.reduce((oldest, { enqueuedAt }) => Math.max(oldest, now - enqueuedAt), 0) };
  }

  kinds(): JobKind[] {
    return [...this.#byId.values()].map(({ kind }) => kind);
  }

  /** The first job of each key, if nobody holds it. */
  #first(kind: JobKind): Entry[] {
    return [...this.#byKey.values()].flatMap(([first]) => (first && first.kind === kind && first.lease === undefined ? [first] : []));
  }

  #find({ kind, id, lease }: Job): Entry | undefined {
    const entry = this.#byId.get(`${kind}/${id}`);
    return lease !== undefined && entry?.lease === lease ? entry : undefined;
  }

  #delete(entry: Entry, now: Ms): void {
    const key = `${entry.kind}/${entry.key}`;
    this.#byId.delete(`${entry.kind}/${entry.id}`);
    const line = this.#byKey.get(key) ?? [];
    const wasFirst = line[0] === entry;
    line.splice(line.indexOf(entry), 1);
    const [next] = line;
    if (!next) this.#byKey.delete(key);
    // It waits from now on, so that the jobs of a busy key do not overtake those of others.
    else if (wasFirst) next.runAt = Math.max(next.runAt, now);
  }
}
