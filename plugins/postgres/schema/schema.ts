import { NUMBERED, PARKED_FROM, TABLES } from "#store-kit";

/** Tells `count_deltas` of rows that come, go and change their state: one row a statement, however many it touched. */
const leaving = (table: string, column: string, name: string): string => `
  CREATE FUNCTION ${table}_gone() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    INSERT INTO count_deltas (name, n) SELECT '${name}.' || ${column}, -count(*) FROM stale GROUP BY ${column};
    RETURN NULL; END $$;
  CREATE TRIGGER ${table}_gone AFTER DELETE ON ${table} REFERENCING OLD TABLE AS stale FOR EACH STATEMENT EXECUTE FUNCTION ${table}_gone();`;

const counted = (
  table: string,
  column: string,
  name: string,
): string => `${leaving(table, column, name)}
  CREATE FUNCTION ${table}_new() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    INSERT INTO count_deltas (name, n) SELECT '${name}.' || ${column}, count(*) FROM fresh GROUP BY ${column};
    RETURN NULL; END $$;
  CREATE TRIGGER ${table}_new AFTER INSERT ON ${table} REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION ${table}_new();`;

const changing = (
  table: string,
  column: string,
  name: string,
): string => `${counted(table, column, name)}
  CREATE FUNCTION ${table}_changed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    INSERT INTO count_deltas (name, n)
      SELECT '${name}.' || ${column}, sum(n) FROM (
        SELECT ${column}, 1 AS n FROM fresh UNION ALL SELECT ${column}, -1 FROM stale) moves
      GROUP BY ${column} HAVING sum(n) <> 0;
    RETURN NULL; END $$;
  CREATE TRIGGER ${table}_changed AFTER UPDATE ON ${table} REFERENCING NEW TABLE AS fresh OLD TABLE AS stale
    FOR EACH STATEMENT EXECUTE FUNCTION ${table}_changed();`;

/**
 * Forward-only migrations; the position in the list is the version. One that older gateways could not live with while
 * they still run (a column taken away, a new NOT NULL) must not be written: add, and take away two versions later.
 *
 * Rows are never counted: statements append what they changed to `count_deltas`, which is summed up from time to time, so that
 * no row is one that all gateways wait for.
 */
export const MIGRATIONS: readonly string[] = [
  `
  ${TABLES}
  CREATE TABLE count_deltas (name text NOT NULL, n bigint NOT NULL);

  -- Long bodies come deflated.
  ALTER TABLE events ALTER body SET STORAGE EXTERNAL;
  CREATE INDEX events_outcome ON events (outcome, seq) WHERE outcome <> 'accepted';
  -- The statement that adds events counts them.
  ${leaving("events", "outcome", "events")}

  -- \`id\` is a digest of scope and key, which may be longer than an index takes; so are \`key\` of jobs and \`id\` of sessions.
  CREATE TABLE dedupe (
    id bytea PRIMARY KEY, scope text NOT NULL, key text NOT NULL, expires bigint NOT NULL, record text NOT NULL);
  CREATE INDEX dedupe_expires ON dedupe (expires);

  CREATE INDEX runs_open ON runs (status, seq) WHERE status IN ('parked', 'collecting', 'queued', 'running');
  -- Runs that wait for people.
  CREATE INDEX runs_asking ON runs (seq) WHERE status = 'waiting';
  CREATE INDEX runs_status ON runs (status, seq) WHERE status IN ('failed', 'timed_out', 'cancelled');
  ${changing("runs", "status", "runs")}

  CREATE TABLE turns (seq ${NUMBERED}, session bytea NOT NULL, record text NOT NULL,
    -- Set on checkpoints: the last turn that retention may delete.
    covered bigint);
  CREATE INDEX turns_session ON turns (session, seq);
  CREATE INDEX turns_checkpoints ON turns (session, seq) WHERE covered IS NOT NULL;
  CREATE TABLE sessions (
    id bytea PRIMARY KEY, session text NOT NULL, agent text NOT NULL, origin text NOT NULL, key text NOT NULL, turns int NOT NULL,
    created bigint NOT NULL, used bigint NOT NULL, path text, credential text);
  CREATE INDEX sessions_used ON sessions (used, id);
  -- Keys of hooks are short enough for an index.
  CREATE INDEX sessions_key ON sessions (key) WHERE origin = 'hook';
  CREATE INDEX sessions_turns ON sessions (turns) WHERE origin IN ('main', 'channel', 'schedule');
  CREATE INDEX sessions_origin ON sessions (origin, used, id) WHERE origin <> 'hook';
  ${counted("sessions", "origin", "sessions")}

  ${changing("system_events", "state", "systemEvents")}
  ${changing("deliveries", "status", "deliveries")}
  ${changing("approvals", "state", "approvals")}

  -- The holders of jobs, each a handle that says regularly that it lives. \`gateway\`: the name by which others know it; \`info\`: what it tells of
  -- itself; \`freed\`: when the jobs of a silent one were freed (what it has reserved is its own until then).
  CREATE TABLE holders (
    id ${NUMBERED}, seen timestamptz NOT NULL DEFAULT now(), gateway text, info text, freed timestamptz);
  CREATE INDEX holders_seen ON holders (seen);
  -- Work that only one gateway does at a time. \`token\`: one more each time that it is taken.
  CREATE TABLE leases (name text PRIMARY KEY, holder bigint, token bigint NOT NULL DEFAULT 0, since timestamptz NOT NULL DEFAULT now());

  -- \`name\`: the key's text. \`ready\`: when the job may start; on the first job of a key, and
  -- never on one that is held. \`starts\`: the lease of the newest start; unlike attempts it is never reset.
  CREATE TABLE jobs (
    seq ${NUMBERED}, kind text NOT NULL, id text NOT NULL, key bytea NOT NULL, name text NOT NULL,
    data text NOT NULL, attempts int NOT NULL DEFAULT 0, starts int NOT NULL DEFAULT 0, enqueued bigint NOT NULL,
    run_at bigint NOT NULL, ready bigint, holder bigint);
  CREATE UNIQUE INDEX jobs_id ON jobs (kind, id);
  CREATE INDEX jobs_key ON jobs (kind, key, seq);
  CREATE INDEX jobs_ready ON jobs (kind, ready, seq) WHERE ready IS NOT NULL;
  -- Of each key at most one job is held, or waits for another try: whatever gateways do at the same moment.
  CREATE UNIQUE INDEX jobs_begun ON jobs (kind, key) WHERE starts > 0;
  CREATE INDEX jobs_held ON jobs (holder, kind) WHERE holder IS NOT NULL;
  ALTER TABLE jobs SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
  ALTER TABLE count_deltas SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
  ${counted("jobs", "kind", "jobs")}

  -- The next place in the line of jobs that may start at once. It runs as the owner of the tables: other users need no right to a sequence.
  CREATE FUNCTION next_place() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$ BEGIN
    RETURN nextval('jobs_seq_seq'); END $$;

  -- Windows that collect events; one that was closed has no row, or another run.
  CREATE TABLE windows (
    name bytea PRIMARY KEY, run text NOT NULL, first_at bigint NOT NULL, closes_at bigint NOT NULL, n int NOT NULL, chars bigint NOT NULL);
  CREATE INDEX windows_run ON windows (run);
  CREATE INDEX windows_closes ON windows (closes_at);

  -- The usage of runs, by time: \`width\` is the bucket's, \`at\` its start; both are 0 for all times. The counters are of all hooks'
  -- runs, and of each mapping's. The rows of all times have how many runs there are now. Of those that wait, \`in_line\` have not started
  -- and wait neither for a model nor for further events. Each gateway has rows of its own (\`part\`), so that none waits for another.
  CREATE TABLE usage (
    counter text NOT NULL, width bigint NOT NULL, at bigint NOT NULL, part text NOT NULL DEFAULT '', running bigint NOT NULL DEFAULT 0,
    waiting bigint NOT NULL DEFAULT 0, parked bigint NOT NULL DEFAULT 0, in_line bigint NOT NULL DEFAULT 0, starts bigint NOT NULL DEFAULT 0,
    places bigint NOT NULL DEFAULT 0, tokens bigint NOT NULL DEFAULT 0, micros bigint NOT NULL DEFAULT 0, PRIMARY KEY (counter, width, at, part));
  -- The reservations of gateways, as sums of all times.
  CREATE TABLE budgets (scope text PRIMARY KEY, version bigint NOT NULL DEFAULT 0);
  CREATE TABLE reserved (
    scope text NOT NULL, resource text NOT NULL, part text NOT NULL, granted bigint NOT NULL, PRIMARY KEY (scope, resource, part));
  -- Runs that a limit holds back and that are the first of their session keys, in the order in which they became that.
  CREATE TABLE parked (
    seq ${NUMBERED}, lane text NOT NULL, run text NOT NULL, released boolean NOT NULL DEFAULT false);
  CREATE UNIQUE INDEX parked_run ON parked (run);
  CREATE INDEX parked_lane ON parked (lane, seq) WHERE NOT released;
  CREATE INDEX parked_released ON parked (lane) WHERE released;
  ALTER TABLE usage SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
  ALTER TABLE parked SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
  CREATE FUNCTION jobs_parked() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    INSERT INTO parked (lane, run) VALUES (coalesce((SELECT mapping FROM runs WHERE id = NEW.id), ''), NEW.id)
      ON CONFLICT (run) DO UPDATE SET released = false;
    RETURN NULL; END $$;
  CREATE TRIGGER jobs_parked AFTER INSERT OR UPDATE OF ready ON jobs
    FOR EACH ROW WHEN (NEW.ready >= ${PARKED_FROM} AND NEW.kind = 'turn') EXECUTE FUNCTION jobs_parked();
  `,
];
