import {
  type FencingToken,
  type Job,
  LEASE_LOST,
  type Ms,
  oldestBody,
  RouseError,
  type Signals,
  type Store,
  toEventRow,
  type Writes,
} from "#store-kit";
import type { Db } from "../client/db.ts";
import { newKeys } from "../commit/keys.ts";
import type { GroupCommit } from "../commit/group-commit.ts";
import { createPostgresReads } from "./reads.ts";
import { POSTGRES_DIALECT, sweep } from "./sweep.ts";

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
      const [row] = await db.query<{ at: Ms }>(oldestBody(POSTGRES_DIALECT, "$1::bigint"), [
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
