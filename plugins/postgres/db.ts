import type { Client, ClientBase, ClientConfig, CustomTypesConfig, Pool, PoolClient } from "pg";
import { type Logger, type Ms, safeError, type Sql } from "#store-kit";
import type { Address } from "./address.ts";
import { isRefused, isConflict, storeError } from "./errors.ts";
import { binaryList } from "./binary.ts";
import { decodeNul, encodeValue } from "./nul.ts";

const CONNECT_MS = 4000;
const LOCK_MS = 5000;
/** Where PostgreSQL does not answer at all (its machine is gone), the client gives up by itself, so much later than it would. */
const ANSWER_MS = 3000;

export interface Limits {
  /** The most connections that are taken, besides those of `client`. */
  connections: number;
  /** A statement may take so long; PostgreSQL ends it then. */
  statementMs: Ms;
  /** Its statements gather many rows, as a search does; those of the store never should. */
  gathers?: boolean;
}

/** Those of the store. */
const LIMITS: Limits = { connections: 7, statementMs: 10_000 };
/** Connections that are kept for signs of life, and for accepting: work that waits for a lock must not hold these up. */
const HEARTBEATS = 1;
const ACCEPTS = 2;
/** A server that answers nothing for so long is taken for one that hangs: it is asked several times as often. */
const SILENT_MS = 3000;
const INT8 = 20;

export interface Statement {
  text: string;
  values: readonly unknown[];
}

export interface Transaction extends Sql {
  /** Nothing more follows: the COMMIT goes out right behind what was sent, without waiting for the answers. */
  last(): void;
}

/** Statements over some of the connections. */
export interface Lane extends Sql {
  /**
   * Runs `work` between BEGIN and COMMIT. Statements that it does not wait for are sent at once, one behind the other;
   * what it throws rolls back. Times are bounded by `statementMs` per statement.
   */
  transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T>;
  /** Runs statements in a transaction of their own, without waiting between them; returns the rows of each. */
  write<T>(statements: readonly Statement[]): Promise<T[][]>;
}

export interface Db extends Lane {
  readonly address: Address;
  /** Signs of life and leases; not a statement that may wait for a lock of others. */
  readonly heartbeats: Lane;
  /** What a sender waits for. */
  readonly accepts: Lane;
  /** False if PostgreSQL was asked something and has answered nothing at all for 3 seconds: its machine, or the way to it, hangs. */
  responding(): boolean;
  /** A connection of its own, outside of the pool; the caller ends it. */
  client(): Promise<Client>;
  close(): Promise<void>;
}

function settings(schema: string, { statementMs, gathers = false }: Limits): string {
  return [
    `SET search_path TO "${schema}"`,
    `SET statement_timeout TO ${statementMs}`,
    `SET lock_timeout TO ${LOCK_MS}`,
    // A gateway that is cut off must not hold back the others for longer than its lease lasts.
    `SET idle_in_transaction_session_timeout TO ${statementMs}`,
    "SET default_transaction_isolation TO 'read committed'",
    // The tables of the queue grow and shrink faster than the planner's statistics follow. All our statements go from few
    // rows by an index to few others, in its order; plans that gather rows first are right for a table of yesterday.
    ...["seqscan", ...(gathers ? [] : ["bitmapscan", "hashjoin", "mergejoin"])].map((plan) => `SET enable_${plan} TO off`),
    "SET jit TO off",
    // What is acknowledged is on disk, whatever the server's default is; a stricter default stays.
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
  ].join(";");
}

/** Whole numbers of 64 bits as numbers: ours are counts, times and sequences. */
function createTypes(known: CustomTypesConfig["getTypeParser"]): CustomTypesConfig {
  const parse = ((oid: number, format?: "text") => (oid === INT8 ? Number : known(oid, format))) as CustomTypesConfig["getTypeParser"];
  return { getTypeParser: parse };
}

function decoded<T>(rows: T[]): T[] {
  for (const row of rows as Record<string, unknown>[]) {
    for (const [name, value] of Object.entries(row)) if (typeof value === "string") row[name] = decodeNul(value);
  }
  return rows;
}

interface Prepared {
  /** Statements are told apart by their text; each connection prepares them under the same name. */
  name: string;
  /** Of what lists of values are, by place: as the statement casts them. */
  lists: ReadonlyMap<number, string>;
}

const known = new Map<string, Prepared>();
function getPrepared(text: string): Prepared {
  let found = known.get(text);
  if (!found) {
    const lists = [...text.matchAll(/\$(\d+)::(\w+)\[\]/g)].map(([, place, type]) => [Number(place) - 1, type as string] as const);
    known.set(text, (found = { name: `s${known.size}`, lists: new Map(lists) }));
  }
  return found;
}

async function run<T>(on: Pick<ClientBase, "query">, text: string, values: readonly unknown[]): Promise<T[]> {
  const { name, lists } = getPrepared(text);
  const sent = values.map((value, place) => {
    const type = lists.get(place);
    const list = type !== undefined && Array.isArray(value) ? binaryList(type, value) : undefined;
    return list ?? encodeValue(value);
  });
  try {
    const result = await on.query<Record<string, unknown>>({ name, text, values: sent });
    return decoded(result.rows as T[]);
  } catch (error) {
    throw storeError(error);
  }
}

const ignore = (): void => undefined;

/** The client writes each statement to its socket by itself; what is sent before the next tick goes out as one here. */
function together(client: PoolClient): () => void {
  const { stream } = (client as PoolClient & Pick<Client, "connection">).connection;
  let held = false;
  return () => {
    if (held) return;
    held = true;
    stream.cork();
    process.nextTick(() => {
      held = false;
      stream.uncork();
    });
  };
}

async function transact<T>(client: PoolClient, work: (tx: Transaction) => Promise<T>): Promise<T> {
  const hold = together(client);
  hold();
  const begun = run(client, "BEGIN", []);
  begun.catch(ignore);
  let committed: Promise<void> | undefined;
  // Of statements that were sent one behind the other, the first that fails says why; the others only that one did.
  let failure: unknown;
  const query = <R>(text: string, values: readonly unknown[] = []): Promise<R[]> => {
    if (committed) throw new Error("nothing can follow the last statement of a transaction");
    hold();
    return run<R>(client, text, values).catch((error: unknown) => {
      throw (failure ??= error);
    });
  };
  const commit = async (): Promise<void> => {
    // PostgreSQL answers the COMMIT of a transaction that has failed with ROLLBACK, which is no error to the client.
    const { command } = await client.query("COMMIT").catch((error: unknown) => {
      throw storeError(error);
    });
    if (command !== "COMMIT") throw storeError(new Error("rolled back"));
  };
  const last = (): void => {
    hold();
    committed ??= commit();
    committed.catch(ignore);
  };
  let value: T;
  try {
    value = await work({ query, last });
    await begun;
  } catch (error) {
    await (committed ?? run(client, "ROLLBACK", [])).catch(ignore);
    throw failure ?? error;
  }
  last();
  await committed;
  return value;
}

/** Runs a transaction on a connection of the pool. A connection that may be broken is not used again. */
async function transactIn<T>(pool: Pool, work: (tx: Transaction) => Promise<T>): Promise<T> {
  const client = await pool.connect().catch((error: unknown) => {
    throw storeError(error);
  });
  // A connection that is lost between two statements tells it by an event, which nobody may leave unheard.
  client.on("error", ignore);
  let broken = true;
  try {
    const value = await transact(client, work);
    broken = false;
    return value;
  } catch (error) {
    broken = !isConflict(error) && !isRefused(error);
    throw error;
  } finally {
    client.off("error", ignore);
    client.release(broken);
  }
}

/** Notices a server that does not answer any more. */
class Watch {
  /** When the work under way was begun, oldest first. */
  readonly #begun = new Set<{ at: Ms }>();
  #answeredAt = -Infinity;

  async over<T>(work: Promise<T>): Promise<T> {
    const one = { at: performance.now() };
    this.#begun.add(one);
    try {
      const value = await work;
      this.#answeredAt = performance.now();
      return value;
    } finally {
      this.#begun.delete(one);
    }
  }

  responding(): boolean {
    const [oldest] = this.#begun;
    return oldest === undefined || performance.now() - Math.max(oldest.at, this.#answeredAt) < SILENT_MS;
  }
}

function createLane(pool: Pool, watch: Watch): Lane {
  const query = <T>(text: string, values: readonly unknown[] = []): Promise<T[]> => watch.over(run<T>(pool, text, values));
  const transaction = <T>(work: (tx: Transaction) => Promise<T>): Promise<T> => watch.over(transactIn(pool, work));
  return {
    query,
    transaction,
    async write<T>(statements: readonly Statement[]) {
      const [first, ...others] = statements;
      if (!first) return [];
      // A statement by itself is a transaction.
      if (others.length === 0) return [await query<T>(first.text, first.values)];
      return transaction((sql) => {
        const sent = statements.map(({ text, values }) => sql.query<T>(text, values));
        sql.last();
        return Promise.all(sent);
      });
    },
  };
}

/** Connects lazily, and again whenever connections were lost; nothing has to be done by hand. */
export async function openDb(address: Address, log: Logger, limits = LIMITS): Promise<Db> {
  const pg = (await import("pg")).default;
  const config: ClientConfig = {
    connectionString: address.connection,
    connectionTimeoutMillis: CONNECT_MS,
    query_timeout: limits.statementMs + ANSWER_MS,
    keepAlive: true,
    application_name: "rouse",
    types: createTypes(pg.types.getTypeParser),
  };
  const prepare = (client: ClientBase): Promise<unknown> => client.query(settings(address.schema, limits));
  // The pool waits for the promise, though its type does not say so.
  const watch = new Watch();
  const pools: Pool[] = [];
  const createPool = (max: number): Lane => {
    const pooled = { ...config, pipeline: true, max, onConnect: prepare };
    const pool: Pool = new pg.Pool(pooled);
    pool.on("error", (error) => log.warn({ err: safeError(error) }, "a connection to PostgreSQL was lost; another one is made"));
    pools.push(pool);
    return createLane(pool, watch);
  };

  return {
    ...createPool(limits.connections),
    address,
    heartbeats: createPool(HEARTBEATS),
    accepts: createPool(ACCEPTS),
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
