import { chmod, rm, stat, writeFile } from "node:fs/promises";
import { RouseError } from "../../core/errors.ts";
import {
  isFencingToken,
  type AcceptResult,
  type DedupeEntry,
  type EventRecord,
  type FencingToken,
  type Job,
  type JobKind,
  type Ms,
  type Store,
  type Writes,
} from "../types.ts";
import type { Checkpoints, LogFile } from "./checkpoints.ts";
import { copyDatabase } from "./copy-database.ts";
import type { SqliteGroupCommit } from "./group-commit.ts";
import { sqliteError, type Statements } from "./statements.ts";
import { oldestBody } from "../sql/sweep-plan.ts";
import type { Materializer, MaterializeLoop } from "./materialize-loop.ts";
import { wrapReads } from "../sql/reads.ts";
import { createSqliteReads } from "./reads.ts";
import type { Signals } from "../sql/signals.ts";
import { SQLITE_DIALECT, sweepSteps } from "./sweep.ts";
import { bindKey, findDedupeKey } from "./keys.ts";
import { insertEvent, type WriteWith } from "./writes.ts";
import type { SqliteJobs } from "./jobs.ts";

export interface SqliteStoreParts {
  sql: Statements;
  jobs: SqliteJobs;
  group: SqliteGroupCommit;
  checkpoints: Checkpoints;
  logFile: LogFile;
  materializer: Materializer;
  loop: MaterializeLoop;
  signals: Signals;
  writeWith: WriteWith;
  now: () => Ms;
}

type Writing = Pick<Store, "accept" | "commit" | "onSystemEvents">;
const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function writing({
  sql,
  jobs,
  group,
  materializer,
  loop,
  signals,
  writeWith,
  now,
}: SqliteStoreParts): Writing {
  const acceptNow = (event: EventRecord, keys: readonly DedupeEntry[]): AcceptResult => {
    // One key is its own check; of several, none may be bound before all are known to be free.
    for (const { scope, key } of keys.length > 1 ? keys : []) {
      const record = findDedupeKey(sql, scope, key, now());
      if (record) return { kind: "duplicate", record };
    }
    for (const entry of keys) {
      const held = bindKey(sql, event.id, entry, now())
        ? undefined
        : findDedupeKey(sql, entry.scope, entry.key, now());
      if (held && held.eventId !== event.id) return { kind: "duplicate", record: held };
    }
    insertEvent(sql, materializer.nextSeq(), event);
    return { kind: "accepted" };
  };
  return {
    async accept(event, keys = []) {
      const result = await group.add(() => acceptNow(event, keys), { many: keys.length > 0 });
      if (event.actions.length > 0 && result.kind === "accepted") loop.noticed();
      return result;
    },
    async commit(write: (tx: Writes) => void, held?: Job | FencingToken) {
      await loop.catchUp();
      const touched = new Set<JobKind>();
      const work = (): boolean => {
        if (held && !isFencingToken(held) && !jobs.isHeld(held)) return false;
        writeWith(touched, ({ writes }) => write(writes));
        return true;
      };
      const done = await group.add(work, { many: true });
      if (!done) return false;
      for (const kind of touched) {
        const later = jobs.nextTime(kind);
        if (later !== undefined) signals.later(kind, later);
      }
      signals.announce(touched);
      return true;
    },
    onSystemEvents: signals.onWake,
  };
}

type Reading = ReturnType<typeof createSqliteReads>;

/**
 * Reads see what is committed and not yet on disk. Somebody may act on it: a duplicate is answered, a decision lets a
 * tool run. So what was found is returned once it is durable.
 */
function durableReads(
  { findDuplicates, counts, ...reads }: Reading,
  group: SqliteGroupCommit,
): Reading {
  const whenDurable = async <T>(read: () => Promise<T>): Promise<T> => {
    const found = await read();
    await group.durable();
    return found;
  };
  return {
    ...wrapReads(reads, whenDurable),
    async findDuplicates(keys) {
      const found = await findDuplicates(keys);
      return found.some((record) => record !== undefined) ? whenDurable(async () => found) : found;
    },
    counts,
  };
}

/** Copies into a file that is new or empty; what a failed copy leaves is taken away. */
async function copyTo(sql: Statements, file: string): Promise<void> {
  await writeFile(file, "", { flag: "wx", mode: 0o600 }).catch(
    async (error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST")
        throw new RouseError(
          { code: "usage", message: `the backup's file cannot be made (${error.code ?? "error"})` },
          { cause: error },
        );
      if ((await stat(file)).size > 0)
        throw new RouseError({
          code: "usage",
          message: "the backup's file is there already; name a new one",
        });
      await chmod(file, 0o600);
    },
  );
  try {
    await copyDatabase(sql.db.location() ?? "", file);
  } catch (error) {
    await rm(file, { force: true });
    throw sqliteError(error);
  }
}

/** The store over one SQLite database. */
export function createSqliteStore(parts: SqliteStoreParts): Store {
  const { sql, group, checkpoints, logFile, materializer, loop, signals } = parts;
  let closed = false;
  return {
    ...writing(parts),
    ...durableReads(createSqliteReads(parts), group),
    async sweep(at, retention) {
      await loop.catchUp();
      let total = 0;
      for (const step of sweepSteps(sql, at, retention, materializer.done)) {
        for (let more = true; more && !closed; await nextTurn()) {
          const slice = await group.derive(step);
          slice.settle?.();
          total += slice.changed;
          more = slice.more;
        }
      }
      return total;
    },
    async oldestBody(at) {
      return sql.get<{ at: Ms }>(oldestBody(SQLITE_DIALECT, "?1"), at)?.at;
    },
    backup: (file) => copyTo(sql, file),
    async close() {
      if (closed) return;
      closed = true;
      await loop.close();
      await group.drain();
      await checkpoints.close();
      signals.close();
      sql.db.close();
      logFile.close();
    },
  };
}
