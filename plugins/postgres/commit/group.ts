import {
  type DedupeRecord,
  ID_TAKEN,
  type JobKind,
  type Ms,
  RouseError,
  type Sql,
  type WakeMode,
} from "#store-kit";
import { GroupWriter } from "./group-writer.ts";
import { isUnbound, readDedupeRecords } from "./keys.ts";
import type { Lane, Statement } from "../client/lane.ts";
import { isNothing, listWanted, load } from "./loaded.ts";
import type { Request } from "./request.ts";
import { planStatements } from "./statements.ts";

export type Outcome =
  | { kind: "done" }
  | { kind: "lost" }
  | { kind: "duplicate"; record: DedupeRecord };

/** A group that is on disk: an outcome for each of its requests, and what others have to hear of. */
export interface Committed {
  outcomes: Outcome[];
  touched: ReadonlySet<JobKind>;
  /** Kinds of which a job became ready, for other gateways. */
  ready: ReadonlySet<JobKind>;
  wakes: ReadonlyMap<string, WakeMode>;
  /** Jobs that wait for a time. */
  later: { kind: JobKind; at: Ms }[];
}

export interface GroupParts {
  db: Lane;
  part: string;
  now: () => Ms;
  dbTime: (at: Ms) => Ms;
}

/** A key was let go between two statements: the same again finds out. */
export class RetryTransaction extends Error {}

/** One of the requests cannot be written; the cause says why. */
export class CommitRefused extends Error {}

function refusing<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new CommitRefused("refused", { cause: error });
  }
}

interface Ready {
  kind: JobKind;
  ready?: boolean;
}

type Send = (statement: Statement) => Promise<Ready[]>;

async function write(
  requests: readonly Request[],
  { db, part, now, dbTime }: GroupParts,
  careful: boolean,
): Promise<Committed> {
  const at = now();
  const wanted = refusing(() => listWanted(requests, careful));
  const plan = async (sql: Sql) => {
    const writer = new GroupWriter(await load(sql, wanted), { now: at, dbTime, part });
    return refusing(() => ({
      writer,
      outcomes: requests.map((one): Outcome => ({ kind: writer.write(one) ? "done" : "lost" })),
      statements: planStatements(writer.batch),
    }));
  };
  const sendAll = async (
    { writer: { jobs, wakes }, outcomes, statements }: Awaited<ReturnType<typeof plan>>,
    send: Send,
    sent?: () => void,
  ): Promise<Committed> => {
    const answers = statements.map(send);
    sent?.();
    const rows = (await Promise.all(answers)).flat();
    const ready = rows.filter((row) => row.ready !== false).map(({ kind }) => kind);
    const later = jobs.later.filter((job) => job.at > at);
    return { outcomes, touched: jobs.touched, ready: new Set(ready), wakes, later };
  };
  if (isNothing(wanted)) {
    const planned = await plan(db);
    // A statement by itself is a transaction.
    if (planned.statements.length <= 1) return sendAll(planned, (one) => db.send(one));
  }
  return db.transaction(async (sql) =>
    sendAll(
      await plan(sql),
      ({ text, values }) => sql.query(text, values),
      () => sql.last(),
    ),
  );
}

/** Answers the requests of which a key is held, and writes the others. */
async function withoutRepeats(
  requests: readonly Request[],
  parts: GroupParts,
  careful: boolean,
): Promise<Committed> {
  const ids = requests.flatMap(({ keys }) => keys.map(({ id }) => id));
  const held = await readDedupeRecords(parts.db, ids);
  const now = parts.now();
  const repeats = requests.map(({ keys }): Outcome | undefined => {
    const record = keys
      .map(({ name }) => held.get(name))
      .find((known) => known !== undefined && known.expiresAt > now);
    if (record && record.eventId === keys[0]?.eventId)
      throw new CommitRefused("refused", { cause: new RouseError(ID_TAKEN) });
    return record && { kind: "duplicate", record };
  });
  const rest = requests.filter((_, n) => !repeats[n]);
  if (rest.length === requests.length) throw new RetryTransaction();
  const committed: Committed =
    rest.length > 0
      ? await commitGroup(rest, parts, careful)
      : { outcomes: [], touched: new Set(), ready: new Set(), wakes: new Map(), later: [] };
  const outcomes = committed.outcomes.values();
  return {
    ...committed,
    outcomes: repeats.map((repeat) => repeat ?? (outcomes.next().value as Outcome)),
  };
}

/**
 * Writes a group in one transaction. No two of the requests may ask for the same key. Bound by the statements' times;
 * @throws `CommitRefused`, or what PostgreSQL says; then nothing of the group is there, unless the connection was lost during the commit.
 */
export async function commitGroup(
  requests: readonly Request[],
  parts: GroupParts,
  careful: boolean,
): Promise<Committed> {
  try {
    return await write(requests, parts, careful);
  } catch (error) {
    if (!isUnbound(error)) throw error;
    return withoutRepeats(requests, parts, careful);
  }
}
