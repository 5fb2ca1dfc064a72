import {
  DEBUG_MARK,
  redactActions,
  redactApproval,
  redactDebug,
  redactHead,
  redactSpec,
  redactStep,
  redactSystemEvent,
  redactToolCall,
  redactToolResult,
} from "./redact.ts";
import type { Ms, Retention } from "./types.ts";

/** Rows that one transaction of a sweep reads. A short transaction lets the gateway accept hooks in between. */
export const SWEEP_SLICE = 500;

const UNFINISHED = "EXISTS (SELECT 1 FROM runs WHERE runs.event_id = events.id AND runs.ended IS NULL)";

/** A table whose rows are deleted by age. */
export interface AgedTable {
  table: "events" | "runs" | "system_events" | "deliveries";
  /** The column of the time that rows are in order of. */
  at: "at" | "created";
  /** SQL: the time that the row's age counts from, or NULL if the row has to stay. */
  since: string;
  cutoff: Ms;
  /** Tables whose rows go with a row of this one: their `run_id` is its `id`. */
  parts?: readonly string[];
}

/** The tables that hold what happened in a run. */
const RUN_PARTS = ["steps", "tool_calls", "tool_results", "approvals"] as const;

export interface AgedRow {
  seq: number;
  at: Ms;
  since: Ms | null;
}

/** Returns the tables that retention deletes rows of. */
export function getAgedTables(now: Ms, keep: Retention): AgedTable[] {
  return [
    { table: "events", at: "at", since: `CASE WHEN NOT ${UNFINISHED} THEN at END`, cutoff: now - keep.events },
    { table: "runs", at: "created", since: "ended", cutoff: now - keep.runs, parts: RUN_PARTS },
    { table: "system_events", at: "at", since: "CASE WHEN state <> 'queued' THEN at END", cutoff: now - keep.events },
    { table: "deliveries", at: "created", since: "ended", cutoff: now - keep.deliveries },
  ];
}

/**
 * Selects the rows of a slice to delete. It ends at the first row that is young enough: the tables are in order of time,
 * and an index on the time would cost every hook something.
 */
export function selectAged(rows: readonly AgedRow[], cutoff: Ms): { seqs: number[]; last: number | undefined; more: boolean } {
  const young = rows.findIndex((row) => row.at >= cutoff);
  const old = young === -1 ? rows : rows.slice(0, young);
  const seqs = old.filter(({ since }) => since !== null && since < cutoff).map(({ seq }) => seq);
  return { seqs, last: old.at(-1)?.seq, more: young === -1 && rows.length === SWEEP_SLICE };
}

/** A session that has more turns than retention keeps. */
export interface LongSession {
  session: string;
  turns: number;
}

/**
 * Returns what may be deleted of a session with so many turns, each only if there is nothing of the one before: the oldest
 * turns that its newest checkpoint covers, and those beyond twice the turns that are kept. Up to then turns wait for a
 * checkpoint, since the model may be away.
 */
export function getTrims(turns: number, keep: number, covered: number): { upTo: number; most: number }[] {
  const all = [
    { upTo: covered, most: turns - keep },
    { upTo: Number.MAX_SAFE_INTEGER, most: turns - 2 * keep },
  ];
  return all.filter(({ most }) => most > 0).map(({ upTo, most }) => ({ upTo, most: Math.min(most, SWEEP_SLICE) }));
}

export interface RedactedRow {
  seq: number;
  at: Ms;
}

/** New values by column. */
type Changes = Record<string, string | null>;

/** A table whose rows lose their texts. */
export interface Redaction {
  /** The row of `marks` that holds the last row with nothing left to do, so that a sweep does not begin at the oldest row. */
  mark: string;
  table: "events" | "runs" | "system_events" | (typeof RUN_PARTS)[number];
  /** SQL: the columns that `redact` reads, with the row's time as `at`. */
  columns: string;
  /** Returns what changes in a row, or `done` if nothing does; `wait` returns to the row in the next sweep, `end` ends this one. */
  redact(row: RedactedRow): Changes | "done" | "wait" | "end";
}

/** What the drivers' SQL has different words for. */
export interface SweepDialect {
  /** SQL: whether an event has a body, without reading it. */
  hasBody: string;
  /** The SQL function that finds a text in a text. */
  find: "instr" | "strpos";
}

interface BodyRow extends RedactedRow {
  has: number | boolean;
  unfinished: number | boolean;
  head: string | null;
  actions: string | null;
}

/** Removes raw bodies and the notes that may quote them. With `actionsToo`, it also removes the hook's content from the actions. */
function redactBodies(cutoff: Ms, actionsToo: boolean, { hasBody, find }: SweepDialect): Redaction {
  const texts = actionsToo ? "head, actions" : `CASE WHEN ${find}(head, '${DEBUG_MARK}') > 0 THEN head END AS head, NULL AS actions`;
  return {
    mark: "bodies",
    table: "events",
    columns: `at, ${hasBody} AS has, ${UNFINISHED} AS unfinished, ${texts}`,
    redact({ at, has, unfinished, head, actions }: BodyRow) {
      if (at > cutoff) return "end";
      if (!has) return "done";
      if (unfinished) return "wait";
      if (head === null) return { body: null };
      return actionsToo ? { body: null, head: redactHead(head), actions: redactActions(actions) } : { body: null, head: redactDebug(head) };
    },
  };
}

/** SQL: whether what a run was given is used up. A hook's run that failed keeps it, since it may be retried. */
const USED_UP = "ended IS NOT NULL AND (status IN ('succeeded', 'cancelled') OR event_id IS NULL)";

/** Removes the input of runs. */
const INPUTS: Redaction = {
  mark: "inputs",
  table: "runs",
  columns: `created AS at, ${USED_UP} AS done, spec`,
  redact({ done, spec }: RedactedRow & { done: number | boolean; spec: string }) {
    if (!done) return "wait";
    const redacted = redactSpec(spec);
    return redacted === undefined ? "done" : { spec: redacted };
  },
};

/** Removes the text of system events that a heartbeat has read. */
const SYSTEM_EVENTS: Redaction = {
  mark: "system-events",
  table: "system_events",
  columns: "at, state, record",
  redact: ({ state, record }: RedactedRow & { state: string; record: string }) =>
    state === "done" ? { record: redactSystemEvent(record) } : "wait",
};

/** Removes the texts of what happened in runs, and leaves names and times. */
const STEPS: Redaction[] = (
  [
    ["steps", redactStep],
    ["tool_calls", redactToolCall],
    ["tool_results", redactToolResult],
    ["approvals", redactApproval],
  ] as const
).map(([table, redactRecord]) => ({
  mark: table,
  table,
  columns: `at, (SELECT ${USED_UP} FROM runs WHERE runs.id = ${table}.run_id) AS done, record`,
  redact: ({ done, record }: RedactedRow & { done: number | boolean | null; record: string }) => {
    if (!done) return "wait";
    const redacted = redactRecord(record);
    return redacted === record ? "done" : { record: redacted };
  },
}));

/** Returns what retention redacts. If no bodies are kept, runs and system events lose the hooks' texts too. */
export function getRedactions(now: Ms, keep: Retention, dialect: SweepDialect): Redaction[] {
  const none = keep.bodies === 0;
  return [redactBodies(now - keep.bodies, none, dialect), ...(none ? [INPUTS, SYSTEM_EVENTS, ...STEPS] : [])];
}

/** How far a redaction is: the last row read, and the last row before which nothing is left to do. */
export interface RedactionPosition {
  after: number;
  marked: number;
  /** Whether a row has to be read again, so that the mark stays before it. */
  blocked: boolean;
}

/**
 * Decides on the rows of a slice. The mark stays before rows that are younger than `settledUntil`: another gateway may
 * still be writing a row with a smaller number.
 */
export function redactRows(
  rows: readonly RedactedRow[],
  redaction: Redaction,
  position: RedactionPosition,
  settledUntil = Infinity,
): { updates: { seq: number; changes: Changes }[]; position: RedactionPosition; more: boolean } {
  let { after, marked, blocked } = position;
  const updates: { seq: number; changes: Changes }[] = [];
  for (const row of rows) {
    const outcome = redaction.redact(row);
    if (outcome === "end") return { updates, position: { after, marked, blocked }, more: false };
    if (outcome === "wait" || row.at > settledUntil) blocked = true;
    if (typeof outcome === "object") updates.push({ seq: row.seq, changes: outcome });
    after = row.seq;
    if (!blocked) marked = row.seq;
  }
  return { updates, position: { after, marked, blocked }, more: rows.length === SWEEP_SLICE };
}
