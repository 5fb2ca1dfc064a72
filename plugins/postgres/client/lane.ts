import type { ClientBase, Pool, PoolClient } from "pg";
import { type Ms, RouseError, type Sql, STORE_UNAVAILABLE } from "#store-kit";
import { isConflict, isRefused, storeError } from "./errors.ts";
import { binaryList, decodeNul, encodeValue } from "./values.ts";

/** A server that answers nothing for so long is taken for one that hangs: it is asked several times as often. */
const SILENT_MS = 3000;

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
  /**
   * Runs a statement in a transaction of its own, over one connection that all of these share: it is sent behind those
   * that are not answered yet, and they are committed in the order in which they were sent. One that fails harms no
   * other; if the connection is lost, all that are not answered fail.
   */
  send<T>(statement: Statement): Promise<T[]>;
}

function decoded<T>(rows: T[]): T[] {
  for (const row of rows as Record<string, unknown>[]) {
    for (const [name, value] of Object.entries(row))
      if (typeof value === "string") row[name] = decodeNul(value);
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
    const lists = [...text.matchAll(/\$(\d+)::(\w+)\[\]/g)].map(
      ([, place, type]) => [Number(place) - 1, type as string] as const,
    );
    known.set(text, (found = { name: `s${known.size}`, lists: new Map(lists) }));
  }
  return found;
}

async function run<T>(
  on: Pick<ClientBase, "query">,
  text: string,
  values: readonly unknown[],
): Promise<T[]> {
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

export const ignore = (): void => undefined;

async function transact<T>(client: PoolClient, work: (tx: Transaction) => Promise<T>): Promise<T> {
  const begun = run(client, "BEGIN", []);
  begun.catch(ignore);
  let committed: Promise<void> | undefined;
  // Of statements that were sent one behind the other, the first that fails says why; the others only that one did.
  let failure: unknown;
  const query = <R>(text: string, values: readonly unknown[] = []): Promise<R[]> => {
    if (committed) throw new Error("nothing can follow the last statement of a transaction");
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

async function take(pool: Pool): Promise<PoolClient> {
  const client = await pool.connect().catch((error: unknown) => {
    throw storeError(error);
  });
  // A connection that is lost between two statements emits an error event, and without a listener the process would end.
  return client.on("error", ignore);
}

function giveBack(client: PoolClient, broken: boolean): void {
  client.off("error", ignore);
  client.release(broken);
}

/** Returns whether a connection on which this failed is not to be used again. */
const mayBeBroken = (error: unknown): boolean => !isConflict(error) && !isRefused(error);

/** Runs a transaction on a connection of the pool. A connection that may be broken is not used again. */
async function transactIn<T>(pool: Pool, work: (tx: Transaction) => Promise<T>): Promise<T> {
  const client = await take(pool);
  let broken = true;
  try {
    const value = await transact(client, work);
    broken = false;
    return value;
  } catch (error) {
    broken = mayBeBroken(error);
    throw error;
  } finally {
    giveBack(client, broken);
  }
}

/** A connection that several statements use at the same time. */
interface Shared {
  client: Promise<PoolClient>;
  users: number;
  broken: boolean;
}

/** Takes a connection of the pool for as long as statements are under way, and sends them over it without waiting between them. */
function createPipeline(pool: Pool): <T>(statement: Statement) => Promise<T[]> {
  let current: Shared | undefined;
  const leave = (shared: Shared): void => {
    if (current === shared) current = undefined;
  };
  return async <T>({ text, values }: Statement) => {
    const shared = (current ??= { client: take(pool), users: 0, broken: false });
    shared.users++;
    try {
      return await run<T>(await shared.client, text, values);
    } catch (error) {
      shared.broken ||= mayBeBroken(error);
      // Later statements take another connection; those that were sent over this one are still answered, or fail with
      // it.
      if (shared.broken) leave(shared);
      throw error;
    } finally {
      shared.users--;
      if (shared.users === 0) {
        leave(shared);
        shared.client.then((client) => giveBack(client, shared.broken)).catch(ignore);
      }
    }
  };
}

/** Notices a server that does not answer any more. */
export class Watch {
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
    return (
      oldest === undefined || performance.now() - Math.max(oldest.at, this.#answeredAt) < SILENT_MS
    );
  }
}

/** Rejects with `store_unavailable` if there is no answer in time; the statement goes on. */
async function waitFor<T>(answer: Promise<T>, patienceMs: Ms): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new RouseError(STORE_UNAVAILABLE)), patienceMs);
  return Promise.race([answer, late]).finally(() => clearTimeout(timer));
}

/** `patienceMs`: how long a single statement is waited for, if that is shorter than the time after which its connection is replaced. */
export function createLane(pool: Pool, watch: Watch, patienceMs?: Ms): Lane {
  const query = <T>(text: string, values: readonly unknown[] = []): Promise<T[]> => {
    const rows = watch.over(run<T>(pool, text, values));
    return patienceMs === undefined ? rows : waitFor(rows, patienceMs);
  };
  const transaction = <T>(work: (tx: Transaction) => Promise<T>): Promise<T> =>
    watch.over(transactIn(pool, work));
  const pipeline = createPipeline(pool);
  return {
    query,
    transaction,
    send: (statement) => watch.over(pipeline(statement)),
  };
}
