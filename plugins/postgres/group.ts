import {
  type DedupeRecord,
  type FencingToken,
  isFencingToken,
  type Job,
  type JobKind,
  type Ms,
  RouseError,
  type Sql,
  type WakeMode,
} from "#store-kit";
import { jobKey } from "./job-plan.ts";
import type { Jobs } from "./jobs.ts";
import { standing } from "./leases.ts";
import { openWindows } from "./batches.ts";
import { bindKeys, isUnbound, readDedupeRecords, unbindKeys, type NewDedupeKey } from "./keys.ts";
import type { Lane, Statement } from "./lane.ts";
import { loadSteps, NO_STEPS, wantNoSteps, wantSteps, type WantedSteps } from "./step-plan.ts";
import { UnitOfWork, type Loaded } from "./unit-of-work.ts";
import type { Ops } from "./write-log.ts";
import { planStatements } from "./write.ts";

/** One caller's part of a commit. */
export interface Request {
  ops: Ops;
  keys: readonly NewDedupeKey[];
  held?: Job | FencingToken;
}

export type Outcome =
  | { kind: "done" }
  | { kind: "lost" }
  | { kind: "duplicate"; record: DedupeRecord }
  | { kind: "refused"; error: RouseError };

/** What became of a group that is on disk: an outcome for each, and what others have to hear of. */
export interface Committed {
  outcomes: Outcome[];
  touched: ReadonlySet<JobKind>;
  /** Kinds of which a job became ready, for other gateways. */
  ready: ReadonlySet<JobKind>;
  wakes: ReadonlyMap<string, WakeMode>;
  /** Jobs that wait for a time. */
  later: { kind: JobKind; at: Ms }[];
}

export interface GroupParts {
  db: Pick<Lane, "transaction" | "write" | "send">;
  /** The part of the counters that these groups write: no others do, so that none waits for another. */
  part: string;
  jobs: Jobs;
  now: () => Ms;
  dbTime: (at: Ms) => Ms;
}

/** A key was let go between two statements: the same again finds out. */
export class RetryTransaction extends Error {}

interface Wanted {
  events: string[];
  heads: string[];
  runs: string[];
  deliveries: string[];
  jobs: { kind: JobKind; id: string }[];
  leases: string[];
  windows: string[];
  steps: WantedSteps;
}

function addEvent(wanted: Wanted, { row, actions }: Ops["events"][number], careful: boolean): void {
  if (careful) wanted.events.push(row.id);
  for (const action of actions) {
    if (action.kind !== "run") continue;
    if (careful || action.collect) wanted.runs.push(action.runId);
    if (action.collect?.shared) wanted.windows.push(action.runId);
  }
}

/**
 * What has to be read before it can be decided. A new hook brings new ids, so nothing is looked for: where one is there
 * all the same, its insert fails, and the group is done again with `careful`.
 */
function buildLoadRequest(requests: readonly Request[], careful: boolean): Wanted {
  const jobs = new Map<string, { kind: JobKind; id: string }>();
  const wanted: Wanted = {
    events: [],
    heads: [],
    runs: [],
    deliveries: [],
    jobs: [],
    leases: [],
    windows: [],
    steps: wantNoSteps(),
  };
  const wantJob = (kind: JobKind, id: string): void =>
    void jobs.set(jobKey(kind, id), { kind, id });
  for (const { ops, held } of requests) {
    if (held && isFencingToken(held)) wanted.leases.push(held.lease);
    else if (held) wantJob(held.kind, held.id);
    for (const event of ops.events) addEvent(wanted, event, careful);
    for (const { id } of ops.eventChanges) wanted.heads.push(id);
    for (const op of ops.runs) wanted.runs.push(op.op === "insert" ? op.row.id : op.id);
    for (const op of ops.deliveries)
      wanted.deliveries.push(op.op === "insert" ? op.record.id : op.id);
    for (const op of ops.steps) wantSteps(wanted.steps, op, careful);
    for (const op of ops.jobs) {
      if (op.op === "complete" || op.op === "retry") wantJob(op.job.kind, op.job.id);
      if (op.op === "remove" || (op.op === "reschedule" && op.key !== undefined))
        wantJob(op.kind, op.id);
    }
  }
  return { ...wanted, jobs: [...jobs.values()] };
}

const KEPT_IN = { events: "head", runs: "record", deliveries: "record" };

async function records(
  sql: Sql,
  table: keyof typeof KEPT_IN,
  ids: readonly string[],
): Promise<Map<string, string>> {
  if (ids.length === 0) return new Map();
  const rows = await sql.query<{ id: string; record: string }>(
    `SELECT id, ${KEPT_IN[table]} AS record FROM ${table} WHERE id = ANY($1::text[]) ORDER BY id FOR NO KEY UPDATE`,
    [[...new Set(ids)]],
  );
  return new Map(rows.map((row) => [row.id, row.record]));
}

async function eventIds(sql: Sql, ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const rows = await sql.query<{ id: string }>("SELECT id FROM events WHERE id = ANY($1::text[])", [
    ids,
  ]);
  return new Set(rows.map((row) => row.id));
}

const NOTHING: Loaded = {
  windows: new Set(),
  fencingTokens: new Map(),
  events: new Set(),
  heads: new Map(),
  runs: new Map(),
  deliveries: new Map(),
  jobs: new Map(),
  steps: NO_STEPS,
};

async function load(sql: Sql, { jobs }: GroupParts, wanted: Wanted): Promise<Loaded> {
  const [windows, fencingTokens, events, heads, runs, deliveries, steps, locked] =
    await Promise.all([
      openWindows(sql, wanted.windows),
      standing(sql, wanted.leases),
      eventIds(sql, wanted.events),
      records(sql, "events", wanted.heads),
      records(sql, "runs", wanted.runs),
      records(sql, "deliveries", wanted.deliveries),
      loadSteps(sql, wanted.steps),
      wanted.jobs.length === 0 ? [] : jobs.lock(sql, wanted.jobs),
    ]);
  const jobsByKey = new Map(locked.map((job) => [jobKey(job.kind, job.id), job]));
  return { windows, fencingTokens, events, heads, runs, deliveries, steps, jobs: jobsByKey };
}

/** Those of a request's keys that somebody else holds, with the records that hold them. */
async function readKeyHolders(
  sql: Sql,
  requests: readonly Request[],
  bound: ReadonlySet<string>,
): Promise<Map<string, DedupeRecord>> {
  const missed = requests.flatMap(({ keys }) => keys.filter((key) => !bound.has(key.name)));
  if (missed.length === 0) return new Map();
  const held = await readDedupeRecords(
    sql,
    missed.map((key) => key.id),
  );
  if (missed.some((key) => !held.has(key.name))) throw new RetryTransaction();
  return held;
}

function toOutcome(
  request: Request,
  plan: UnitOfWork,
  held: ReadonlyMap<string, DedupeRecord>,
): Outcome {
  for (const { name, eventId } of request.keys) {
    const record = held.get(name);
    if (record && record.eventId !== eventId) return { kind: "duplicate", record };
  }
  try {
    return { kind: plan.add(request.ops, request.held) ? "done" : "lost" };
  } catch (error) {
    if (error instanceof RouseError) return { kind: "refused", error };
    throw error;
  }
}

function getNextTimes({ jobs }: UnitOfWork, now: Ms): Committed["later"] {
  const times = [
    ...[...jobs.inserts.values()].map(({ job }) => ({ kind: job.kind, at: job.runAt ?? 0 })),
    ...jobs.retries.map(({ kind, runAt }) => ({ kind, at: runAt })),
    ...[...jobs.reschedules.values(), ...jobs.moves.values()].map(({ kind, runAt }) => ({
      kind,
      at: runAt,
    })),
  ];
  return times.filter(({ at }) => at > now);
}

const unusedKeys = (
  requests: readonly Request[],
  outcomes: readonly Outcome[],
  bound: ReadonlySet<string>,
): NewDedupeKey[] =>
  requests.flatMap((request, n) =>
    outcomes[n]?.kind === "done" ? [] : request.keys.filter((key) => bound.has(key.name)),
  );

interface Ready {
  kind: JobKind;
  ready?: boolean;
}

function readsNothing({ steps, ...others }: Wanted): boolean {
  return [others, steps].every((lists) =>
    Object.values(lists).every((list: readonly unknown[]) => list.length === 0),
  );
}

/** Sends a group that is one statement, behind the groups before it that are under way. */
async function sendAlone(db: GroupParts["db"], statement: Statement): Promise<Ready[]> {
  try {
    return await db.send<Ready>(statement);
  } catch (error) {
    // Who has the keys is found out step by step.
    if (isUnbound(error)) throw new RetryTransaction();
    throw error;
  }
}

/**
 * Writes a group in one transaction. No two of the requests may ask for the same key. Bound by the statements' times;
 * @throws what PostgreSQL says; then nothing of the group is there, unless the connection was lost during the commit.
 */
export async function commitGroup(
  requests: readonly Request[],
  parts: GroupParts,
  careful: boolean,
): Promise<Committed> {
  const now = parts.now();
  const keys = requests.flatMap((request) => request.keys);
  const wanted = buildLoadRequest(requests, careful);

  const planned = (loaded: Loaded, held: ReadonlyMap<string, DedupeRecord>, areBound = true) => {
    const plan = new UnitOfWork(loaded);
    const outcomes = requests.map((request) => toOutcome(request, plan, held));
    const unbound = areBound
      ? []
      : requests.flatMap((request, n) => (outcomes[n]?.kind === "done" ? request.keys : []));
    return { plan, outcomes, statements: planStatements(plan, now, parts, unbound) };
  };
  const committed = (
    { plan, outcomes }: ReturnType<typeof planned>,
    rows: Ready[][],
  ): Committed => ({
    outcomes,
    touched: plan.jobs.touched,
    ready: new Set(
      rows.flatMap((of) => of.filter((row) => row.ready !== false).map((row) => row.kind)),
    ),
    wakes: plan.wakes,
    later: getNextTimes(plan, now),
  });

  if (!careful && readsNothing(wanted)) {
    const group = planned(NOTHING, new Map(), false);
    const [first, ...others] = group.statements;
    if (first && others.length === 0) return committed(group, [await sendAlone(parts.db, first)]);
    if (keys.length === 0) return committed(group, await parts.db.write<Ready>(group.statements));
  }
  return parts.db.transaction(async (sql) => {
    const [bound, loaded] = await Promise.all([
      keys.length === 0 ? new Set<string>() : bindKeys(sql, keys, now),
      load(sql, parts, wanted),
    ]);
    const group = planned(loaded, await readKeyHolders(sql, requests, bound));
    const unused = unusedKeys(requests, group.outcomes, bound);
    const sent = [
      ...group.statements.map(({ text, values }) => sql.query<Ready>(text, values)),
      ...(unused.length === 0 ? [] : [unbindKeys(sql, unused)]),
    ];
    sql.last();
    return committed(group, await Promise.all(sent));
  });
}
