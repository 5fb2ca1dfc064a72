import type { Client, ClientBase, ClientConfig, CustomTypesConfig, Pool } from "pg";
import { createLogger, type Logger, type Ms, type OpenOptions, safeError } from "#store-kit";
import { parseAddress, type Address } from "./address.ts";
import { storeError } from "./errors.ts";
import { createLane, ignore, type Lane, Watch } from "./lane.ts";

const CONNECT_MS = 4000;
const LOCK_MS = 5000;
/** A connection that is silent for so long is tested; the system's default would be two hours. A step of a migration may wait for long. */
const KEEPALIVE_MS = 10_000;
/** A gateway that does not answer PostgreSQL's machine for so long is gone: what keepalives find out on a connection that is silent. */
const GONE_MS = 25_000;
/** The client gives up by itself so much later than the server would: the server's machine may be gone. */
const ANSWER_MS = 3000;

export interface Limits {
  /** The most connections that are taken, besides those of `client`, of the store's own work and of accepting. */
  connections: number;
  /** A statement may take so long; PostgreSQL ends it then. */
  statementMs: Ms;
  /** Its statements gather many rows, as a search does; those of the store never should. */
  gathers?: boolean;
  /** PostgreSQL refuses whatever would write. */
  isReadOnly?: boolean;
}

/** Those of the store. */
const LIMITS: Limits = { connections: 4, statementMs: 10_000 };
/**
 * The time until a sender gets an answer that its hook could not be accepted: the most impatient senders wait 5
 * seconds.
 */
export const ACCEPT_MS = 3000;
/** Connections that are kept for signs of life, for work and for accepting: what waits for a lock must not hold these up. */
const HEARTBEATS = 1;
const WORK = 3;
const ACCEPTS = 2;
const INT8 = 20;

export interface Db extends Lane {
  readonly address: Address;
  /** Signs of life and leases; not a statement that may wait for a lock of others. */
  readonly heartbeats: Lane;
  /** Statements of runs, whose plans are the same for all values. */
  readonly work: Lane;
  /** The commits that senders wait for. */
  readonly accepts: Lane;
  /** False if PostgreSQL was asked something and has answered nothing at all for 3 seconds: its machine, or the way to it, hangs. */
  responding(): boolean;
  /** A connection of its own, outside of the pool; the caller ends it. */
  client(): Promise<Client>;
  close(): Promise<void>;
}

function settings(
  schema: string,
  { statementMs, gathers = false, isReadOnly = false }: Limits,
  isFixed: boolean,
): string {
  return [
    `SET search_path TO "${schema}"`,
    `SET statement_timeout TO ${statementMs}`,
    `SET lock_timeout TO ${LOCK_MS}`,
    // A gateway that is cut off must not hold back the others for longer than its lease lasts.
    `SET idle_in_transaction_session_timeout TO ${statementMs}`,
    // A session whose gateway's machine is gone, or cut off, ends after 25 seconds: what it has locked is free then.
    `SET tcp_keepalives_idle TO ${KEEPALIVE_MS / 1000}; SET tcp_keepalives_interval TO 5; SET tcp_keepalives_count TO 3; SET tcp_user_timeout TO ${GONE_MS}`,
    "SET default_transaction_isolation TO 'read committed'",
    // The tables of the queue grow and shrink faster than the planner's statistics follow. All our statements go from few
    // rows by an index to few others, in its order; plans that gather rows first are right for a table of yesterday.
    ...["seqscan", ...(gathers ? [] : ["bitmapscan", "hashjoin", "mergejoin"])].map(
      (plan) => `SET enable_${plan} TO off`,
    ),
    "SET jit TO off",
    ...(isReadOnly ? ["SET default_transaction_read_only TO on"] : []),
    // Lists of few values look cheap enough to plan each time, which costs more than to run the plan.
    ...(isFixed ? ["SET plan_cache_mode TO force_generic_plan"] : []),
    // An acknowledged commit is on disk, whatever the server's default is; a stricter default stays.
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
  ].join(";");
}

/** Whole numbers of 64 bits as numbers: ours are counts, times and sequences. */
function createTypes(known: CustomTypesConfig["getTypeParser"]): CustomTypesConfig {
  const parse = ((oid: number, format?: "text") =>
    oid === INT8 ? Number : known(oid, format)) as CustomTypesConfig["getTypeParser"];
  return { getTypeParser: parse };
}

/** Connects lazily, and again whenever connections were lost; nothing has to be done by hand. */
export async function openDb(address: Address, log: Logger, limits = LIMITS): Promise<Db> {
  const pg = (await import("pg")).default;
  const config: ClientConfig = {
    connectionString: address.connection,
    connectionTimeoutMillis: CONNECT_MS,
    query_timeout: limits.statementMs + ANSWER_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEPALIVE_MS,
    application_name: "rouse",
    types: createTypes(pg.types.getTypeParser),
  };
  const prepare = (client: ClientBase, isFixed = false): Promise<unknown> =>
    client.query(settings(address.schema, limits, isFixed));
  const watch = new Watch();
  const pools: Pool[] = [];
  const createPool = (max: number, isFixed = false, patienceMs?: Ms): Lane => {
    // The pool waits for the promise, though its type does not say so.
    const onConnect = (client: ClientBase): Promise<unknown> => prepare(client, isFixed);
    const pooled = { ...config, pipeline: true, max, onConnect };
    const pool: Pool = new pg.Pool(pooled);
    pool.on("error", (error) =>
      log.warn(
        { err: safeError(error) },
        "a connection to PostgreSQL was lost; another one is made",
      ),
    );
    pools.push(pool);
    return createLane(pool, watch, patienceMs);
  };

  return {
    ...createPool(limits.connections),
    address,
    heartbeats: createPool(HEARTBEATS),
    work: createPool(WORK, true),
    accepts: createPool(ACCEPTS, true, ACCEPT_MS),
    responding: () => watch.responding(),
    async client() {
      const client = new pg.Client(config);
      client.on("error", ignore);
      try {
        await client.connect();
        await prepare(client);
        return client;
      } catch (error) {
        await client.end().catch(ignore);
        throw storeError(error);
      }
    },
    close: async () => void (await Promise.all(pools.map((pool) => pool.end()))),
  };
}

/** Opens a database for `work`, and closes it. */
export async function withDb<T>(
  { url, env, log = createLogger("silent") }: Pick<OpenOptions, "url" | "env"> & { log?: Logger },
  work: (db: Db) => Promise<T>,
  limits = LIMITS,
): Promise<T> {
  const db = await openDb(parseAddress(url, env), log, limits);
  try {
    return await work(db);
  } finally {
    await db.close();
  }
}
