import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type pg from "pg";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import { PARKED_UNTIL } from "../../src/store/types.ts";
import { spec } from "../store/suite/make.ts";
import { createProvider, modelConfig, type Provider } from "../e2e/provider.ts";
import { createWorld, TOKEN, type World } from "../e2e/world.ts";
import { silent } from "../store/home.ts";
import { connectPlain } from "../store/postgres-client.ts";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";

const HISTORY = 10_000;
const PARKED = 5_000;
const HOUR_MS = 3_600_000;
/** A start, its commits and its end may read so many rows, whatever the store holds; most are buckets of the hour and the day. */
const MOST_ROWS = 2000;

describePostgres("limits on a PostgreSQL with a day of history", () => {
  let schema: Schema;
  let url: string;
  let client: pg.Client;
  let provider: Provider;
  let worlds: World[] = [];
  const dirs: string[] = [];

  beforeEach(async () => {
    schema = newSchema();
    const named = new URL(schema.url);
    named.searchParams.set("application_name", schema.name);
    url = named.href;
    client = await connectPlain();
    provider = await createProvider();
  });
  afterEach(async () => {
    await stop();
    for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true, force: true });
    await client.end();
    await provider.close();
    await schema.drop();
  });

  const mapping = (id: string, limits: object): object => ({
    id,
    match: { path: id },
    messageTemplate: "Answer.",
    deliver: false,
    wakeMode: "next-heartbeat",
    limits,
  });
  const LIMITS = { runsPerHour: 1_000_000, concurrent: 500, tokensPerDay: 1_000_000_000 };
  const open = async (): Promise<World> => {
    const dir = mkdtempSync(join(tmpdir(), "rouse-load-"));
    dirs.push(dir);
    const hooks = {
      token: TOKEN,
      limits: LIMITS,
      mappings: [mapping("full", { runsPerHour: 1 }), mapping("free", LIMITS)],
    };
    // More runs ask to start at the same time than there are connections.
    const { agents, ...config } = modelConfig(provider) as { agents: { defaults: object } };
    Object.assign(config, {
      agents: { ...agents, defaults: { ...agents.defaults, maxConcurrent: 24 } },
    });
    const world = await createWorld({ dir, config: { store: { url }, hooks, ...config } });
    worlds.push(world);
    return world;
  };
  /** Stops all gateways; PostgreSQL has counted what their connections read once these are closed. */
  async function stop(): Promise<void> {
    await Promise.all(worlds.splice(0).map((world) => world.stop()));
    for (let left = 1; left > 0;) {
      const { rows } = await client.query(
        "SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name = $1",
        [schema.name],
      );
      left = rows[0].n;
      if (left > 0) await new Promise((done) => setTimeout(done, 20));
    }
  }

  /** Fills the store with runs that have ended within the day, and with others that the limit of a mapping holds back. */
  async function fill(): Promise<void> {
    const { store } = await openStore({ url, clock: systemClock, log: silent });
    await store.close();
    const now = Date.now();
    const record = (status: string, more: string): string =>
      `json_build_object('id', '${status}_' || n, 'kind', 'hook', 'mapping', '${status === "parked" ? "full" : "free"}', 'status', '${status}',
        'warnings', '[]'::json, 'restarts', 0, 'createdAt', ${now - HOUR_MS} ${more})::text`;
    const columns =
      "INSERT INTO runs (id, session_key, status, created, ended, spec, record, mapping)";
    const limit = `json_build_object('scope', 'mapping:full', 'limit', 'runsPerHour', 'until', ${now + HOUR_MS})`;
    await client.query(`SET search_path TO "${schema.name}"`);
    await client.query(
      `${columns} SELECT 'succeeded_' || n, 'hook:' || n, 'succeeded', $1, $1, $2, ${record("succeeded", ", 'attempts', 1")}, 'free'
        FROM generate_series(1, ${HISTORY}) AS n`,
      [now - HOUR_MS, JSON.stringify(spec())],
    );
    await client.query(
      `${columns} SELECT 'parked_' || n, 'hook:' || n, 'parked', $1, NULL, $2, ${record("parked", `, 'attempts', 0, 'parked', ${limit}`)}, 'full'
        FROM generate_series(1, ${PARKED}) AS n`,
      [now - HOUR_MS, JSON.stringify(spec())],
    );
    await client.query(`INSERT INTO jobs (kind, id, key, name, data, enqueued, run_at, ready)
      SELECT 'turn', id, convert_to(id, 'UTF8'), id, json_build_object('type', 'run', 'runId', id)::text, created, ${PARKED_UNTIL}, ${PARKED_UNTIL}
      FROM runs WHERE status = 'parked'`);
    // As a day of runs has left them: a bucket for each minute of the hour, and for each quarter of the day.
    await client.query(
      `INSERT INTO usage (counter, width, at, part, starts, tokens, micros)
        SELECT counter, 60000, ($1::bigint / 60000 - n) * 60000, '', 100, 0, 0 FROM unnest($2::text[]) AS counter, generate_series(0, 59) AS n
        UNION ALL SELECT counter, 900000, ($1::bigint / 900000 - n) * 900000, '', 0, 20000, 0 FROM unnest($2::text[]) AS counter, generate_series(0, 95) AS n`,
      [now, ["hooks", "mapping:free", "mapping:full"]],
    );
    await client.query(
      `INSERT INTO usage (counter, width, at, running, waiting, parked, in_line)
        SELECT counter, 0, 0, 0, ${PARKED}, ${PARKED}, ${PARKED} FROM unnest($1::text[]) AS counter`,
      [["hooks", "mapping:full"]],
    );
    await client.query("ANALYZE");
  }

  const countReads = async (): Promise<number> => {
    await client.query("SELECT pg_stat_clear_snapshot()");
    const { rows } = await client.query(
      "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::float8 AS n FROM pg_stat_user_tables WHERE schemaname = $1",
      [schema.name],
    );
    return rows[0].n;
  };
  /** Starts so many runs over two gateways, and returns how many rows have been read from their start to their stop. */
  async function countReadsOf(runs: number): Promise<number> {
    const before = await countReads();
    const pair = [await open(), await open()];
    const asked = provider.requests.length;
    for (let n = 0; n < runs; n += 10) {
      const posts = Array.from({ length: 10 }, (_, at) =>
        pair[at % 2]?.post("/hooks/free", { n: n + at }),
      );
      for (const answer of await Promise.all(posts)) expect(answer).toMatchObject({ status: 202 });
    }
    await pair[0]?.until(async () => provider.requests.length === asked + runs);
    await stop();
    return (await countReads()) - before;
  }

  /**
   * Looks every few milliseconds for locks that gateways wait for. Adding a page to a table is PostgreSQL's own, and so is the order of
   * notifications, one for all databases of a server. A gateway that settles a job waits for the commit of another that settles the
   * same one, as both put words into the main session. The time of the clock is one row for all gateways, written now and then.
   */
  function watchLocks(): { end(): Promise<{ looks: number; waits: string[] }> } {
    let looks = 0;
    let isOver = false;
    const waits: string[] = [];
    const watch = async (): Promise<void> => {
      const own = await connectPlain();
      for (; !isOver; looks++) {
        const { rows } = await own.query<{ text: string }>(
          `SELECT locktype || ' ' || mode || ': ' || left(query, 80) AS text FROM pg_locks JOIN pg_stat_activity USING (pid)
            WHERE NOT granted AND application_name = $1 AND locktype <> 'extend'
              AND (classid = 'pg_database'::regclass AND objid = 0) IS NOT TRUE AND query NOT LIKE 'SELECT jobs.kind, jobs.id,%' AND query NOT LIKE '%WHERE name = ''clock'' FOR UPDATE%'`,
          [schema.name],
        );
        waits.push(...rows.map(({ text }) => text));
        await new Promise((done) => setTimeout(done, 2));
      }
      await own.end();
    };
    const watching = watch();
    return {
      async end() {
        isOver = true;
        await watching;
        return { looks, waits };
      },
    };
  }

  it(
    "a start reads a bounded number of rows, and takes no lock that waits",
    { timeout: 180_000 },
    async () => {
      await fill();
      const few = await countReadsOf(10);
      const locks = watchLocks();
      const many = await countReadsOf(60);
      const { looks, waits } = await locks.end();
      expect((many - few) / 50).toBeLessThan(MOST_ROWS);
      expect(looks).toBeGreaterThan(50);
      expect(waits).toEqual([]);
    },
  );

  it("while no gateway can reserve room, hooks are answered, and gateways count as alive", async () => {
    const [a, b] = [await open(), await open()];
    expect((await a.post("/hooks/free", { n: 0 })).status).toBe(202);
    await a.until(async () => provider.requests.length === 1);
    await client.query(`SET search_path TO "${schema.name}"`);
    // As a gateway that reserves room and stands still.
    await client.query("BEGIN");
    await client.query("SELECT 1 FROM budgets FOR UPDATE");
    const locks = watchLocks();
    for (let n = 0; n < 30; n++) {
      const answers = await Promise.all([a, b].map((world) => world.post("/hooks/free", { n })));
      expect(answers.map(({ status }) => status)).toEqual([202, 202]);
      expect((await a.admin("/admin/v1/runs?limit=1")).status).toBe(200);
      expect((await a.get("/readyz")).status).toBe(200);
      await new Promise((done) => setTimeout(done, 50));
    }
    expect((await locks.end()).waits).toEqual([]);
    const { rows } = await client.query(
      "SELECT count(*)::int AS alive FROM holders WHERE gateway IS NOT NULL AND seen > clock_timestamp() - interval '5 seconds'",
    );
    expect(rows[0].alive).toBe(2);
    await client.query("COMMIT");
    await a.until(async () => provider.requests.length === 61);
  });
});
