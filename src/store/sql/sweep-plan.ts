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
import { AHEAD_MS } from "./rows.ts";
import type { Ms, Retention } from "../types.ts";

/** Rows that one transaction of a sweep reads. A short transaction lets the gateway accept hooks in between. */
export const SWEEP_SLICE = 500;

/** Rows that one look ahead reads. */
export const LOOK_AHEAD = 5000;

/** Returns true for a time in the future, which says nothing about a row's age. */
const isAhead = (at: Ms, now: Ms): boolean => at > now + AHEAD_MS;

export interface TimedRow {
  seq: number;
  at: Ms;
}

/** Up to when rows are old enough to go, and what time it is. */
export interface Age {
  /** The newest time that is old enough. */
  upTo: Ms;
  now: Ms;
}

/**
 * The progress of a walk over a table. The table is in order of time but for rows whose times lie in the future, since the clock
 * was wrong when they were written. Such a row is old if one that was written after it is; an index on the time would cost
 * every hook something.
 */
export interface Walk {
  /** The last row that was read and is done with. */
  after: number;
  /** Every row up to this one is old. */
  oldUpTo: number;
  /** The last row of those that were only looked at, to find an old one behind rows from the future. */
  looked?: number;
}

/** Returns the rows of a slice that are old, and how the walk goes on; `end`: it is over. */
export function walkOver<R extends TimedRow>(
  rows: readonly R[],
  walk: Walk,
  age: Age,
): { old: R[]; walk: Walk; end: boolean } {
  let old = 0;
  let young = false;
  for (const [n, { seq, at }] of rows.entries()) {
    if (seq <= walk.oldUpTo || at <= age.upTo) old = n + 1;
    else if (!isAhead(at, age.now)) {
      young = true;
      break;
    }
  }
  const taken = rows.slice(0, old);
  const last = taken.at(-1)?.seq ?? walk.after;
  const end = young || rows.length < SWEEP_SLICE;
  const next: Walk = { after: last, oldUpTo: Math.max(walk.oldUpTo, last) };
  // A whole slice from the future: the walk looks for what was written after it.
  if (!end && old === 0) next.looked = rows.at(-1)?.seq ?? last;
  return { old: taken, walk: next, end };
}

/** Goes on with a walk after a look at the times of the next `LOOK_AHEAD` rows. */
export function lookAhead(
  rows: readonly TimedRow[],
  { after, oldUpTo }: Walk,
  age: Age,
): { walk: Walk; end: boolean } {
  const sane = rows.find(({ at }) => !isAhead(at, age.now));
  if (sane)
    return {
      walk: { after, oldUpTo: sane.at <= age.upTo ? sane.seq : oldUpTo },
      end: sane.at > age.upTo,
    };
  return {
    walk: { after, oldUpTo, looked: rows.at(-1)?.seq ?? after },
    end: rows.length < LOOK_AHEAD,
  };
}

/** SQL: whether a run of an event has not ended. */
export const UNFINISHED =
  "EXISTS (SELECT 1 FROM runs WHERE runs.event_id = events.id AND runs.ended IS NULL)";

/** A table whose rows are deleted by age. */
export interface AgedTable {
  table: "events" | "runs" | "system_events" | "deliveries";
  /** The column of the time that rows are in order of. */
  at: "at" | "created";
  /** SQL: the time that the row's age counts from, or NULL if the row has to stay. */
  since: string;
  age: Age;
  /** Tables whose rows go with a row of this one: their `run_id` is its `id`. */
  parts?: readonly string[];
}

/** The tables that hold what happened in a run. */
const RUN_PARTS = ["steps", "tool_calls", "tool_results", "approvals"] as const;

export interface AgedRow extends TimedRow {
  since: Ms | null;
}

/** Returns the tables that retention deletes rows of. */
export function getAgedTables(now: Ms, keep: Retention): AgedTable[] {
  const getAge = (kept: Ms): Age => ({ upTo: now - kept - 1, now });
  return [
    {
      table: "events",
      at: "at",
      since: `CASE WHEN NOT ${UNFINISHED} THEN at END`,
      age: getAge(keep.events),
    },
    { table: "runs", at: "created", since: "ended", age: getAge(keep.runs), parts: RUN_PARTS },
    {
      table: "system_events",
      at: "at",
      since: "CASE WHEN state <> 'queued' THEN at END",
      age: getAge(keep.events),
    },
    {
      table: "deliveries",
      at: "created",
      since: "ended",
      age: getAge(keep.deliveries),
      parts: ["tool_results"],
    },
  ];
}

/** Selects the rows of a slice to delete. An end in the future says no more than a beginning there. */
export function selectAged(
  rows: readonly AgedRow[],
  before: Walk,
  age: Age,
): { seqs: number[]; walk: Walk; end: boolean } {
  const { old, walk, end } = walkOver(rows, before, age);
  const isOver = (since: Ms | null): boolean =>
    since !== null && (since <= age.upTo || isAhead(since, age.now));
  return { seqs: old.filter(({ since }) => isOver(since)).map(({ seq }) => seq), walk, end };
}

/**
 * Returns what may be deleted of a session with so many turns, each only if there is nothing of the one before: the oldest
 * turns that its newest checkpoint covers, and those beyond twice the turns that are kept. Up to then turns wait for a
 * checkpoint, since the model may be away.
 */
export function getTrims(
  turns: number,
  keep: number,
  covered: number,
): { upTo: number; most: number }[] {
  const all = [
    { upTo: covered, most: turns - keep },
    { upTo: Number.MAX_SAFE_INTEGER, most: turns - 2 * keep },
  ];
  return all
    .filter(({ most }) => most > 0)
    .map(({ upTo, most }) => ({ upTo, most: Math.min(most, SWEEP_SLICE) }));
}

export type RedactedRow = TimedRow;

/** New values by column. */
type Changes = Record<string, string | null>;

/** A table whose rows lose their texts. */
export interface Redaction {
  /** The row of `marks` that holds the last row with nothing left to do, so that a sweep does not begin at the oldest row. */
  mark: string;
  table: "events" | "runs" | "system_events" | (typeof RUN_PARTS)[number];
  /** SQL: the columns that `redact` reads, with the row's time as `at`. */
  columns: string;
  /** Which rows are old enough; all of them if there is none. */
  age?: Age;
  /** Returns what changes in a row, or `done` if nothing does; `wait` returns to the row in the next sweep. */
  redact(row: RedactedRow): Changes | "done" | "wait";
}

/** The SQL that differs between the drivers. */
export interface SweepDialect {
  /** SQL: whether an event has a body, without reading it. */
  hasBody: string;
}

interface BodyRow extends RedactedRow {
  has: number | boolean;
  unfinished: number | boolean;
  head: string | null;
  actions: string | null;
}

/** Removes raw bodies and the notes that may quote them. With `actionsToo`, it also removes the hook's content from the actions. */
function redactBodies(age: Age, actionsToo: boolean, { hasBody }: SweepDialect): Redaction {
  const texts = actionsToo
    ? "head, actions"
    : `CASE WHEN head LIKE '%${DEBUG_MARK}%' THEN head END AS head, NULL AS actions`;
  return {
    mark: "bodies",
    table: "events",
    columns: `at, ${hasBody} AS has, ${UNFINISHED} AS unfinished, ${texts}`,
    age,
    redact({ has, unfinished, head, actions }: BodyRow) {
      if (!has) return "done";
      if (unfinished) return "wait";
      if (head === null) return { body: null };
      return actionsToo
        ? { body: null, head: redactHead(head), actions: redactActions(actions) }
        : { body: null, head: redactDebug(head) };
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
    // Files of deliveries stay as long as the deliveries' texts.
    if (table === "tool_results" && record.startsWith('{"id":"dlv_')) return "done";
    if (!done) return "wait";
    const redacted = redactRecord(record);
    return redacted === record ? "done" : { record: redacted };
  },
}));

/** Returns what retention redacts. If no bodies are kept, runs and system events lose the hooks' texts too. */
export function getRedactions(now: Ms, keep: Retention, dialect: SweepDialect): Redaction[] {
  const none = keep.bodies === 0;
  return [
    redactBodies({ upTo: now - keep.bodies, now }, none, dialect),
    ...(none ? [INPUTS, SYSTEM_EVENTS, ...STEPS] : []),
  ];
}

/** The progress of a redaction. `marked`: nothing is left to redact up to this row. */
export interface RedactionPosition extends Walk {
  marked: number;
  /** True if a row has to be read again, so that the mark stays before it. */
  blocked: boolean;
}

const NO_AGE: Age = { upTo: Infinity, now: Infinity };

/**
 * Decides on the rows of a slice. The mark stays before rows that are younger than `settled`, which ends with the present: another
 * gateway may still be writing a row with a smaller number.
 */
export function redactRows(
  rows: readonly RedactedRow[],
  redaction: Redaction,
  position: RedactionPosition,
  settled: Age = NO_AGE,
): { updates: { seq: number; changes: Changes }[]; position: RedactionPosition; more: boolean } {
  let { marked, blocked } = position;
  const { old, walk, end } = walkOver(rows, position, redaction.age ?? NO_AGE);
  const updates: { seq: number; changes: Changes }[] = [];
  for (const row of old) {
    const outcome = redaction.redact(row);
    if (outcome === "wait" || (row.at > settled.upTo && !isAhead(row.at, settled.now)))
      blocked = true;
    if (typeof outcome === "object") updates.push({ seq: row.seq, changes: outcome });
    if (!blocked) marked = row.seq;
  }
  return { updates, position: { ...walk, marked, blocked }, more: !end };
}

/** Events that one look for a body reads: those behind the mark have lost theirs. */
const MAX_EVENTS = 100_000;

/**
 * SQL of the time of the oldest event that still has its body and no unfinished run, of those behind the mark of bodies. `now`: a
 * placeholder for the time it is; the age of an event from the future is not known.
 */
export const oldestBody = ({ hasBody }: SweepDialect, now: string): string => `
  SELECT at FROM (
    SELECT seq, at, ${hasBody} AS has, ${UNFINISHED} AS unfinished FROM events
    WHERE seq > coalesce((SELECT seq FROM marks WHERE name = 'bodies'), 0) ORDER BY seq LIMIT ${MAX_EVENTS}) AS kept
  WHERE has AND NOT unfinished AND at <= ${now} + ${AHEAD_MS} ORDER BY seq LIMIT 1`;
