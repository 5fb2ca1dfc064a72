/** Rows with PostgreSQL: the one at TEST_POSTGRES_URL, in schemas of their own that are dropped afterwards. */
import { readdirSync, readFileSync } from "node:fs";
import { randomBytes } from "node:crypto";
import { userInfo } from "node:os";
import pg from "pg";
import { AGENT_ALONE } from "./bodies.ts";
import {
  alternate,
  CONNECTIONS,
  countErrors,
  median,
  medianRatio,
  medians,
  type Row,
  type Timing,
} from "./measure.ts";
import { withModel } from "./model.ts";
import {
  load,
  pause,
  readCpuMicros,
  startGateway,
  TOKEN,
  withServers,
  type Server,
} from "./servers.ts";

function address(): URL {
  const url = new URL(process.env["TEST_POSTGRES_URL"] ?? "postgres://127.0.0.1:5432/test");
  if (url.username === "") url.username = process.env["PGUSER"] ?? userInfo().username;
  return url;
}

export const query = (sql: string): Promise<pg.QueryResult<Record<string, unknown>>> =>
  queryAt(address().href, sql);

/** Asks another database, until `signal` is aborted. A `schema` in the URL is Rouse's own. */
export async function queryAt(
  url: string,
  sql: string,
  signal?: AbortSignal,
): Promise<pg.QueryResult<Record<string, unknown>>> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 3000 });
  await client.connect();
  const end = (): void => void client.end();
  signal?.addEventListener("abort", end);
  try {
    return await client.query(sql);
  } finally {
    signal?.removeEventListener("abort", end);
    await client.end();
  }
}

/** True if a PostgreSQL answers. Says so if none does. */
export async function hasPostgres(): Promise<boolean> {
  try {
    await query("SELECT 1");
    return true;
  } catch (error) {
    console.error(`PostgreSQL is left out, TEST_POSTGRES_URL does not answer: ${String(error)}`);
    return false;
  }
}

/** A schema of this run's own; `keep` leaves it in the database. */
export async function withSchema<T>(work: (url: string) => Promise<T>, keep = false): Promise<T> {
  const schema = `bench_${randomBytes(6).toString("hex")}`;
  const url = address();
  url.searchParams.set("schema", schema);
  try {
    return await work(url.href);
  } finally {
    if (!keep) await query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`);
  }
}

/** So many databases of this run's own, by their URLs; the first has to be filled, the others can be copied from it. */
export async function withDatabases<T>(
  count: number,
  work: (urls: string[]) => Promise<T>,
): Promise<T> {
  const urls = Array.from({ length: count }, () => {
    const url = address();
    url.pathname = `/bench_${randomBytes(6).toString("hex")}`;
    return url.href;
  });
  try {
    await query(`CREATE DATABASE "${toName(urls[0] ?? "")}"`);
    return await work(urls);
  } finally {
    for (const url of urls) await query(`DROP DATABASE IF EXISTS "${toName(url)}" WITH (FORCE)`);
  }
}
const toName = (url: string): string => new URL(url).pathname.slice(1);

/** Copies a database that has no connections. */
export const copyDatabase = (from: string, to: string): Promise<unknown> =>
  query(`CREATE DATABASE "${toName(to)}" TEMPLATE "${toName(from)}" STRATEGY FILE_COPY`);

const getParentPid = (pid: number): number => {
  try {
    return Number(
      readFileSync(`/proc/${pid}/stat`, "latin1")
        .replace(/^.*\) /, "")
        .split(" ")[1],
    );
  } catch {
    return 0;
  }
};

/**
 * CPU time of the server and of all its processes, those that have ended included, in microseconds. The server has to be
 * on this machine, and the user to be a superuser of it.
 */
export async function postgresCpu(): Promise<() => number> {
  const { rows } = await query(
    "SELECT split_part(pg_read_file('postmaster.pid'), chr(10), 1)::int AS pid",
  );
  const postmaster = Number(rows[0]?.["pid"]);
  return () => {
    const children = readdirSync("/proc")
      .map(Number)
      .filter((pid) => pid > 0 && getParentPid(pid) === postmaster);
    return (
      readCpuMicros(postmaster, true) + children.reduce((sum, pid) => sum + readCpuMicros(pid), 0)
    );
  };
}

interface Accepted {
  cpu: number;
  perSecond: number;
  errors: number;
}

/** The same number of connections for each gateway; CPU time of these and of PostgreSQL together. */
async function flood(
  gateways: readonly Server[],
  cpuOfPostgres: () => number,
  ms: number,
): Promise<Accepted> {
  const cpu = (): number =>
    cpuOfPostgres() + gateways.reduce((sum, gateway) => sum + gateway.cpuMicros(), 0);
  const before = cpu();
  const job = {
    path: "/hooks/agent",
    body: AGENT_ALONE,
    token: TOKEN,
    connections: CONNECTIONS,
    ms,
  };
  const results = await Promise.all(gateways.map(({ port }) => load({ ...job, port })));
  const requests = results.reduce((sum, one) => sum + one.requests, 0);
  return {
    perSecond: (requests / ms) * 1000,
    cpu: (cpu() - before) / Math.max(1, requests),
    errors: results.reduce((sum, one) => sum + one.errors, 0),
  };
}

const WARM_UP_MS = 6000;
/** Compares the cost of a hook with two gateways on one database to that with one: CPU time of all processes together. */
export async function twoAgainstOne({ ms, rounds }: Timing): Promise<Row> {
  const cpuOfPostgres = await postgresCpu();
  const start = (url: string): Promise<Server> =>
    startGateway({ store: { url } }, { workers: false });
  return withSchema((two) =>
    withSchema((one) =>
      withServers([start(one), start(two), start(two)], async ([alone, ...pair]) => {
        // Compiling costs each gateway the same, and is none of what a hook costs: each has it behind it.
        for (const gateway of [alone, ...pair]) await flood([gateway], cpuOfPostgres, WARM_UP_MS);
        const sides = [pair, [alone]].map((gateways) => () => flood(gateways, cpuOfPostgres, ms));
        const [twos = [], ones = []] = await alternate(sides, rounds);
        return {
          row: "CPU time a hook, gateways and database, two gateways against one",
          value: medianRatio(twos, ones, ({ cpu }) => cpu),
          perSecond: medians(twos, ones, ({ perSecond }) => perSecond),
          cpuMicros: medians(twos, ones, ({ cpu }) => cpu),
          errors: countErrors(ones, twos),
        };
      }),
    ),
  );
}

interface RunTimes {
  createdAt: string;
  startedAt: string | null;
}

/** Measures the time from a hook to the start of its run: accepted by a gateway without workers, and by the one that runs it. */
export function enqueueToStart(hooks: number): Promise<Row[]> {
  return withModel(({ config }) =>
    withSchema((url) => {
      const operator = "bench-operator-token-0123456789";
      const shared = {
        ...config,
        store: { url },
        gateway: { port: 0, drainSeconds: 0, token: operator },
      };
      return withServers(
        [startGateway(shared, { workers: false }), startGateway(shared)],
        async ([front, back]) => {
          const rows: Row[] = [];
          for (const [name, server] of [
            ["taken by another gateway", front],
            ["taken by the one that runs it", back],
          ] as const) {
            const value = median(await waits(server, operator, hooks));
            rows.push({
              row: `median time from a hook to the start of its run, ${name}`,
              value,
              unit: "ms",
            });
          }
          return rows;
        },
      );
    }),
  );
}

async function waits(server: Server, operator: string, hooks: number): Promise<number[]> {
  const base = `http://127.0.0.1:${server.port}`;
  const ids: string[] = [];
  for (let sent = 0; sent < hooks; sent++) {
    const answer = await fetch(`${base}/hooks/agent`, {
      method: "POST",
      headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
      body: AGENT_ALONE,
    });
    ids.push(((await answer.json()) as { runId: string }).runId);
    await pause(20);
  }
  const times: number[] = [];
  for (const id of ids.slice(Math.floor(hooks / 10))) {
    for (let looks = 0; looks < 200; looks++) {
      const answer = await fetch(`${base}/admin/v1/runs/${id}`, {
        headers: { authorization: `Bearer ${operator}` },
      });
      const { run } = (await answer.json()) as { run: RunTimes };
      if (run.startedAt !== null) {
        times.push(Date.parse(run.startedAt) - Date.parse(run.createdAt));
        break;
      }
      await pause(20);
    }
  }
  return times;
}
