import {
  type EarlierJob,
  getDelayEnd,
  type Job,
  type JobKind,
  type JobPosition,
  type Ms,
  type NewJob,
  PARKED_FROM,
} from "rouse/store-kit";

interface Entry extends Omit<Job, "lease"> {
  seq: number;
  /** When its delay ends; 0 if it has none. */
  runAt: Ms;
  /** Its place among those that may start at once: no time, so that no step of the clock changes the order. */
  place: number;
  /** The number of the start that is under way; undefined while nobody holds the job. */
  lease: number | undefined;
  /** Set by its first start: it stays the first of its key until it ends, or gets another key. */
  begun: boolean;
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
      begun: false,
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
    const due = ready
      .filter(({ runAt }) => runAt > 0)
      .toSorted((one, other) => one.runAt - other.runAt || one.seq - other.seq);
    for (const entry of due) Object.assign(entry, { runAt: 0, place: ++this.#places });
    ready.sort((one, other) => one.place - other.place);
    return ready.slice(0, limit).map((entry) => {
      entry.attempts++;
      entry.begun = true;
      entry.lease = ++this.#starts;
      const { seq: _seq, runAt: _runAt, place: _place, begun: _begun, lease, ...job } = entry;
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
    if (entry && entry.lease === undefined)
      Object.assign(entry, { runAt: getDelayEnd(runAt, now), place: ++this.#places });
  }

  /** Puts a job that its caller holds under another key. */
  moveHeld(job: Job, key: string, runAt: Ms, now: Ms): void {
    const entry = this.#find(job);
    if (entry) this.#changeKey(entry, key, runAt, now);
  }

  /** Puts a job that nobody holds under another key. */
  move(kind: JobKind, id: string, key: string, runAt: Ms, now: Ms): void {
    const entry = this.#byId.get(`${kind}/${id}`);
    if (entry && entry.lease === undefined && entry.key !== key)
      this.#changeKey(entry, key, runAt, now);
  }

  /** Deletes a job that nobody holds. */
  delete(kind: JobKind, id: string, now: Ms): void {
    const entry = this.#byId.get(`${kind}/${id}`);
    if (entry && entry.lease === undefined) this.#delete(entry, now);
  }

  /** Lets the jobs start again that a stop cut off. Returns their kinds. */
  recover(): JobKind[] {
    const cut = [...this.#byId.values()].filter(({ lease }) => lease !== undefined);
    for (const entry of cut)
      Object.assign(entry, { runAt: 0, place: ++this.#places, lease: undefined });
    return cut.map(({ kind }) => kind);
  }

  /** The clock was set back: delays last as long as they were to. */
  moveBack(step: Ms): void {
    for (const entry of this.#byId.values())
      if (entry.runAt > 0 && entry.runAt < PARKED_FROM) entry.runAt -= step;
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
    return (
      entry && first && { head: first.id, runAt: entry.runAt, held: entry.lease !== undefined }
    );
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

  /** The first of those with one of these keys that were added before a job. */
  findEarlier({ kind, id }: Job, keys: readonly string[]): EarlierJob | undefined {
    const seq = this.#byId.get(`${kind}/${id}`)?.seq ?? 0;
    const [first] = keys
      .flatMap((key) => this.#byKey.get(`${kind}/${key}`) ?? [])
      .filter((entry) => entry.seq < seq)
      .toSorted((one, other) => one.seq - other.seq);
    return first && { id: first.id, key: first.key, runAt: first.runAt };
  }

  waiting(kind: JobKind, now: Ms): { count: number; oldestMs: number } {
    const waiting = [...this.#byId.values()].filter(
      (entry) => entry.kind === kind && entry.lease === undefined,
    );
    return {
      count: waiting.length,
      oldestMs: waiting.reduce((oldest, { enqueuedAt }) => Math.max(oldest, now - enqueuedAt), 0),
    };
  }

  kinds(): JobKind[] {
    return [...this.#byId.values()].map(({ kind }) => kind);
  }

  /** The first job of each key, if nobody holds it. */
  #first(kind: JobKind): Entry[] {
    return [...this.#byKey.values()].flatMap(([first]) =>
      first && first.kind === kind && first.lease === undefined ? [first] : [],
    );
  }

  #find({ kind, id, lease }: Job): Entry | undefined {
    const entry = this.#byId.get(`${kind}/${id}`);
    return lease !== undefined && entry?.lease === lease ? entry : undefined;
  }

  /** Before jobs of the key that were added later, as long as none of them was begun. */
  #changeKey(entry: Entry, key: string, runAt: Ms, now: Ms): void {
    this.#delete(entry, now);
    this.#byId.set(`${entry.kind}/${entry.id}`, entry);
    Object.assign(entry, {
      key,
      runAt: getDelayEnd(runAt, now),
      place: ++this.#places,
      lease: undefined,
      attempts: 0,
      begun: false,
    });
    const line = this.#byKey.get(`${entry.kind}/${key}`) ?? [];
    const behind = line.findLastIndex((other) => other.begun || other.seq < entry.seq);
    line.splice(behind + 1, 0, entry);
    this.#byKey.set(`${entry.kind}/${key}`, line);
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
    else if (wasFirst)
      Object.assign(next, { runAt: getDelayEnd(next.runAt, now), place: ++this.#places });
  }
}
