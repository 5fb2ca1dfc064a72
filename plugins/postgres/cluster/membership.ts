import { lazy, type Logger, type Ms, type PeerInfo, safeError } from "#store-kit";
import type { Db } from "../client/db.ts";
import { LEASE_MS } from "./holders.ts";

/** The interval of the signs of life: several within a lease, so that one lost answer costs nothing. */
const BEAT_MS = 2500;
/** A holder counts on its lease for less time than others wait for it: what it does under it has come to an end by then. */
const SURE_MS = LEASE_MS - 2000;
const TELL_EVERY_MS = 30_000;
/** Signs of life that are farther apart say that the database was away meanwhile. */
const GAP_MS = 2 * BEAT_MS;

export interface Membership {
  /** The number under which this handle holds jobs and leases; asked for when first needed. */
  id(): Promise<number>;
  /** The database does not know the number any more. */
  forget(): void;
  /** Returns whether no other can have taken yet what this one holds. */
  sure(): boolean;
  /**
   * Counts how often other holders may have taken over. It grows with each sign of life that came after the time for
   * which the one before was sure. Work that was held when a number was read is still held if it is `sure` and the
   * number is the same.
   */
  lapses(): number;
  /** Resolves with the next sign of life that the database has taken, or when the signal aborts. */
  nextBeat(signal: AbortSignal): Promise<void>;
  /**
   * Returns whether the database could be reached for the whole time of a lease: only then does the silence of another
   * holder say that its process has ended. After an outage all are silent until they are connected again.
   */
  steady(): boolean;
  /** Begins to beat; a second call does nothing. */
  start(): void;
  /** Sets the facts about this holder that other gateways may read. */
  describe(info: () => PeerInfo): void;
  close(): Promise<void>;
}

export interface MembershipParts {
  db: Db;
  log: Logger;
  /** Under which name others know this handle. */
  gateway: string;
  /** Called with each sign of life that the database has taken. */
  beat(): Promise<void>;
  /** Called behind each sign of life, unless the call before has not ended: no sign of life waits for it. */
  tidy(): Promise<void>;
  /** Nothing that is held is sure any more. */
  lost(): void;
}

/** One handle's claim on the jobs and leases that it holds: whoever is not heard of for the time of a lease holds none. */
export function createMembership({
  db,
  log,
  gateway,
  beat,
  tidy,
  lost,
}: MembershipParts): Membership {
  let timer: NodeJS.Timeout | undefined;
  let deadline: NodeJS.Timeout | undefined;
  let beating: Promise<void> | undefined;
  let tidying: Promise<void> | undefined;
  let closed = false;
  const told = { beat: -Infinity, tidy: -Infinity };
  let sureUntil: Ms = -Infinity;
  let heardAt: Ms = -Infinity;
  let steadySince: Ms = Infinity;
  let lapses = 0;
  const waiting = new Set<() => void>();
  let describe: (() => PeerInfo) | undefined;

  /** Counted from before it was said, by a clock that nobody sets. */
  const seen = (sentAt: Ms): void => {
    if (closed) return;
    const now = performance.now();
    if (now - heardAt > GAP_MS) steadySince = now;
    heardAt = now;
    if (now >= sureUntil) lapses++;
    sureUntil = sentAt + SURE_MS;
    clearTimeout(deadline);
    deadline = setTimeout(lost, Math.max(0, sureUntil - now)).unref();
    for (const resolve of waiting) resolve();
  };

  const info = (): string | null => (describe ? JSON.stringify(describe()) : null);

  const register = async (): Promise<number> => {
    const sentAt = performance.now();
    const [row] = await db.heartbeats.query<{ id: number }>(
      "INSERT INTO holders (gateway, info) VALUES ($1, $2) RETURNING id",
      [gateway, info()],
    );
    seen(sentAt);
    return row?.id ?? 0;
  };
  const id = lazy(register);

  const tell = (about: keyof typeof told, error: unknown, text: string): void => {
    if (closed || performance.now() - told[about] < TELL_EVERY_MS) return;
    told[about] = performance.now();
    log.warn({ err: safeError(error) }, text);
  };

  const forget = (): void => {
    id.reset();
    sureUntil = -Infinity;
    lost();
  };

  const membership: Membership = {
    id,
    forget,
    sure: () => performance.now() < sureUntil,
    lapses: () => lapses,
    nextBeat: (signal) =>
      new Promise((resolve) => {
        const end = (): void => {
          waiting.delete(end);
          signal.removeEventListener("abort", end);
          resolve();
        };
        if (signal.aborted) return resolve();
        signal.addEventListener("abort", end, { once: true });
        waiting.add(end);
      }),
    steady: () =>
      performance.now() - steadySince > LEASE_MS && performance.now() - heardAt <= GAP_MS,
    start() {
      if (timer || closed) return;
      const once = async (): Promise<void> => {
        try {
          const own = await membership.id();
          const sentAt = performance.now();
          const [known] = await db.heartbeats.query<{ id: number }>(
            "UPDATE holders SET seen = now(), freed = NULL, info = $2 WHERE id = $1 RETURNING id",
            [own, info()],
          );
          if (known) seen(sentAt);
          else forget();
          await beat();
        } catch (error) {
          heardAt = -Infinity;
          tell(
            "beat",
            error,
            "PostgreSQL does not answer: jobs held here may go to other gateways",
          );
        }
      };
      const tidyAll = (): Promise<void> =>
        tidy().catch((error: unknown) =>
          tell(
            "tidy",
            error,
            "jobs of gateways that are gone could not be looked for; it is tried again",
          ),
        );
      timer = setInterval(() => {
        beating ??= once().finally(() => {
          beating = undefined;
          // Its statements may wait for locks, or for connections that were lost.
          if (!closed) tidying ??= tidyAll().finally(() => (tidying = undefined));
        });
      }, BEAT_MS).unref();
    },
    describe: (next) => void (describe = next),
    async close() {
      closed = true;
      clearInterval(timer);
      clearTimeout(deadline);
      await beating;
      await tidying;
      const own = await id.current()?.catch(() => undefined);
      if (own !== undefined)
        await db.heartbeats
          .query("DELETE FROM holders WHERE id = $1", [own])
          .catch(() => undefined);
    },
  };
  return membership;
}
