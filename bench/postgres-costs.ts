/** Measures the costs of hooks, keys and runs with the store on PostgreSQL, for `npm run bench -- --costs`. */
import { newId } from "../src/core/ids.ts";
import { createLogger } from "../src/core/log.ts";
import { parseAddress } from "../plugins/postgres/client/address.ts";
import { openDb } from "../plugins/postgres/client/db.ts";
import { newKeys } from "../plugins/postgres/commit/keys.ts";
import { Batch } from "../plugins/postgres/commit/list-statements.ts";
import { addKey, planStatements } from "../plugins/postgres/commit/statements.ts";
import { migrate } from "../plugins/postgres/schema/migrate.ts";
import { AGENT_ALONE } from "./bodies.ts";
import { CONNECTIONS } from "./measure.ts";
import { withModel } from "./model.ts";
import { postgresCpu, query, withSchema } from "./postgres.ts";
import { load, startGateway, TOKEN, withServers, type Server } from "./servers.ts";
import type { Cost } from "./simulate/costs.ts";

/** So many keys share a transaction, as those of a flood do. */
const KEYS = 64;
/** The number of transactions that are measured as one, since the cost of a single one is too small to measure. */
const GROUPS = 100;
/** PostgreSQL writes down what its processes did after a while. */
const SETTLE_MS = 1200;

interface Spent {
  gateway: number;
  postgres: number;
  log: number;
}

const scalar = async (sql: string): Promise<number> =>
  Number(Object.values((await query(sql)).rows[0] ?? {})[0]);
const logPosition = (): Promise<number> => scalar("SELECT pg_current_wal_lsn() - '0/0'");

interface Rounds {
  rounds: number;
  server: Pick<Server, "cpuMicros">;
  cpu(): number;
  /** Makes ready what a round needs. */
  prepare?(): Promise<unknown>;
  /** Resolves with what tells how many were done by the time that it is called. */
  work(): Promise<() => number>;
}

/** The cost of one hook, key or run: the least over the rounds, after one to warm up. */
async function least({ rounds, server, cpu, prepare, work }: Rounds): Promise<Spent> {
  const all: Spent[] = [];
  for (let round = 0; round <= rounds; round++) {
    await prepare?.();
    // Pages that are new to the log since a checkpoint are written whole: each round bears its part of that.
    if (round > 0) await query("CHECKPOINT");
    const before = { gateway: server.cpuMicros(), postgres: cpu(), log: await logPosition() };
    const done = await work();
    await new Promise((settled) => setTimeout(settled, SETTLE_MS));
    const log = await logPosition();
    const count = Math.max(1, done());
    if (round === 0) continue;
    all.push({
      gateway: (server.cpuMicros() - before.gateway) / count,
      postgres: (cpu() - before.postgres) / count,
      log: (log - before.log) / count,
    });
  }
  const min = (name: keyof Spent): number => Math.round(Math.min(...all.map((one) => one[name])));
  return { gateway: min("gateway"), postgres: min("postgres"), log: min("log") };
}

/** Hooks that are accepted and wait. */
function accepting(
  body: string,
  ms: number,
  rounds: number,
  cpu: () => number,
): Promise<Record<string, Cost>> {
  return withSchema((url) =>
    withServers([startGateway({ store: { url } }, { workers: false })], async ([gateway]) => {
      let requests = 0;
      const work = async (): Promise<() => number> => {
        const result = await load({
          port: gateway.port,
          path: "/hooks/agent",
          body,
          token: TOKEN,
          connections: CONNECTIONS,
          ms,
        });
        requests += result.requests;
        return () => result.requests;
      };
      const spent = await least({ rounds, server: gateway, cpu, work });
      const schema = new URL(url).searchParams.get("schema") ?? "";
      const size =
        await scalar(`SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = '${schema}' AND c.relkind = 'r'`);
      const how = `${rounds} rounds of ${ms / 1000} s of POST /hooks/agent (${body.length} bytes) from ${CONNECTIONS} connections over loopback, no workers, store on PostgreSQL on the same machine`;
      return {
        "postgres.gatewayAcceptCpu": {
          unit: "µs",
          value: spent.gateway,
          how: `user and system time of the gateway's process by hook, the least of ${how}`,
        },
        "postgres.commitCpu": {
          unit: "µs",
          value: spent.postgres,
          how: `user and system time of all of PostgreSQL's processes by hook, the least of ${how}`,
        },
        "postgres.commitLog": {
          unit: "bytes",
          value: spent.log,
          how: `write-ahead log by hook, each round after a checkpoint, the least of ${how}`,
        },
        "postgres.bytesPerHook": {
          unit: "bytes",
          value: Math.round(size / requests),
          how: `size of all tables and indexes by hook: ${how}`,
        },
      };
    }),
  );
}

/** Duplicate keys that are new, in transactions of their own. */
function keys(rounds: number, cpu: () => number): Promise<Record<string, Cost>> {
  return withSchema(async (url) => {
    const db = await openDb(parseAddress(url), createLogger("silent"));
    try {
      await migrate(db);
      const work = async (): Promise<() => number> => {
        for (let group = 0; group < GROUPS; group++) {
          const batch = new Batch();
          for (let n = 0; n < KEYS; n++) {
            const fresh = newKeys(newId("evt", Date.now()), [
              {
                scope: "github",
                key: crypto.randomUUID(),
                expiresAt: Date.now() + 86_400_000,
                receipt: { outcome: "accepted", actions: [] },
              },
            ]);
            for (const key of fresh) addKey(batch, key, Date.now());
          }
          for (const statement of planStatements(batch)) await db.send(statement);
        }
        return () => GROUPS * KEYS;
      };
      const spent = await least({ rounds, server: { cpuMicros: () => 0 }, cpu, work });
      const how = `${rounds} rounds of ${GROUPS} transactions that bind ${KEYS} new keys each`;
      return {
        "postgres.keyCpu": {
          unit: "µs",
          value: spent.postgres,
          how: `user and system time of all of PostgreSQL's processes by key, the least of ${how}`,
        },
        "postgres.keyLog": {
          unit: "bytes",
          value: spent.log,
          how: `write-ahead log by key, the least of ${how}`,
        },
      };
    } finally {
      await db.close();
    }
  });
}

/** Whole runs of hooks that were accepted before, with a model that answers immediately. */
function running(ms: number, rounds: number, cpu: () => number): Promise<Record<string, Cost>> {
  return withModel(({ config, turns }) =>
    withSchema((url) =>
      withServers([startGateway({ ...config, store: { url } })], async ([gateway]) => {
        const flood = {
          port: gateway.port,
          path: "/hooks/agent",
          body: AGENT_ALONE,
          token: TOKEN,
          connections: CONNECTIONS,
        };
        const prepare = (): Promise<unknown> => load({ ...flood, ms: ms / 2 });
        const work = async (): Promise<() => number> => {
          const before = turns();
          await new Promise((done) => setTimeout(done, ms));
          return () => turns() - before;
        };
        const spent = await least({ rounds, server: gateway, cpu, prepare, work });
        const how = `${rounds} rounds of ${ms / 1000} s, accepted before, with a model that answers at once, store on PostgreSQL on the same machine`;
        return {
          "postgres.gatewayRunCpu": {
            unit: "µs",
            value: spent.gateway,
            how: `user and system time of the gateway's process by whole run, the least of ${how}`,
          },
          "postgres.runCpu": {
            unit: "µs",
            value: spent.postgres,
            how: `user and system time of all of PostgreSQL's processes by whole run, the least of ${how}`,
          },
          "postgres.runLog": {
            unit: "bytes",
            value: spent.log,
            how: `write-ahead log by whole run, each round after a checkpoint, the least of ${how}`,
          },
        };
      }),
    ),
  );
}

/** All costs of PostgreSQL. The server has to be on this machine, and the user to be a superuser of it. */
export async function postgresCosts(
  body: string,
  ms: number,
  rounds: number,
): Promise<Record<string, Cost>> {
  const cpu = await postgresCpu();
  return {
    ...(await accepting(body, ms, rounds, cpu)),
    ...(await keys(rounds, cpu)),
    ...(await running(ms, rounds, cpu)),
  };
}
