import type { DatabaseSync } from "node:sqlite";
import { RouseError, type Issue } from "../../core/errors.ts";
import { NUMBERED, TABLES } from "../sql/tables.ts";
import { COUNTED, PARKED_FROM, type Ms } from "../types.ts";

/** Counts rows that come and go by their state. */
const counted = (table: string, column: string, name: string): string => `
  CREATE TRIGGER ${table}_new AFTER INSERT ON ${table} BEGIN UPDATE counts SET n = n + 1 WHERE name = '${name}.' || NEW.${column}; END;
  CREATE TRIGGER ${table}_gone AFTER DELETE ON ${table} BEGIN UPDATE counts SET n = n - 1 WHERE name = '${name}.' || OLD.${column}; END;`;

/** Counts rows whose state changes, too. */
const changing = (
  table: string,
  column: string,
  name: string,
): string => `${counted(table, column, name)}
  CREATE TRIGGER ${table}_changed AFTER UPDATE OF ${column} ON ${table} WHEN OLD.${column} <> NEW.${column} BEGIN
    UPDATE counts SET n = n - 1 WHERE name = '${name}.' || OLD.${column};
    UPDATE counts SET n = n + 1 WHERE name = '${name}.' || NEW.${column};
  END;`;

/** Notes the runs whose jobs a limit holds back. */
const parking = (event: string, nth: number): string => `
  CREATE TRIGGER jobs_parked_${nth} AFTER ${event} ON jobs WHEN NEW.ready >= ${PARKED_FROM} AND NEW.kind = 'turn' BEGIN
    INSERT INTO parked (lane, run) VALUES (coalesce((SELECT json_extract(record, '$.mapping') FROM runs WHERE id = NEW.id), ''), NEW.id)
      ON CONFLICT (run) DO UPDATE SET released = 0;
  END;`;

/**
 * Forward-only migrations; the position in the list is the version. `counts` is kept by triggers, so that hooks do not wait while
 * a million rows are counted; events are counted by the materializer, off the way of an answer.
 */
export const SQLITE_MIGRATIONS: readonly string[] = [
  `
  ${TABLES.replaceAll(NUMBERED, "INTEGER PRIMARY KEY")}
  INSERT INTO marks VALUES ('intake', 0), ('bodies', 0);
  INSERT INTO counts SELECT value, 0 FROM json_each('${JSON.stringify(COUNTED)}');

  CREATE INDEX events_outcome ON events(outcome) WHERE outcome <> 'accepted';
  CREATE TRIGGER events_gone AFTER DELETE ON events BEGIN UPDATE counts SET n = n - 1 WHERE name = 'events.' || OLD.outcome; END;
  CREATE INDEX runs_session ON runs(session_key);
  CREATE INDEX runs_status ON runs(status);
  ${changing("runs", "status", "runs")}
  ${changing("system_events", "state", "systemEvents")}
  CREATE INDEX deliveries_status ON deliveries(status);
  CREATE INDEX deliveries_failed ON deliveries(seq) WHERE status IN ('failed', 'no_route');
  ${changing("deliveries", "status", "deliveries")}
  ${changing("approvals", "state", "approvals")}

  -- \`number\`: see \`keyNumber\`.
  CREATE TABLE dedupe (
    seq INTEGER PRIMARY KEY, number INTEGER NOT NULL, scope TEXT NOT NULL, key TEXT NOT NULL, expires INTEGER NOT NULL,
    record TEXT NOT NULL);
  CREATE INDEX dedupe_number ON dedupe(number);
  CREATE INDEX dedupe_expires ON dedupe(expires);

  -- \`covered\`: set on checkpoints, the last turn that retention may delete.
  CREATE TABLE turns (seq INTEGER PRIMARY KEY, session TEXT NOT NULL, record TEXT NOT NULL, covered INTEGER);
  CREATE INDEX turns_session ON turns(session);
  CREATE INDEX turns_checkpoints ON turns(session) WHERE covered IS NOT NULL;
  CREATE TABLE sessions (
    session TEXT PRIMARY KEY, agent TEXT NOT NULL, origin TEXT NOT NULL, key TEXT NOT NULL, turns INTEGER NOT NULL,
    created INTEGER NOT NULL, used INTEGER NOT NULL, path TEXT, credential TEXT) WITHOUT ROWID;
  CREATE INDEX sessions_used ON sessions(used, session);
  CREATE INDEX sessions_key ON sessions(key) WHERE origin = 'hook';
  CREATE INDEX sessions_turns ON sessions(turns) WHERE origin IN ('main', 'channel', 'schedule');
  CREATE INDEX sessions_origin ON sessions(origin, used, session) WHERE origin <> 'hook';
  ${counted("sessions", "origin", "sessions")}

  -- \`ready\`: when the job may start; only on the first job of a key, and never on one that is held.
  -- \`starts\`: the lease of the newest start; unlike attempts it is never reset.
  CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, id TEXT NOT NULL, key TEXT NOT NULL, data TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0, starts INTEGER NOT NULL DEFAULT 0, enqueued INTEGER NOT NULL, run_at INTEGER NOT NULL,
    ready INTEGER, held INTEGER NOT NULL DEFAULT 0);
  CREATE UNIQUE INDEX jobs_id ON jobs(kind, id);
  CREATE INDEX jobs_key ON jobs(kind, key);
  CREATE INDEX jobs_ready ON jobs(kind, ready) WHERE ready IS NOT NULL;

  -- The usage of runs, by time: \`width\` is the bucket's, \`at\` its start; both are 0 for all times. The counters are of all hooks'
  -- runs, and of each mapping's. The row of all times has how many runs there are now. Of those that wait, \`parked\` are held by a
  -- limit, and \`in_line\` have not started and wait neither for a model nor for further events.
  CREATE TABLE usage (
    counter TEXT NOT NULL, width INTEGER NOT NULL, at INTEGER NOT NULL, running INTEGER NOT NULL DEFAULT 0, waiting INTEGER NOT NULL DEFAULT 0,
    parked INTEGER NOT NULL DEFAULT 0, in_line INTEGER NOT NULL DEFAULT 0, starts INTEGER NOT NULL DEFAULT 0, places INTEGER NOT NULL DEFAULT 0,
    tokens INTEGER NOT NULL DEFAULT 0, micros INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (counter, width, at)) WITHOUT ROWID;
  -- Runs that a limit holds back and that are the first of their session keys, in the order in which they became that.
  CREATE TABLE parked (seq INTEGER PRIMARY KEY, lane TEXT NOT NULL, run TEXT NOT NULL UNIQUE, released INTEGER NOT NULL DEFAULT 0);
  CREATE INDEX parked_lane ON parked(lane, seq) WHERE released = 0;
  CREATE INDEX parked_released ON parked(lane) WHERE released = 1;
  ${["INSERT", "UPDATE OF ready"].map(parking).join("")}
  `,
];

/** A body of 20 KB spreads over half as many pages as with 4 KB, and small rows cost the same (`npm run bench`). */
export const PAGE_BYTES = 8192;

/**
 * Sets the pragmas and brings the schema up to date.
 * @throws RouseError `config_invalid` where a newer version of the program wrote the file.
 */
export function prepareDatabase(db: DatabaseSync, now: Ms, migrations = SQLITE_MIGRATIONS): void {
  db.exec(
    // No step of the schema waits for the disk: one that a power failure took is done again, as what is committed later waits for all.
    `PRAGMA page_size=${PAGE_BYTES}; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-16000; PRAGMA busy_timeout=5000;`,
  );
  db.exec(
    "CREATE TABLE IF NOT EXISTS migrations (version INTEGER PRIMARY KEY, at INTEGER NOT NULL)",
  );
  const row = db.prepare("SELECT max(version) AS version FROM migrations").get() as {
    version: number | null;
  };
  const version = row.version ?? 0;
  if (version > migrations.length) {
    const message = `the file was written by a newer version of the program (schema ${version}, known here up to ${migrations.length}); start that version, or use a backup from before it`;
    const issue: Issue = { path: "store.url", message, transient: true };
    throw new RouseError({
      code: "config_invalid",
      message: `store.url: ${message}`,
      issues: [issue],
    });
  }
  for (const [index, sql] of migrations.entries()) {
    if (index < version) continue;
    db.exec("BEGIN IMMEDIATE");
    try {
      db.exec(sql);
      db.prepare("INSERT INTO migrations (version, at) VALUES (?, ?)").run(index + 1, now);
      db.exec("COMMIT");
    } catch (error) {
      if (db.isTransaction) db.exec("ROLLBACK");
      throw error;
    }
  }
  db.exec("PRAGMA synchronous=FULL");
}
