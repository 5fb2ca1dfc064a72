import {
  type FencingToken,
  type Held,
  type LeaseRecord,
  type Logger,
  runHeld,
  type Sql,
} from "#store-kit";
import type { Db } from "../client/db.ts";
import type { Membership } from "./membership.ts";
import { LEASE_MS } from "./holders.ts";

/** Returns whether the holder that a row names is heard of. */
const ALIVE = (column: string): string =>
  `EXISTS (SELECT 1 FROM holders WHERE holders.id = ${column} AND holders.seen > now() - interval '${LEASE_MS} ms')`;

/**
 * Takes those of the leases that nobody alive has, and those that this holder had: each time with a new token. A lease
 * under which somebody commits at this moment is locked, and left for the next look.
 */
const TAKE = `
  UPDATE leases SET holder = $2, token = leases.token + 1, since = now()
  FROM (SELECT name FROM leases WHERE name = ANY($1::text[]) AND (holder IS NULL OR holder = $2 OR NOT ${ALIVE("leases.holder")})
    ORDER BY name FOR NO KEY UPDATE SKIP LOCKED) AS free
  WHERE leases.name = free.name RETURNING leases.name, leases.token`;

interface Want {
  name: string;
  got(fencingToken: FencingToken | undefined): void;
}

interface Own {
  fencingToken: FencingToken;
  abort: AbortController;
}

/** Those of the fencing tokens that hold; locked, so that none of the leases changes hands before this transaction ends. */
export async function standing(sql: Sql, names: readonly string[]): Promise<Map<string, number>> {
  if (names.length === 0) return new Map();
  const rows = await sql.query<{ name: string; token: number }>(
    `SELECT name, token FROM leases WHERE name = ANY($1::text[]) AND ${ALIVE("leases.holder")} ORDER BY name FOR SHARE OF leases`,
    [[...new Set(names)]],
  );
  return new Map(rows.map((row) => [row.name, row.token]));
}

export interface Leases {
  hold(name: string, signal: AbortSignal, run: (held: Held) => Promise<void>): Promise<void>;
  /** To be called at each sign of life that the database has taken. */
  beat(): Promise<void>;
  /** The time is over for which this holder can be sure that no other has its leases. */
  lost(): void;
  list(): Promise<LeaseRecord[]>;
  close(): Promise<void>;
}

/**
 * Creates the leases of work that only one gateway may do. A holder keeps its lease for as long as its signs of life
 * arrive.
 */
export function createLeases({
  db: { heartbeats: db },
  membership,
  log,
  start,
}: {
  db: Db;
  membership: Membership;
  log: Logger;
  start(): void;
}): Leases {
  const wants = new Set<Want>();
  const own = new Map<string, Own>();
  const holding = new Set<Promise<void>>();
  const ended = new AbortController();
  let taking: Promise<void> | undefined;

  const take = async (): Promise<void> => {
    const names = [...new Set([...wants].map((want) => want.name))].filter(
      (name) => !own.has(name),
    );
    if (names.length === 0) return;
    const id = await membership.id();
    await db.query(
      "INSERT INTO leases (name) SELECT name FROM unnest($1::text[]) AS given (name) ORDER BY name ON CONFLICT DO NOTHING",
      [names],
    );
    const rows = await db.query<{ name: string; token: number }>(TAKE, [names, id]);
    // An answer that took too long says nothing any more.
    if (!membership.sure()) return;
    for (const { name, token } of rows) {
      const want = [...wants].find((one) => one.name === name);
      if (!want || own.has(name)) continue;
      wants.delete(want);
      own.set(name, { fencingToken: { lease: name, token }, abort: new AbortController() });
      want.got({ lease: name, token });
    }
  };
  const takeSoon = (): Promise<void> => (taking ??= take().finally(() => (taking = undefined)));

  const wanted = (name: string, signal: AbortSignal): Promise<FencingToken | undefined> =>
    new Promise((resolve) => {
      const give = (): void => want.got(undefined);
      const want: Want = {
        name,
        got(fencingToken) {
          wants.delete(want);
          signal.removeEventListener("abort", give);
          resolve(fencingToken);
        },
      };
      if (signal.aborted) return resolve(undefined);
      signal.addEventListener("abort", give, { once: true });
      wants.add(want);
      start();
      // The beat tries again.
      takeSoon().catch(() => undefined);
    });

  const release = async ({ lease, token }: FencingToken): Promise<void> => {
    await db
      .query("UPDATE leases SET holder = NULL WHERE name = $1 AND token = $2", [lease, token])
      .catch(() => undefined);
  };

  const hold = async (
    name: string,
    signal: AbortSignal,
    run: (held: Held) => Promise<void>,
  ): Promise<void> => {
    for (let again = true; again && !signal.aborted;) {
      const fencingToken = await wanted(name, signal);
      const mine = fencingToken && own.get(name);
      if (!mine) return;
      log.info({ lease: name }, "this gateway has a lease");
      again = await runHeld(
        name,
        { signal: AbortSignal.any([signal, mine.abort.signal]), fencingToken },
        run,
        log,
      );
      own.delete(name);
      await release(fencingToken);
    }
  };

  const lost = (names: Iterable<string>): void => {
    for (const name of names) {
      const mine = own.get(name);
      if (!mine || mine.abort.signal.aborted) continue;
      log.warn({ lease: name }, "this gateway has lost a lease: another one goes on");
      mine.abort.abort();
    }
  };

  return {
    hold(name, signal, run) {
      const done: Promise<void> = hold(name, AbortSignal.any([signal, ended.signal]), run).finally(
        () => holding.delete(done),
      );
      holding.add(done);
      return done;
    },
    async beat() {
      if (own.size > 0) {
        const rows = await db.query<{ name: string; token: number }>(
          "SELECT name, token FROM leases WHERE holder = $1",
          [await membership.id()],
        );
        const tokens = new Map(rows.map((row) => [row.name, row.token]));
        lost(
          [...own]
            .filter(([name, { fencingToken }]) => tokens.get(name) !== fencingToken.token)
            .map(([name]) => name),
        );
      }
      await takeSoon();
    },
    lost: () => lost([...own.keys()]),
    async list() {
      const rows = await db.query<{ name: string; gateway: string | null; since: number }>(
        `SELECT leases.name, CASE WHEN ${ALIVE("leases.holder")} THEN (SELECT gateway FROM holders WHERE id = leases.holder) END AS gateway,
          (extract(epoch FROM since) * 1000)::bigint AS since FROM leases WHERE holder IS NOT NULL OR name NOT LIKE 'once:%' ORDER BY name`,
      );
      return rows.map(({ name, gateway, since }) => ({
        name,
        holder: gateway ?? undefined,
        since,
      }));
    },
    async close() {
      ended.abort();
      await Promise.all(holding);
    },
  };
}
