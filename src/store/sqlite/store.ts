import { chmod, rm, stat, writeFile } from "node:fs/promises";
import { backup, DatabaseSync } from "node:sqlite";
import { RouseError } from "../../core/errors.ts";
import {
  isFence,
  type AcceptResult,
  type DedupeEntry,
  type EventRecord,
  type Fence,
  type Job,
  type Ms,
  type Store,
  type Writes,
} from "../types.ts";
import type { GroupCommit } from "./commit.ts";
import type { Intake } from "./intake.ts";
import type { IntakeLoop } from "./intake-loop.ts";
import type { Reads } from "./reads.ts";
import type { Signals } from "./signals.ts";
import { storeError, type Statements } from "./statements.ts";
import { sweepSteps } from "./sweep.ts";
import { bindKey } from "./keys.ts";
import { insertEvent, type SqliteWrites } from "./writes.ts";
import type { Jobs } from "./jobs.ts";

export interface StoreParts {
  sql: Statements;
  jobs: Jobs;
  reads: Reads;
  group: GroupCommit;
  intake: Intake;
  loop: IntakeLoop;
  signals: Signals;
  newWrites(): SqliteWrites;
  now: () => Ms;
}

type Writing = Pick<Store, "accept" | "commit" | "onSystemEvents">;
type Reading = Omit<Store, keyof Writing | "sweep" | "backup" | "close">;

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function writing({ sql, jobs, reads, group, intake, loop, signals, newWrites, now }: StoreParts): Writing {
  const acceptNow = (event: EventRecord, keys: readonly DedupeEntry[]): AcceptResult => {
    // One key is its own check; of several, none may be bound before all are known to be free.
    for (const { scope, key } of keys.length > 1 ? keys : []) {
      const record = reads.duplicate(scope, key, now());
      if (record) return { kind: "duplicate", record };
    }
    for (const entry of keys) {
      const held = bindKey(sql, event.id, entry, now()) ? undefined : reads.duplicate(entry.scope, entry.key, now());
      if (held && held.eventId !== event.id) return { kind: "duplicate", record: held };
    }
    insertEvent(sql, intake.nextSeq(), event);
    return { kind: "accepted" };
  };
  return {
    async accept(event, keys = []) {
      const result = await group.add(() => acceptNow(event, keys), { many: keys.length > 0 });
      if (event.actions.length > 0 && result.kind === "accepted") loop.noticed();
      return result;
    },
    async commit(write: (tx: Writes) => void, held?: Job | Fence) {
      await loop.catchUp();
      const writes = newWrites();
      const work = (): boolean => {
        if (held && !isFence(held) && !jobs.isHeld(held)) return false;
        write(writes);
        return true;
      };
      const done = await group.add(work, { many: true });
      if (!done) return false;
      for (const kind of writes.touched) signals.watchTime(kind);
      signals.announce(writes.touched);
      return true;
    },
    onSystemEvents: signals.onWake,
  };
}

/**
 * Reads of runs and system events first wait until accepted events have been taken up. Where that cannot be (a full disk),
 * lists and counts tell what is there; what is asked for by its id may be among the rest, and is an error.
 */
function reading({ jobs, reads, loop, now }: StoreParts): Reading {
  const caughtUp =
    <A extends unknown[], T>(read: (...values: A) => T | Promise<T>) =>
    async (...values: A): Promise<T> => {
      await loop.catchUp();
      return read(...values);
    };
  const asFarAsMayBe =
    <A extends unknown[], T>(read: (...values: A) => T | Promise<T>) =>
    async (...values: A): Promise<T> => {
      await loop.catchUp().catch(() => undefined);
      return read(...values);
    };
  return {
    findDuplicates: async (keys) => keys.map(({ scope, key }) => reads.duplicate(scope, key, now())),
    getEvent: async (id) => reads.event(id),
    listEvents: asFarAsMayBe((query) => reads.events(query)),
    async getRun(id) {
      const run = reads.run(id);
      if (run) return run;
      await loop.catchUp();
      return reads.run(id);
    },
    listRuns: asFarAsMayBe((query) => reads.runs(query)),
    getCollected: caughtUp((runId) => reads.collected(runId)),
    getDelivery: async (id) => reads.delivery(id),
    listDeliveries: async (query) => reads.deliveries(query),
    getTurns: async (session) => reads.turns(session),
    getSession: async (session) => reads.session(session),
    sessionsWithKey: async (agentId, key) => reads.sessionsWithKey(agentId, key),
    listSessions: async (query) => reads.sessions(query),
    queuedSystemEvents: caughtUp((agentId, limit) => reads.queuedSystemEvents(agentId, limit)),
    listSystemEvents: asFarAsMayBe((query) => reads.systemEvents(query)),
    lastRoutes: async (agentId) => reads.lastRoutes(agentId),
    getValue: async (key) => reads.value(key),
    counts: asFarAsMayBe(() => Object.fromEntries([...reads.counts(), ...jobs.counts()].map(({ name, n }) => [name, n]))),
  };
}

/** More pages than a database has: the copy is one step and so one snapshot, while commits go on beside it. */
const ALL_PAGES = 2 ** 31 - 1;

/**
 * Copies into a file that is new or empty; what a failed copy leaves is taken away. A connection of its own, since a
 * step that runs while ours is inside a transaction fails.
 */
async function copyTo(sql: Statements, file: string): Promise<void> {
  await writeFile(file, "", { flag: "wx", mode: 0o600 }).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST")
      throw new RouseError({ code: "usage", message: `the backup's file cannot be made (${error.code ?? "error"})` }, { cause: error });
    if ((await stat(file)).size > 0) throw new RouseError({ code: "usage", message: "the backup's file is there already; name a new one" });
    await chmod(file, 0o600);
  });
  const source = new DatabaseSync(sql.db.location() ?? "", { readOnly: true });
  try {
    await backup(source, file, { rate: ALL_PAGES });
  } catch (error) {
    await rm(file, { force: true });
    throw storeError(error);
  } finally {
    source.close();
  }
}

/** The store over one SQLite database. */
export function createSqliteStore(parts: StoreParts): Store {
  const { sql, group, intake, loop, signals } = parts;
  let closed = false;
  return {
    ...writing(parts),
    ...reading(parts),
    async sweep(at, retention) {
      await loop.catchUp();
      let total = 0;
      for (const step of sweepSteps(sql, at, retention, intake.done)) {
        for (let more = true; more && !closed; await nextTurn()) {
          const slice = await group.add(step, { many: true });
          slice.settle?.();
          total += slice.changed;
          more = slice.more;
        }
      }
      return total;
    },
    backup: (file) => copyTo(sql, file),
    async close() {
      if (closed) return;
      closed = true;
      group.flush();
      await loop.close();
      signals.close();
      sql.db.close();
    },
  };
}
