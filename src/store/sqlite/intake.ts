import type { WakeMode } from "../../config/schema/common.ts";
import { sessionId, type RunAction, type RunRecord, type StoredAction } from "../types.ts";
import type { Statements } from "./statements.ts";
import type { SqliteWrites } from "./writes.ts";

/** Events of one transaction: bounds how long accepting waits for it. */
const SLICE = 256;
const WATERMARK = "intake.seq";

function runOf(action: RunAction, eventId: string, at: number): RunRecord {
  const run: RunRecord = { id: action.runId, eventId, kind: "hook", status: "queued", spec: action.spec, warnings: action.warnings, attempts: 0, restarts: 0, createdAt: at };
  if (action.mapping !== undefined) run.mapping = action.mapping;
  return run;
}

/** What a slice brought. */
export interface Expanded {
  events: number;
  wakes: Map<string, WakeMode>;
}

/**
 * Accepting writes one row, the event with its actions; here those become runs, jobs and system events. A watermark in
 * the same transaction says how far that has come, so that a crash between the two loses and doubles nothing.
 */
export class Intake {
  readonly #sql: Statements;
  #watermark: number;
  #newest: number;

  constructor(sql: Statements) {
    this.#sql = sql;
    const row = sql.get<{ value: string }>("SELECT value FROM meta WHERE key = ?", WATERMARK);
    this.#watermark = row ? Number(row.value) : 0;
    this.#newest = sql.get<{ seq: number | null }>("SELECT max(seq) AS seq FROM events")?.seq ?? 0;
  }

  /** To be called when an event with actions was accepted. */
  noticed(): void {
    this.#newest = Infinity;
  }

  get behind(): boolean {
    return this.#newest > this.#watermark;
  }

  /** Expands the next slice inside the caller's transaction; `commit` must be called once that is on disk. */
  expand(writes: SqliteWrites): { expanded: Expanded; commit: () => void } {
    const rows = this.#sql.all<{ seq: number; id: string; at: number; actions: string | null }>("SELECT seq, id, at, actions FROM events WHERE seq > ? ORDER BY seq LIMIT ?", this.#watermark, SLICE);
    const wakes = new Map<string, WakeMode>();
    for (const row of rows) {
      if (row.actions === null) continue;
      for (const action of JSON.parse(row.actions) as StoredAction[]) this.#apply(action, row.id, row.at, writes, wakes);
    }
    const last = rows.at(-1)?.seq ?? this.#watermark;
    if (rows.length > 0) writes.setValue(WATERMARK, last);
    return {
      expanded: { events: rows.length, wakes },
      commit: () => {
        this.#watermark = last;
        if (rows.length < SLICE) this.#newest = last;
      },
    };
  }

  #apply(action: StoredAction, eventId: string, at: number, writes: SqliteWrites, wakes: Map<string, WakeMode>): void {
    if (action.kind === "wake") {
      writes.addSystemEvent({ id: action.systemEventId, agentId: action.agentId, at, text: action.text, source: action.hook, mode: action.mode, unsafe: action.unsafe });
      if (action.mode === "now" || !wakes.has(action.agentId)) wakes.set(action.agentId, action.mode);
      return;
    }
    const run = runOf(action, eventId, at);
    writes.insertRun(run);
    writes.enqueue({ id: run.id, kind: "turn", key: sessionId(run.spec.session), data: { type: "run", runId: run.id }, enqueuedAt: at });
  }
}
