import type { DatabaseSync } from "node:sqlite";

/**
 * Forward-only migrations; the position in the list is the version. Rowid tables with few indexes: ids sort by
 * time, so that an index on them grows at its end.
 */
const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE events (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL, at INTEGER NOT NULL, path TEXT NOT NULL, credential TEXT NOT NULL,
    outcome TEXT NOT NULL, head TEXT NOT NULL, actions TEXT, body BLOB);
  CREATE UNIQUE INDEX events_id ON events(id);
  CREATE TABLE dedupe (scope TEXT NOT NULL, key TEXT NOT NULL, expires INTEGER NOT NULL, restarts INTEGER NOT NULL DEFAULT 0, record TEXT NOT NULL, PRIMARY KEY (scope, key)) WITHOUT ROWID;
  CREATE TABLE runs (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL, event_id TEXT, session TEXT NOT NULL, session_key TEXT NOT NULL, status TEXT NOT NULL,
    created INTEGER NOT NULL, ended INTEGER, record TEXT NOT NULL);
  CREATE UNIQUE INDEX runs_id ON runs(id);
  CREATE INDEX runs_event ON runs(event_id);
  CREATE INDEX runs_session ON runs(session_key, seq);
  CREATE INDEX runs_status ON runs(status, seq);
  CREATE TABLE turns (seq INTEGER PRIMARY KEY, session TEXT NOT NULL, at INTEGER NOT NULL, record TEXT NOT NULL);
  CREATE INDEX turns_session ON turns(session, seq);
  CREATE TABLE sessions (session TEXT PRIMARY KEY, agent TEXT NOT NULL, origin TEXT NOT NULL, key TEXT NOT NULL, turns INTEGER NOT NULL, created INTEGER NOT NULL, used INTEGER NOT NULL) WITHOUT ROWID;
  CREATE INDEX sessions_used ON sessions(used);
  CREATE TABLE system_events (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL, agent TEXT NOT NULL, at INTEGER NOT NULL, state TEXT NOT NULL, failures INTEGER NOT NULL DEFAULT 0, record TEXT NOT NULL);
  CREATE UNIQUE INDEX system_events_id ON system_events(id);
  CREATE INDEX system_events_state ON system_events(agent, state, seq);
  CREATE TABLE deliveries (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL, status TEXT NOT NULL, channel TEXT NOT NULL, created INTEGER NOT NULL, ended INTEGER, record TEXT NOT NULL);
  CREATE UNIQUE INDEX deliveries_id ON deliveries(id);
  CREATE INDEX deliveries_status ON deliveries(status, seq);
  CREATE TABLE last_routes (agent TEXT NOT NULL, channel TEXT NOT NULL, recipient TEXT NOT NULL, thread TEXT, at INTEGER NOT NULL, PRIMARY KEY (agent, channel)) WITHOUT ROWID;
  CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, id TEXT NOT NULL, key TEXT NOT NULL, data TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0,
    enqueued INTEGER NOT NULL, ready INTEGER, held INTEGER NOT NULL DEFAULT 0);
  CREATE UNIQUE INDEX jobs_id ON jobs(kind, id);
  CREATE INDEX jobs_key ON jobs(kind, key, seq);
  CREATE INDEX jobs_ready ON jobs(kind, ready, seq) WHERE ready IS NOT NULL;
  `,
];

/** Opens the pragmas and brings the schema up to date. `ready` of a job is the time it may start, set only on the first of its key. */
export function prepareDatabase(db: DatabaseSync): void {
  db.exec("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=8000; PRAGMA cache_size=-16000; PRAGMA busy_timeout=5000;");
  db.exec("CREATE TABLE IF NOT EXISTS migrations (version INTEGER PRIMARY KEY, at INTEGER NOT NULL)");
  const row = db.prepare("SELECT max(version) AS version FROM migrations").get() as { version: number | null };
  for (const [index, sql] of MIGRATIONS.entries()) {
    if (index < (row.version ?? 0)) continue;
    db.exec("BEGIN IMMEDIATE");
    try {
      db.exec(sql);
      db.prepare("INSERT INTO migrations (version, at) VALUES (?, ?)").run(index + 1, Date.now());
      db.exec("COMMIT");
    } catch (error) {
      db.exec("ROLLBACK");
      throw error;
    }
  }
}
