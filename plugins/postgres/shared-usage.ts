import type { BatchJoin, BudgetLimits, BudgetUsage, JobKind, Ms, SharedUsage, Spent, Sql } from "#store-kit";
import type { Db } from "./db.ts";
import { digest } from "./digest.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const STARTING_MS = 60_000;

/** What the table has of one budget, and of the run that asks. */
interface UsageRow {
  /** Places that other runs have taken: started and not ended, or released. */
  busy: number;
  isQueued: boolean;
  /** Starts of other runs within the last hour, and the same with moments to come that were given. */
  started: number;
  starts: number;
  /** The start, an hour after which one more may follow. */
  nth: Ms | null;
  tokens: number;
  tokensFreeAt: Ms | null;
  state: "slot" | "line" | "called" | "running" | "over" | null;
  at: Ms | null;
}

const USAGE = `
  WITH used AS (SELECT ended, sum(tokens) OVER (ORDER BY ended DESC, run) AS since FROM spent WHERE scope = $1 AND ended > $3::bigint - ${DAY_MS})
  SELECT
    (SELECT count(*) FROM spent WHERE scope = $1 AND run <> $2 AND state IN ('running', 'called')) AS busy,
    EXISTS (SELECT 1 FROM spent WHERE scope = $1 AND run <> $2 AND state = 'line') AS "isQueued",
    (SELECT count(*) FROM spent WHERE scope = $1 AND run <> $2 AND state IN ('running', 'over') AND at > $3::bigint - ${HOUR_MS}) AS started,
    (SELECT count(*) FROM spent WHERE scope = $1 AND run <> $2 AND at > $3::bigint - ${HOUR_MS}) AS starts,
    (SELECT at FROM spent WHERE scope = $1 AND run <> $2 AND at IS NOT NULL ORDER BY at DESC OFFSET $4::bigint - 1 LIMIT 1) AS nth,
    (SELECT coalesce(max(since), 0)::bigint FROM used) AS tokens,
    (SELECT ended + ${DAY_MS} FROM used WHERE since >= $5::bigint ORDER BY ended DESC LIMIT 1) AS "tokensFreeAt",
    (SELECT state FROM spent WHERE scope = $1 AND run = $2) AS state,
    (SELECT at FROM spent WHERE scope = $1 AND run = $2) AS at`;

/** Costs are rows of a scope of their own, in millionths of a dollar. */
const COST = `
  WITH used AS (SELECT ended, sum(tokens) OVER (ORDER BY ended DESC, run) AS since FROM spent WHERE scope = $1 AND ended > $2::bigint - ${DAY_MS})
  SELECT (SELECT coalesce(max(since), 0)::bigint FROM used) AS cost,
    (SELECT ended + ${DAY_MS} FROM used WHERE since >= $3::bigint ORDER BY ended DESC LIMIT 1) AS "freeAt"`;
const MICRO = 1e6;
const toCostScope = (scope: string): string => `usd ${scope}`;

/** No budget allows so many: for one without a limit. */
const ANY = 2 ** 31 - 1;

function toUsage({ busy, isQueued, started, starts, nth, tokens, tokensFreeAt, state, at }: UsageRow): BudgetUsage {
  return {
    // A moment that was given is the run's own: only what has started counts against it.
    starts: state === "slot" ? started : starts,
    nextStartAt: nth === null ? undefined : nth + HOUR_MS,
    notBefore: state === "slot" && at !== null ? at : undefined,
    tokens,
    tokensFreeAt: tokensFreeAt ?? undefined,
    busy,
    isQueued: isQueued && state !== "called",
  };
}

export interface SharedUsageParts {
  db: Db;
  /** The id of this gateway. */
  gateway: string;
  now: () => Ms;
  dbTime: (at: Ms) => Ms;
  /** A job may have become ready. */
  ready(kind: JobKind): void;
}

/** Budgets and batches in the database: small transactions, one after the other for each budget. */
export function createSharedUsage({ db, gateway, now, dbTime, ready }: SharedUsageParts): SharedUsage {
  const ours = (at: Ms): Ms => at - dbTime(0);

  const locked = <T>(budgets: readonly { scope: string }[], work: (sql: Sql) => Promise<T>): Promise<T> =>
    db.transaction(async (sql) => {
      const names = budgets.map(({ scope }) => `rouse ${db.address.schema} ${scope}`).toSorted();
      for (const name of names) await sql.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 7422))", [name]);
      return work(sql);
    });

  const put = (sql: Sql, scope: string, runId: string, state: string, at: Ms | null): Promise<unknown> =>
    sql.query(
      `INSERT INTO spent (scope, run, state, at, gateway) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (scope, run) DO UPDATE SET state = excluded.state, at = excluded.at, gateway = excluded.gateway`,
      [scope, runId, state, at, gateway],
    );

  /** Releases runs that wait for another to end, as many as there is room for. */
  const releaseNext = async (sql: Sql, budgets: readonly BudgetLimits[], at: Ms): Promise<boolean> => {
    const released: string[] = [];
    for (const {
      scope,
      limits: { concurrent = ANY },
    } of budgets) {
      const rows = await sql.query<{ run: string }>(
        `UPDATE spent SET state = 'called' WHERE scope = $1 AND run IN (
          SELECT run FROM spent WHERE scope = $1 AND state = 'line' ORDER BY place
          LIMIT greatest(0, $2::bigint - (SELECT count(*) FROM spent WHERE scope = $1 AND state IN ('running', 'called')))) RETURNING run`,
        [scope, concurrent],
      );
      released.push(...rows.map((row) => row.run));
    }
    if (released.length > 0) await hurry(sql, released, at);
    return released.length > 0;
  };

  const hurry = (sql: Sql, runIds: readonly string[], at: Ms): Promise<unknown> =>
    sql.query(
      `UPDATE jobs SET run_at = $2::bigint, ready = CASE WHEN ready IS NULL THEN NULL ELSE $2::bigint END
        WHERE kind = 'turn' AND id = ANY($1::text[]) AND holder IS NULL`,
      [runIds, at],
    );

  /** What runs of a budget have cost within the last day, in dollars, and when that falls below `perDay` again. */
  const getCost = async (sql: Pick<Sql, "query">, scope: string, perDay: number, at: Ms) => {
    const [row] = await sql.query<{ cost: number; freeAt: Ms | null }>(COST, [toCostScope(scope), at, Math.round(perDay * MICRO)]);
    return { costUsd: (row?.cost ?? 0) / MICRO, costFreeAt: row?.freeAt ?? undefined };
  };

  return {
    async start(runId, budgets, decide) {
      if (budgets.length === 0) return undefined;
      const at = dbTime(now());
      let hasReleased = false;
      const parked = await locked(budgets, async (sql) => {
        const rows = new Map<string, UsageRow>();
        for (const { scope, limits } of budgets) {
          const { runsPerHour = ANY, tokensPerDay = ANY } = limits;
          const [row] = await sql.query<UsageRow>(USAGE, [scope, runId, at, runsPerHour, tokensPerDay]);
          if (row) rows.set(scope, row);
        }
        const usage = new Map([...rows].map(([scope, row]) => [scope, toUsage(row)]));
        for (const { scope, limits } of budgets) {
          const known = usage.get(scope);
          if (limits.budget && known) usage.set(scope, { ...known, ...(await getCost(sql, scope, limits.budget.perDay, at)) });
        }
        const decision = decide(usage, budgets, at);
        const reason = decision.start ? undefined : decision.reason;
        for (const [scope, { state }] of rows) {
          if (!reason) await put(sql, scope, runId, "running", at);
          else if (reason.limit === "runsPerHour") await put(sql, scope, runId, "slot", reason.until ?? at);
          // One that was released keeps its place before those that came later.
          else if (reason.limit === "concurrent" && reason.scope === scope) await put(sql, scope, runId, "line", null);
          else if (state !== null) await sql.query("DELETE FROM spent WHERE scope = $1 AND run = $2 AND state <> 'over'", [scope, runId]);
        }
        // If it was released for one limit and another has no room, the next one is.
        const wasReleased = [...rows.values()].some(({ state }) => state === "called");
        hasReleased = reason !== undefined && wasReleased && (await releaseNext(sql, budgets, at));
        return reason?.until === undefined ? reason : { ...reason, until: ours(reason.until) };
      });
      if (hasReleased) ready("turn");
      return parked;
    },
    async parked(runId) {
      const rows = await db.query<{ run: string }>("SELECT run FROM spent WHERE run = $1 AND state = 'called' LIMIT 1", [runId]);
      if (rows.length === 0) return;
      await hurry(db, [runId], dbTime(now()));
      ready("turn");
    },
    async release(runId, budgets, tokens, costUsd = 0) {
      const at = dbTime(now());
      const hasReleased = await locked(budgets, async (sql) => {
        await sql.query("DELETE FROM spent WHERE run = $1 AND state IN ('slot', 'line', 'called')", [runId]);
        // It may run at another gateway by now.
        await sql.query(
          `WITH over AS (
            UPDATE spent SET state = 'over', ended = $2::bigint, tokens = greatest(tokens, $3::bigint) WHERE run = $1 AND state = 'running'
              AND (gateway = $4 OR NOT EXISTS (SELECT 1 FROM runs WHERE id = $1 AND ended IS NULL AND status <> 'waiting')) RETURNING scope)
          INSERT INTO spent (scope, run, state, gateway, ended, tokens)
            SELECT 'usd ' || scope, $1, 'over', $4, $2::bigint, $5::bigint FROM over WHERE $5::bigint > 0
            ON CONFLICT (scope, run) DO UPDATE SET ended = excluded.ended, tokens = greatest(spent.tokens, excluded.tokens)`,
          [runId, at, tokens, gateway, Math.round(costUsd * MICRO)],
        );
        return releaseNext(sql, budgets, at);
      });
      if (hasReleased) ready("turn");
    },
    async reopen(budgets) {
      const at = dbTime(now());
      await locked([...budgets, { scope: "" }], async (sql) => {
        const scopes = budgets.map(({ scope }) => scope);
        const limits = JSON.stringify(budgets.toSorted((a, b) => (a.scope < b.scope ? -1 : 1)));
        // Gateways that start with the limits that are known already have nothing to change.
        const [known] = await sql.query<{ value: string }>("SELECT value FROM meta WHERE key = 'limits.known'");
        if (known?.value === limits) return;
        await sql.query("INSERT INTO meta VALUES ('limits.known', $1) ON CONFLICT (key) DO UPDATE SET value = excluded.value", [limits]);
        const freed = await sql.query<{ run: string }>(
          "DELETE FROM spent WHERE state = 'slot' OR (state IN ('line', 'called') AND NOT scope = ANY($1::text[])) RETURNING run",
          [scopes],
        );
        await hurry(
          sql,
          freed.map((row) => row.run),
          at,
        );
        await releaseNext(sql, budgets, at);
      });
      ready("turn");
    },
    async strays() {
      await db.query("DELETE FROM spent WHERE state = 'over' AND ended < $1", [dbTime(now()) - DAY_MS]);
      await db.query("DELETE FROM windows WHERE closes_at < $1", [dbTime(now()) - DAY_MS]);
      const rows = await db.query<{ run: string }>(
        `SELECT DISTINCT spent.run FROM spent LEFT JOIN runs ON runs.id = spent.run
          WHERE spent.state <> 'over' AND (runs.id IS NULL OR runs.ended IS NOT NULL
            OR (runs.status = 'waiting' AND spent.state = 'running' AND spent.at < $1)) LIMIT 500`,
        // A run that a person has just let continue is counted a moment before it is written as one that runs.
        [dbTime(now()) - STARTING_MS],
      );
      return rows.map((row) => row.run);
    },
    async spent(scope) {
      const at = dbTime(now());
      const [row] = await db.query<Omit<Spent, "costLastDay">>(
        `SELECT count(*) FILTER (WHERE state IN ('running', 'over') AND at > $2::bigint - ${HOUR_MS}) AS "startedLastHour",
          count(*) FILTER (WHERE state = 'running') AS running,
          coalesce(sum(tokens) FILTER (WHERE ended > $2::bigint - ${DAY_MS}), 0)::bigint AS "tokensLastDay" FROM spent WHERE scope = $1`,
        [scope, at],
      );
      const { costUsd: costLastDay } = await getCost(db, scope, ANY, at);
      return { startedLastHour: 0, running: 0, tokensLastDay: 0, ...row, costLastDay };
    },
    async waiting() {
      const rows = await db.query<{ mapping: string; n: number }>(
        "SELECT coalesce(mapping, '') AS mapping, count(*) AS n FROM runs WHERE status IN ('parked', 'collecting', 'queued') GROUP BY mapping",
      );
      return new Map(rows.map((row) => [row.mapping, row.n]));
    },
    async join({ name, runId, at, windowMs, maxMs, maxEvents, chars, maxChars }: BatchJoin) {
      const time = dbTime(at);
      const full = maxEvents <= 1 || chars > maxChars;
      const isOpen = "w.closes_at > $3::bigint";
      const [row] = await db.accepts.query<{ run: string; closesAt: Ms }>(
        `INSERT INTO windows AS w (name, run, first_at, closes_at, n, chars) VALUES ($1, $2, $3::bigint, $4::bigint, 1, $5::bigint)
          ON CONFLICT (name) DO UPDATE SET
            run = CASE WHEN ${isOpen} THEN w.run ELSE excluded.run END,
            first_at = CASE WHEN ${isOpen} THEN w.first_at ELSE $3::bigint END,
            n = CASE WHEN ${isOpen} THEN w.n + 1 ELSE 1 END,
            chars = CASE WHEN ${isOpen} THEN w.chars + $5::bigint ELSE $5::bigint END,
            closes_at = CASE WHEN NOT (${isOpen}) THEN excluded.closes_at
              WHEN w.n + 1 >= $6::int OR w.chars + $5::bigint > $7::bigint THEN $3::bigint
              ELSE least($3::bigint + $8::bigint, w.first_at + $9::bigint) END
          RETURNING run, closes_at AS "closesAt"`,
        [digest(name), runId, time, full ? time : time + Math.min(windowMs, maxMs), chars, maxEvents, maxChars, windowMs, maxMs],
      );
      const { run = runId, closesAt = time } = row ?? {};
      return { runId: run, closesAt: ours(closesAt), opened: run === runId };
    },
    async close(runId, at) {
      // Waits for events that are being committed into it.
      await db.query("DELETE FROM windows WHERE run = $1 AND closes_at <= $2", [runId, dbTime(at)]);
      const [row] = await db.query<{ closesAt: Ms }>('SELECT closes_at AS "closesAt" FROM windows WHERE run = $1', [runId]);
      return row && ours(row.closesAt);
    },
  };
}

/** Those of the windows that are open, by their runs; locked, so that none closes before this transaction ends. */
export async function openWindows(sql: Sql, runIds: readonly string[]): Promise<Set<string>> {
  if (runIds.length === 0) return new Set();
  const rows = await sql.query<{ run: string }>("SELECT run FROM windows WHERE run = ANY($1::text[]) ORDER BY name FOR SHARE", [
    [...new Set(runIds)],
  ]);
  return new Set(rows.map((row) => row.run));
}
