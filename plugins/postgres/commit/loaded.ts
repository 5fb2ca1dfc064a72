import {
  type ApprovalRecord,
  callKey,
  type DeliveryRecord,
  isFencingToken,
  type Job,
  type Kept,
  type KnownCall,
  type RunState,
  type Sql,
  type ToolCallRecord,
  type Writes,
} from "#store-kit";
import { openWindows } from "../limits/batches.ts";
import { jobName, type LockedJob } from "./group-jobs.ts";
import { standing } from "../cluster/leases.ts";
import type { Request } from "./request.ts";

/**
 * The rows that a group may change, by id, read under locks before the write; then as the writes of the group left
 * them.
 */
export interface Loaded {
  kept: { [T in keyof Kept]: Map<string, Kept[T]> };
  /** By `jobName`. */
  jobs: Map<string, LockedJob>;
  /** Tokens of the leases that are asked for, by name, if a gateway has them. */
  fencingTokens: ReadonlyMap<string, number>;
  /** Runs whose windows are open, of those that are asked for. */
  windows: ReadonlySet<string>;
}

/** The rows that a group has to read before it can be written. */
interface Wanted {
  events: Set<string>;
  runs: Set<string>;
  deliveries: Set<string>;
  tool_calls: Map<string, { runId: string; callId: string }>;
  approvals: Set<string>;
  jobs: Map<string, Pick<Job, "kind" | "id">>;
  leases: Set<string>;
  windows: Set<string>;
}

const ignore = (): void => undefined;

/** Notes what the changes of a commit are made of. */
function noting({ events, runs, deliveries, tool_calls: calls, approvals, jobs }: Wanted): Writes {
  const job = (named: Pick<Job, "kind" | "id">): void => void jobs.set(jobName(named), named);
  return {
    events: { update: (id) => void events.add(id) },
    runs: { add: ignore, update: (id) => void runs.add(id), dropCollected: ignore },
    steps: {
      add: ignore,
      updateCall: (runId, callId) => void calls.set(callKey(runId, callId), { runId, callId }),
    },
    toolResults: { add: ignore },
    sessions: { addTurn: ignore, clear: ignore, delete: ignore, setLastRoute: ignore },
    systemEvents: { add: ignore, update: ignore },
    deliveries: { add: ignore, update: (id) => void deliveries.add(id) },
    approvals: {
      add: ignore,
      decide: (id) => void approvals.add(id),
      addRefused: (id) => void approvals.add(id),
    },
    jobs: {
      add: ignore,
      reschedule: ignore,
      delete: (kind, id) => job({ kind, id }),
      settle: job,
    },
    values: { set: ignore },
    configs: { use: ignore },
  };
}

/**
 * Lists what has to be read. A new hook brings new ids, so nothing is looked for: if one is there all the same, its insert fails,
 * and the hook is written again by itself, with `careful`.
 */
export function listWanted(requests: readonly Request[], careful: boolean): Wanted {
  const wanted: Wanted = {
    events: new Set(),
    runs: new Set(),
    deliveries: new Set(),
    tool_calls: new Map(),
    approvals: new Set(),
    jobs: new Map(),
    leases: new Set(),
    windows: new Set(),
  };
  const notes = noting(wanted);
  for (const { held, event, write } of requests) {
    if (held && isFencingToken(held)) wanted.leases.add(held.lease);
    else if (held) notes.jobs.settle(held);
    for (const action of event?.actions ?? []) {
      if (action.kind !== "run") continue;
      if (careful || action.collect) wanted.runs.add(action.runId);
      if (action.collect?.shared) wanted.windows.add(action.runId);
    }
    write?.(notes);
  }
  return wanted;
}

export const isNothing = (wanted: Wanted): boolean =>
  Object.values(wanted).every((ids: { size: number }) => ids.size === 0);

const KEPT_IN = { events: "head", runs: "record", deliveries: "record", approvals: "record" };

async function readRecords(
  sql: Sql,
  table: keyof typeof KEPT_IN,
  ids: ReadonlySet<string>,
): Promise<Map<string, string>> {
  if (ids.size === 0) return new Map();
  const rows = await sql.query<{ id: string; record: string }>(
    `SELECT id, ${KEPT_IN[table]} AS record FROM ${table} WHERE id = ANY($1::text[]) ORDER BY id FOR NO KEY UPDATE`,
    [[...ids]],
  );
  return new Map(rows.map((row) => [row.id, row.record]));
}

const parsed = async <T>(records: Promise<Map<string, string>>): Promise<Map<string, T>> =>
  new Map([...(await records)].map(([id, record]) => [id, JSON.parse(record) as T]));

async function readCalls(sql: Sql, wanted: Wanted["tool_calls"]): Promise<Map<string, KnownCall>> {
  if (wanted.size === 0) return new Map();
  const named = [...wanted.values()];
  const rows = await sql.query<{ run_id: string; step: number; position: number; record: string }>(
    `SELECT run_id, step, position, record FROM tool_calls WHERE run_id = ANY($1::text[]) AND id = ANY($2::text[])
      ORDER BY run_id, step, position FOR NO KEY UPDATE`,
    [
      [...new Set(named.map(({ runId }) => runId))],
      [...new Set(named.map(({ callId }) => callId))],
    ],
  );
  return new Map(
    rows.map(({ run_id: runId, step, position, record }) => {
      const call = JSON.parse(record) as ToolCallRecord;
      return [callKey(runId, call.id), { step, position, record: call }];
    }),
  );
}

/** Locks jobs that a group may end or put back, so that no gateway starts or frees them meanwhile. */
async function lockJobs(sql: Sql, wanted: Wanted["jobs"]): Promise<Loaded["jobs"]> {
  if (wanted.size === 0) return new Map();
  const named = [...wanted.values()];
  const rows = await sql.query<LockedJob>(
    `SELECT jobs.kind, jobs.id, jobs.key, jobs.starts, jobs.holder IS NOT NULL AS held
      FROM unnest($1::text[], $2::text[]) AS given (kind, id) JOIN jobs ON jobs.kind = given.kind AND jobs.id = given.id
      ORDER BY jobs.seq FOR NO KEY UPDATE OF jobs`,
    [named.map(({ kind }) => kind), named.map(({ id }) => id)],
  );
  return new Map(rows.map((job) => [jobName(job), job]));
}

/** Reads what is wanted, with locks on what may change. All gateways lock in the same order. Nothing is sent if nothing is wanted. */
export async function load(sql: Sql, wanted: Wanted): Promise<Loaded> {
  const [windows, fencingTokens, events, runs, deliveries, tool_calls, approvals, jobs] =
    await Promise.all([
      openWindows(sql, [...wanted.windows]),
      standing(sql, [...wanted.leases]),
      readRecords(sql, "events", wanted.events),
      parsed<RunState>(readRecords(sql, "runs", wanted.runs)),
      parsed<DeliveryRecord>(readRecords(sql, "deliveries", wanted.deliveries)),
      readCalls(sql, wanted.tool_calls),
      parsed<ApprovalRecord>(readRecords(sql, "approvals", wanted.approvals)),
      lockJobs(sql, wanted.jobs),
    ]);
  const kept = { events, runs, deliveries, tool_calls, approvals };
  return { kept, windows, fencingTokens, jobs };
}
