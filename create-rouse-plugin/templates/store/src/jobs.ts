import { getDelayEnd, type Job, type JobKind, type JobPosition, type Ms, type NewJob } from "rouse/store-kit";

interface Entry extends Omit<Job, "lease"> {
  seq: number;
  /** When its delay ends; 0 if it has none. */
  runAt: Ms;
  /** Its place among those that may start at once: no time, so that no step of the clock changes the order. */
  place: number;
  /** The number of the start that is under way; undefined while nobody holds the job. */
  lease: number | undefined;
}

/** The queue: jobs of the same key start in the order in which they came, one at a time. */
export class Jobs {
  readonly #byId = new Map<string, Entry>();
  readonly #byKey = new Map<string, Entry[]>();
  #added = 0;
  #starts = 0;
  #places = 0;

  /** Adds a job. Returns false if its id is there already. */
  add({ runAt, ...job }: NewJob, now: Ms): boolean {
    const id = `${job.kind}/${job.id}`;
    if (this.#byId.has(id)) return false;
    const entry: Entry = {
      ...job,
      seq: ++this.#added,
      runAt: getDelayEnd(runAt, now),
      place: ++this.#places,
      attempts: 0,
      lease: undefined,
    };
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
    // Those whose delay is over come last.
    const due = ready.filter(({ runAt }) => runAt > 0).toSorted((one, other) => one.runAt - other.runAt || one.seq - other.seq);
    for (const entry of due) Object.assign(entry, { runAt: 0, place: ++this.#places });
    ready.sort((one, other) => one.place - other.place);
    return ready.slice(0, limit).map((entry) => {
      entry.attempts++;
      entry.lease = ++this.#starts;
      const { seq: _seq, runAt: _runAt, place: _place, lease, ...job } = entry;
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
  putBack(job: Job, runAt: Ms, resetAttempts: boolean, now: Ms): void {
    const entry = this.#find(job);
    if (!entry) return;
    Object.assign(entry, {
      runAt: getDelayEnd(runAt, now),
      place: ++this.#places,
      lease: undefined,
      ...(resetAttempts && { attempts: 0 }),
    });
  }

  /** Changes when a job may start that nobody holds. */
  reschedule(kind: JobKind, id: string, runAt: Ms, now: Ms): void {
    const entry = this.#byId.get(`${kind}/${id}`);
    if (entry && entry.lease === undefined) Object.assign(entry, { runAt: getDelayEnd(runAt, now), place: ++this.#places });
  }

  /** Deletes a job that nobody holds. */
  delete(kind: JobKind, id: string, now: Ms): void {
    const entry = this.#byId.get(`${kind}/${id}`);
    if (entry && entry.lease === undefined) this.#delete(entry, now);
  }

  /** Lets the jobs start again that a stop cut off. Returns their kinds. */
  recover(): JobKind[] {
    const cut = [...this.#byId.values()].filter(({ lease }) => lease !== undefined);
    for (const entry of cut) Object.assign(entry, { runAt: 0, place: ++this.#places, lease: undefined });
    return cut.map(({ kind }) => kind);
  }

  /** The clock was set back: delays last as long as they were to. */
  moveBack(step: Ms): void {
    for (const entry of this.#byId.values()) if (entry.runAt > 0) entry.runAt -= step;
  }

  /** When the next job of a kind may start, 0 for at once; undefined if none waits. */
  nextAt(kind: JobKind): Ms | undefined {
    const times = this.#first(kind).map(({ runAt }) => runAt);
    return times.length === 0 ? undefined : Math.min(...times);
  }

  /** Where a job stands. */
  find(kind: JobKind, id: string): JobPosition | undefined {
    const entry = this.#byId.get(`${kind}/${id}`);
    const [first = entry] = this.#byKey.get(`${kind}/${entry?.key}`) ?? [];
    return entry && first && { head: first.id, runAt: entry.runAt, held: entry.lease !== undefined };
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
    else if (wasFirst) Object.assign(next, { runAt: getDelayEnd(next.runAt, now), place: ++this.#places });
  }
}
