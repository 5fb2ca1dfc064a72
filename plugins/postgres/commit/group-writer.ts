import {
  isFencingToken,
  type Kept,
  type Ms,
  type NewRow,
  type NewSession,
  type RecordRows,
  RecordWriter,
  type RunState,
  type SetTable,
  type SystemEventState,
  type UsageRow,
  type WakeMode,
  type WrittenTable,
} from "#store-kit";
import { digest } from "../client/digest.ts";
import { GroupJobs } from "./group-jobs.ts";
import { Batch } from "./list-statements.ts";
import type { Loaded } from "./loaded.ts";
import type { NewEvent, Request } from "./request.ts";
import * as statements from "./statements.ts";

export interface WriterParts {
  now: Ms;
  dbTime: (at: Ms) => Ms;
  /** The part of the counters that these groups write: no others do, so that none waits for another. */
  part: string;
}

type KnownRows = { [table in WrittenTable]?: Map<string, unknown> };

/** Rows of a group, which go into a batch: each request sees what those before it did. */
class GroupRows implements RecordRows {
  readonly #batch: Batch;
  readonly #kept: KnownRows;
  readonly #parts: WriterParts;
  /** Rows that replace no other, so far. */
  #appended = 0;

  constructor(batch: Batch, kept: Loaded["kept"], parts: WriterParts) {
    this.#batch = batch;
    this.#kept = kept;
    this.#parts = parts;
  }

  get<T extends keyof Kept>(table: T, name: string): Kept[T] | undefined {
    return this.#kept[table]?.get(name) as Kept[T] | undefined;
  }

  insert(table: WrittenTable, name: string, row: NewRow, kept?: unknown): void {
    this.#batch.add(statements.INSERTS[table], name || String(this.#appended++), row);
    this.#kept[table]?.set(name, kept);
  }

  insertOnce(table: "runs" | "system_events", name: string, row: NewRow, kept?: RunState): boolean {
    if (this.#kept[table]?.has(name) || this.#batch.get(statements.INSERTS[table], name))
      return false;
    this.insert(table, name, row, kept);
    return true;
  }

  change(table: keyof Kept, name: string, keys: NewRow, row: NewRow, kept?: unknown): void {
    this.#kept[table]?.set(name, kept);
    const added = this.#batch.get(statements.INSERTS[table], name);
    if (added) return this.#batch.put(statements.INSERTS[table], name, { ...added, ...row });
    const statement = "spec" in row ? statements.CHANGED_SPECS : statements.CHANGES[table];
    this.#batch.put(statement, name, { ...keys, ...row });
  }

  set(table: SetTable, name: string, row: NewRow): void {
    this.#batch.put(statements.SETS[table], name, row);
  }

  addTurn(row: NewSession, turn: { record: string; covered: number | undefined }): void {
    const { session } = row;
    const id = digest(session);
    const created = this.#batch.get(statements.SESSIONS, session)?.["created"] ?? row.created;
    this.#batch.sum(statements.SESSIONS, session, { ...row, id, created }, { turns: 1 });
    this.insert("turns", "", { session: id, ...turn });
  }

  dropTurns(session: string): void {
    const id = digest(session);
    this.#batch.drop(statements.INSERTS.turns, (turn) => id.equals(turn["session"] as Buffer));
    const used = this.#batch.get(statements.SESSIONS, session);
    if (used) this.#batch.put(statements.SESSIONS, session, { ...used, turns: 0 });
    this.#batch.put(statements.DROPPED_TURNS, session, { session: id });
    this.#batch.put(statements.EMPTIED_SESSIONS, session, { id, turns: 0 });
  }

  dropSession(session: string): void {
    this.dropTurns(session);
    this.#batch.drop(statements.SESSIONS, (_, key) => key === session);
    this.#batch.put(statements.DROPPED_SESSIONS, session, { id: digest(session) });
  }

  dropCollected(runId: string): void {
    this.#batch.drop(statements.INSERTS.collected, (row) => row["run_id"] === runId);
    this.#batch.put(statements.DROPPED_COLLECTED, runId, { run_id: runId });
  }

  changeSystemEvents(
    ids: readonly string[],
    { state, failed }: { state?: SystemEventState; failed?: boolean },
  ): void {
    const statement = statements.CHANGED_SYSTEM_EVENTS;
    for (const id of ids) {
      const row = { id, state: state ?? this.#batch.get(statement, id)?.state };
      this.#batch.sum(statement, id, row, { failures: failed ? 1 : 0 });
    }
  }

  addUsage({ counter, width, at, ...numbers }: UsageRow): void {
    const row = { counter, width, at, part: this.#parts.part };
    this.#batch.sum(statements.USAGE, `${counter} ${width}`, row, numbers);
  }

  setParked(runId: string, isParked: boolean): void {
    if (isParked) this.#batch.drop(statements.UNPARKED, (_, id) => id === runId);
    else this.#batch.put(statements.UNPARKED, runId, { run: runId });
  }
}

/** Writes the requests of a group into a batch, one after the other: each sees what those before it did. */
export class GroupWriter {
  readonly #loaded: Loaded;
  readonly #parts: WriterParts;
  readonly #writer: RecordWriter;
  readonly batch = new Batch();
  readonly jobs: GroupJobs;
  readonly wakes = new Map<string, WakeMode>();

  constructor(loaded: Loaded, parts: WriterParts) {
    this.#loaded = loaded;
    this.#parts = parts;
    this.jobs = new GroupJobs(this.batch, loaded.jobs, parts.now, parts.dbTime);
    const rows = new GroupRows(this.batch, loaded.kept, parts);
    this.#writer = new RecordWriter(
      rows,
      this.jobs,
      () => parts.now,
      () => parts.dbTime(parts.now),
    );
  }

  /** Returns false if `held` is not held any more, or if a window has closed: nothing is written then. */
  write({ keys, held, event, write }: Request): boolean {
    if (held && !(isFencingToken(held) ? this.#isStanding(held) : this.jobs.isHeld(held)))
      return false;
    if (event && !this.#areOpen(event)) return false;
    for (const key of keys) statements.addKey(this.batch, key, this.#parts.now);
    if (event) this.#event(event);
    write?.(this.#writer.writes);
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
    this.batch.add(statements.INSERTS.events, row.id, { ...row });
    for (const action of actions) this.#writer.act(action, row.id, row.at, this.wakes);
  }
}
