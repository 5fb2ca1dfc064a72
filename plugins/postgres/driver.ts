import {
  type Clock,
  createStepWatch,
  createFailureLog,
  createSignals,
  type JobKind,
  type Logger,
  type Ms,
  newId,
  type OpenOptions,
  RouseError,
  safeError,
  type StoreHandle,
} from "#store-kit";
import { parseAddress } from "./client/address.ts";
import { createBatchWindows } from "./limits/batches.ts";
import { createNotifier } from "./cluster/notify.ts";
import { foldCounts } from "./records/reads.ts";
import { ACCEPT_MS, openDb, type Db } from "./client/db.ts";
import { sqlState } from "./client/errors.ts";
import { commitGroup, type Committed } from "./commit/group.ts";
import { createMembership } from "./cluster/membership.ts";
import { Jobs } from "./queue/jobs.ts";
import { GroupCommit } from "./commit/group-commit.ts";
import type { Lane } from "./client/lane.ts";
import { createLeases } from "./cluster/leases.ts";
import { createUsage } from "./limits/usage.ts";
import { migrate } from "./schema/migrate.ts";
import { createCluster } from "./cluster/cluster.ts";
import { createPostgresQueue, HandedOutJobs } from "./queue/queue.ts";
import { createPostgresStore } from "./records/store.ts";

/** Clocks nearer than that are taken for the same. */
const SAME_MS = 100;
/**
 * The shortest time between two notifications that are passed on, so that a flood of hooks elsewhere causes no flood of
 * reads here.
 */
const PASS_ON_MS = 5;

/** PostgreSQL's code for a failure, which quotes nothing. */
const describeFailure = (error: unknown): object => {
  const cause = (error as Error | undefined)?.cause;
  return { sqlState: sqlState(error), cause: cause === undefined ? undefined : safeError(cause) };
};

/** Groups of hooks that are under way at a time. */
const ACCEPT_GROUPS = 4;

/**
 * The database's clock, by which jobs wait: all gateways share it. Between two measurements it goes on with this machine's
 * monotonic clock, so that nothing changes if somebody sets the other one.
 */
class DatabaseClock {
  readonly #db: Db;
  readonly #clock: Clock;
  /** The difference between the database's clock and the monotonic one. */
  #ahead: Ms = 0;

  constructor(db: Db, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
  }

  #monotonic(): Ms {
    return this.#clock.monotonic?.() ?? this.#clock.now();
  }

  async measure(): Promise<void> {
    const before = this.#monotonic();
    const [row] = await this.#db.query<{ at: number }>(
      "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS at",
    );
    this.#ahead = (row?.at ?? this.#clock.now()) - (before + this.#monotonic()) / 2;
  }

  /** A time of this machine's clock, by the database's. */
  toDbTime(at: Ms): Ms {
    const skew = this.#monotonic() + this.#ahead - this.#clock.now();
    return Math.round(at) + (Math.abs(skew) < SAME_MS ? 0 : Math.round(skew));
  }
}

/** Passes signals on: the first at once, and those that come close behind it as one. */
function gathering(pass: (kinds: Iterable<JobKind>) => void): (kinds: Iterable<JobKind>) => void {
  const kinds = new Set<JobKind>();
  let timer: NodeJS.Timeout | undefined;
  const passAll = (): void => {
    timer = undefined;
    if (kinds.size === 0) return;
    const now = [...kinds];
    kinds.clear();
    timer = setTimeout(passAll, PASS_ON_MS).unref();
    pass(now);
  };
  return (more) => {
    for (const kind of more) kinds.add(kind);
    if (!timer) passAll();
  };
}

/** The store and its queue over a schema that is up to date. */
async function createPostgres(db: Db, clock: Clock, log: Logger): Promise<StoreHandle> {
  const now = (): Ms => clock.now();
  const watch = createStepWatch(clock, log);
  const dbClock = new DatabaseClock(db, clock);
  await dbClock.measure();
  const dbTime = (at: Ms): Ms => dbClock.toDbTime(at);
  const getLatest = (): Ms => Math.min(now(), dbTime(now()));
  const jobs = new Jobs(db);
  const followClock = async (): Promise<void> => {
    const step = await jobs.followClock();
    if (step > 0)
      log.warn(
        { stepMs: -step },
        "PostgreSQL's clock was set back; delays end as if it had not been",
      );
  };
  await followClock();
  const handedOut = new HandedOutJobs();
  const gateway = newId("gwy", now());
  const membership = createMembership({
    db,
    log,
    gateway,
    beat: () => leases.beat(),
    tidy: () => tidy(),
    lost: () => leases.lost(),
  });
  const leases = createLeases({ db, membership, log, start: membership.start });

  const look = async (): Promise<void> => signals.announce(await jobs.readyKinds(dbTime(now())));
  // Work that earlier gateways left is reported to the first listener.
  const left = await jobs.readyKinds(dbTime(now()));
  const tellLeft = (): void => void setImmediate(() => signals.announce(left.splice(0)));
  const passOn = gathering((kinds) => signals.announce(kinds));
  const notifier = createNotifier({
    db,
    log,
    heard(kinds, wakes) {
      passOn(kinds);
      signals.woke(wakes);
    },
    lost: () => void look().catch(() => undefined),
  });
  const listened = (): void => {
    notifier.listen();
    if (left.length > 0) tellLeft();
  };
  const signals = createSignals({ clock, log, listened });

  const committed = ({ touched, ready, wakes, later }: Committed): void => {
    for (const { kind, at } of later) signals.later(kind, at);
    signals.announce(touched);
    signals.woke(wakes);
    notifier.tell(ready, wakes);
  };
  const failed = createFailureLog(log, describeFailure);
  const createCommits = (
    part: string,
    lane: Lane,
    maxGroups: number,
    patienceMs?: Ms,
  ): GroupCommit =>
    new GroupCommit({
      maxGroups,
      commit: (requests, careful) =>
        commitGroup(requests, { db: lane, part, now, dbTime }, careful),
      committed,
      failed,
      patienceMs,
      responding: db.responding,
    });
  const [accepting, committing] = [
    createCommits(`${gateway}+`, db.accepts, ACCEPT_GROUPS, ACCEPT_MS),
    createCommits(gateway, db.work, 1),
  ];

  const tidy = async (): Promise<void> => {
    watch.look();
    await dbClock.measure();
    await followClock();
    const freed = await jobs.free(membership.steady());
    if (freed.length > 0)
      log.warn({ jobs: freed.length }, "jobs of a gateway that is gone start again");
    const strays = await handedOut.strays(async () => jobs.heldBy(await membership.id()));
    if (strays.length > 0) {
      await jobs.letGo(strays);
      log.warn(
        { jobs: strays.length },
        "jobs that were taken while PostgreSQL was away start again",
      );
    }
    await foldCounts(db);
    await look();
  };

  const close = async (): Promise<void> => {
    await Promise.all([accepting.close(), committing.close()]);
    signals.close();
    await leases.close();
    await notifier.close();
    await membership.close();
    await db.close();
  };

  return {
    store: createPostgresStore({ db, now, getLatest, accepting, committing, signals, close }),
    queue: createPostgresQueue({ db, jobs, membership, signals, handedOut, now, dbTime }),
    batches: createBatchWindows({ db, dbTime }),
    usage: createUsage({
      db,
      membership,
      gateway,
      now,
      dbTime,
      ready(kind) {
        signals.announce([kind]);
        notifier.tell([kind], []);
      },
    }),
    cluster: createCluster({ id: gateway, db, membership, leases, notifier }),
  };
}

/**
 * Opens the store and its queue on PostgreSQL, with the schema brought up to date.
 * @throws RouseError `config_invalid` for an address that cannot be used, `store_unavailable` where nobody answers.
 */
export async function openPostgres({ url, env, clock, log }: OpenOptions): Promise<StoreHandle> {
  const db = await openDb(parseAddress(url, env), log);
  try {
    await migrate(db);
    return await createPostgres(db, clock, log);
  } catch (error) {
    await db.close();
    throw error instanceof RouseError
      ? error
      : new RouseError(
          { code: "internal", message: "the store could not be opened" },
          { cause: error },
        );
  }
}
