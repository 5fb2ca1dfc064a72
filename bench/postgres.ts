/** Rows with PostgreSQL: the one at TEST_POSTGRES_URL, in schemas of their own that are dropped afterwards. */
import { readdirSync, readFileSync } from "node:fs";
import { randomBytes } from "node:crypto";
import { userInfo } from "node:os";
import pg from "pg";
import { figure, median, withModel, type Row } from "./figures.ts";
import { readCpuSeconds, load, startGateway, TOKEN, withServers, type Server } from "./servers.ts";

const BODY = JSON.stringify({ message: "A build failed on main, please look.", name: "CI", deliver: false, wakeMode: "next-heartbeat" });

function address(): URL {
  const url = new URL(process.env["TEST_POSTGRES_URL"] ?? "postgres://127.0.0.1:5432/test");
  if (url.username === "") url.username = process.env["PGUSER"] ?? userInfo().username;
  return url;
}

export async function query(sql: string): Promise<pg.QueryResult<Record<string, unknown>>> {
  const client = new pg.Client({ connectionString: address().href, connectionTimeoutMillis: 3000 });
  await client.connect();
  try {
    return await client.query(sql);
  } finally {
    await client.end();
  }
}

/** Whether a PostgreSQL answers. */
export const hasPostgres = (): Promise<boolean> =>
  query("SELECT 1").then(
    () => true,
    () => false,
  );

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
  const { rows } = await query("SELECT split_part(pg_read_file('postmaster.pid'), chr(10), 1)::int AS pid");
  const postmaster = Number(rows[0]?.["pid"]);
  return () => {
    const children = readdirSync("/proc")
      .map(Number)
      .filter((pid) => pid > 0 && getParentPid(pid) === postmaster);
    return readCpuSeconds(postmaster, true) + children.reduce((sum, pid) => sum + readCpuSeconds(pid), 0);
  };
}

const WARM_UP_MS = 6000;

interface Accepted {
  perSecond: number;
  cpu: number;
  errors: number;
}

/** The same number of connections for each gateway; CPU time of these and of PostgreSQL together. */
async function flood(gateways: readonly Server[], cpuOfPostgres: () => number, connections: number, ms: number): Promise<Accepted> {
  const cpu = (): number => cpuOfPostgres() + gateways.reduce((sum, gateway) => sum + gateway.cpuMicros(), 0);
  const before = cpu();
  const results = await Promise.all(
    gateways.map(({ port }) => load({ port, path: "/hooks/agent", body: BODY, token: TOKEN, connections, ms })),
  );
  const requests = results.reduce((sum, one) => sum + one.requests, 0);
  return {
    perSecond: (requests / ms) * 1000,
    cpu: (cpu() - before) / Math.max(1, requests),
    errors: results.reduce((sum, one) => sum + one.errors, 0),
  };
}

/** What a hook costs with two gateways on one database, against one: CPU time of all processes together. */
export async function twoAgainstOne(options: { connections: number; rounds: number; ms: number }): Promise<Row> {
  const cpuOfPostgres = await postgresCpu();
  const config = (url: string): object => ({ store: { url } });
  return withSchema((two) =>
    withSchema((one) =>
      withServers(
        [
          startGateway(config(one), ["--no-workers"]),
          startGateway(config(two), ["--no-workers"]),
          startGateway(config(two), ["--no-workers"]),
        ],
        async ([alone, ...pair]) => {
          const ones: Accepted[] = [];
          const twos: Accepted[] = [];
          // Compiling costs each gateway the same, and is none of what a hook costs: each has it behind it.
          for (const gateway of [alone, ...pair]) await flood([gateway as Server], cpuOfPostgres, options.connections, WARM_UP_MS);
          for (let round = 0; round < options.rounds; round++) {
            ones.push(await flood([alone as Server], cpuOfPostgres, options.connections, options.ms));
            twos.push(await flood(pair, cpuOfPostgres, options.connections, options.ms));
          }
          const cpu = (list: Accepted[]): number => median(list.map((each) => each.cpu));
          const rate = (list: Accepted[]): number => Math.round(median(list.map((each) => each.perSecond)));
          const ratio = cpu(twos) / cpu(ones);
          return {
            row: "PostgreSQL: CPU time a hook, gateways and database, two gateways against one",
            ratio,
            least: null,
            perSecond: [rate(twos), rate(ones)],
            cpuMicros: [Math.round(cpu(twos)), Math.round(cpu(ones))],
            errors: [...ones, ...twos].reduce((sum, each) => sum + each.errors, 0),
            note: `${ratio.toFixed(2)} (at most 1.15)`,
          };
        },
      ),
    ),
  );
}

interface RunTimes {
  createdAt: string;
  startedAt: string | null;
}

/** How long a hook waits until its run starts, when one gateway takes hooks and another runs them. */
export function enqueueToStart(hooks: number): Promise<Row> {
  return withModel((config) =>
    withSchema((url) => {
      const shared = { ...config, store: { url } };
      const operator = "bench-operator-token-0123456789";
      const withOperator = { ...shared, gateway: { port: 0, drainSeconds: 0, token: operator } };
      return withServers([startGateway(withOperator, ["--no-workers"]), startGateway(withOperator, [])], async ([front, back]) => {
        const results: { name: string; ms: number[] }[] = [];
        for (const [name, server] of [
          ["taken by another gateway", front],
          ["taken by the one that runs it", back],
        ] as const) {
          const times = await waits(server as Server, operator, hooks);
          results.push({ name, ms: times });
        }
        const p = (list: number[], part: number): number => list.toSorted((a, b) => a - b)[Math.floor(list.length * part)] ?? Number.NaN;
        const note = results.map(({ name, ms }) => `p50 ${p(ms, 0.5)} ms, p99 ${p(ms, 0.99)} ms ${name}`).join("; ");
        return figure("PostgreSQL: from a hook to the start of its run (p50 at most 20 ms)", note);
      });
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
      body: BODY,
    });
    ids.push(((await answer.json()) as { runId: string }).runId);
    await new Promise((done) => setTimeout(done, 20));
  }
  const times: number[] = [];
  for (const id of ids.slice(Math.floor(hooks / 10))) {
    for (let looks = 0; looks < 200; looks++) {
      const answer = await fetch(`${base}/admin/v1/runs/${id}`, { headers: { authorization: `Bearer ${operator}` } });
      const { run } = (await answer.json()) as { run: RunTimes };
      if (run.startedAt !== null) {
        times.push(Date.parse(run.startedAt) - Date.parse(run.createdAt));
        break;
      }
      await new Promise((done) => setTimeout(done, 20));
    }
  }
  return times;
}
