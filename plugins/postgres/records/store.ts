import {
  LEASE_LOST,
  oldestBody,
  RouseError,
  toEventRow,
  getSweepSteps,
  type FencingToken,
  type Job,
  type Ms,
  type Signals,
  type Store,
  type Writes,
  type Retention,
  type Slice,
  type Sql,
  type SweepDialect,
  type SweepStep,
} from "#store-kit";
import type { Db } from "../client/db.ts";
import { newKeys } from "../commit/keys.ts";
import type { GroupCommit } from "../commit/group-commit.ts";
import { createPostgresReads, createSource } from "./reads.ts";
import { standing } from "../cluster/leases.ts";

const HAS_BODY = "body IS NOT NULL";
/** No transaction takes so long: what is older has all that there will ever be of it. */
const SETTLED_MS = 600_000;

const createDialect = (db: Db, now: Ms): SweepDialect => ({
  source: createSource(db),
  hasBody: HAS_BODY,
  upTo: Number.MAX_SAFE_INTEGER,
  settledUpTo: now - SETTLED_MS,
  dedupeKey: "id",
  lock: " FOR UPDATE",
});

/** Runs the statements of a step, one after the other. */
async function runStep(sql: Sql, step: SweepStep): Promise<Slice> {
  const { query } = createSource(sql);
  const statements = step();
  for (let rows: unknown[] = []; ;) {
    const { done, value } = statements.next(rows);
    if (done) return value;
    const [text, ...values] = value;
    rows = await query(text, values);
  }
}

/**
 * Lets go of what retention says, in short transactions, until `stopped`, or until the lease of `fencingToken` is lost. Two
 * gateways may be at it at the same time. Returns how many rows went or were changed.
 */
async function sweep(
  db: Db,
  now: Ms,
  keep: Retention,
  { fencingToken, stopped }: { fencingToken: FencingToken | undefined; stopped(): boolean },
): Promise<number> {
  const isStanding = async (sql: Sql): Promise<boolean> =>
    fencingToken === undefined ||
    (await standing(sql, [fencingToken.lease])).get(fencingToken.lease) === fencingToken.token;
  let total = 0;
  for (const step of getSweepSteps(now, keep, createDialect(db, now))) {
    for (let more = true; more && !stopped();) {
      const slice = await db.transaction(async (sql) =>
        (await isStanding(sql)) ? runStep(sql, step) : undefined,
      );
      if (!slice) return total;
      slice.settle?.();
      total += slice.changed;
      more = slice.more;
    }
  }
  return total;
}

export interface StoreParts {
  db: Db;
  now: () => Ms;
  /** The present by this machine's clock or the database's, whichever is behind. */
  getLatest: () => Ms;
  /** Hooks that come in, and the work on them: neither waits for the other's transactions. */
  accepting: GroupCommit;
  committing: GroupCommit;
  signals: Signals;
  close(): Promise<void>;
}

/** The store over one PostgreSQL schema. */
export function createPostgresStore({
  db,
  now,
  getLatest,
  accepting,
  committing,
  signals,
  close,
}: StoreParts): Store {
  let closing: Promise<void> | undefined;
  return {
    ...createPostgresReads(db, now),
    async accept(event, entries = [], fencingToken?) {
      const collected = event.actions.flatMap((action) =>
        action.kind === "run" && action.collect ? [action.runId] : [],
      );
      const outcome = await accepting.add(
        {
          keys: newKeys(event.id, entries),
          held: fencingToken,
          event: { row: toEventRow(event, getLatest()), actions: event.actions },
        },
        collected,
      );
      if (
        outcome.kind === "lost" &&
        event.actions.some((action) => action.kind === "run" && action.collect?.shared)
      )
        return { kind: "closed" };
      if (outcome.kind === "lost") throw new RouseError(LEASE_LOST);
      return outcome.kind === "duplicate"
        ? { kind: "duplicate", record: outcome.record }
        : { kind: "accepted" };
    },
    async commit(write: (tx: Writes) => void, held?: Job | FencingToken) {
      const outcome = await committing.add({ keys: [], held, write });
      return outcome.kind === "done";
    },
    onSystemEvents: signals.onWake,
    // A gateway whose clock is ahead of the database's deletes nothing before its time.
    sweep: (at, retention, fencingToken) =>
      sweep(db, at - (now() - getLatest()), retention, {
        fencingToken,
        stopped: () => closing !== undefined,
      }),
    async oldestBody(at) {
      const [row] = await db.query<{ at: Ms }>(oldestBody(HAS_BODY, "$1::bigint"), [
        Math.round(at),
      ]);
      return row?.at;
    },
    async backup() {
      throw new RouseError({
        code: "usage",
        message: `the store is in PostgreSQL: back it up with pg_dump, for example pg_dump --schema=${db.address.schema} --format=custom`,
      });
    },
    close: () => (closing ??= close()),
  };
}
