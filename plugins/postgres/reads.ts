import {
  type Collected,
  createSearches,
  type Lists,
  type ListSource,
  type Ms,
  type Page,
  PAGES,
  parseRecord,
  readSteps,
  type ReadTable,
  sessionId,
  type SessionRow,
  type Store,
  sumActivity,
  readQueuedSince,
  sumFailures,
  toConfig,
  toLastRoute,
  toReads,
  toSession,
  toSteps,
  toTurn,
  type ToolResultRecord,
  type TurnRow,
} from "#store-kit";
import { readCounts } from "./counts.ts";
import type { Db } from "./db.ts";
import { digest } from "./digest.ts";
import { createKeyedRead } from "./keyed-reads.ts";
import { readDedupeRecords } from "./keys.ts";
import { createSource, renderJsonText, sumUsage } from "./lists.ts";

const SESSION = "session, agent, origin, key, path, credential, turns, created, used";
const HOOK_SESSIONS = `SELECT ${SESSION} FROM sessions WHERE key = $1 AND origin = 'hook' AND agent = $2`;

const NEWEST_CHECKPOINT =
  "SELECT seq, record FROM turns WHERE session = $1 AND covered IS NOT NULL ORDER BY seq DESC LIMIT 1";

const TURNS =
  "SELECT seq, record FROM turns WHERE session = $1 AND seq < $2 AND seq > $3 ORDER BY seq DESC LIMIT $4";

/** What each run reads: runs that are under way together ask together. */
function createRunReads({
  work,
}: Pick<Db, "work">): Pick<ReadTable["get"], "run" | "session"> &
  Pick<ReadTable["list"], "turns" | "hookSessions"> {
  const { columns, read } = PAGES.runs;
  const runs = createKeyedRead<unknown, [string]>(
    work,
    `SELECT ${columns} FROM runs WHERE id = $1`,
    ["text"],
  );
  const sessions = createKeyedRead<SessionRow, [Buffer]>(
    work,
    `SELECT ${SESSION} FROM sessions WHERE id = $1`,
    ["bytea"],
  );
  const hookSessions = createKeyedRead<SessionRow, [string, string]>(work, HOOK_SESSIONS, [
    "text",
    "text",
  ]);
  const turns = createKeyedRead<TurnRow, [Buffer, number, number, number | undefined]>(
    work,
    TURNS,
    ["bytea", "bigint", "bigint", "bigint"],
  );
  return {
    run: async (id) => (await runs(id)).map(read)[0],
    session: async (ref) => (await sessions(digest(sessionId(ref)))).map(toSession)[0],
    hookSessions: async ({ agentId, key }) =>
      (await hookSessions(key, agentId))
        .map(toSession)
        .toSorted((a, b) => b.lastUsedAt - a.lastUsedAt),
    /** The newest turns of a session, oldest first. */
    async turns({ limit, before = Number.MAX_SAFE_INTEGER, after = 0, ...ref }) {
      const rows = await turns(digest(sessionId(ref)), before, after, limit);
      return rows.map(toTurn).toSorted((a, b) => a.seq - b.seq);
    },
  };
}

const EVENT_NUMBERS = "SELECT seq FROM events WHERE seq > $1 ORDER BY seq LIMIT $2";
const NUMBERED_EVENTS = `SELECT seq, ${PAGES.events.columns} FROM events WHERE seq = ANY ($1::bigint[]) ORDER BY seq`;
const toNumberedEvent = (row: { seq: number }): Lists["numberedEvents"]["is"] => ({
  number: row.seq,
  event: PAGES.events.read(row),
});

async function readEventNumber(db: Db, { id }: { id?: string }): Promise<number | undefined> {
  const newest = "SELECT max(seq) AS seq FROM events";
  const rows = await (id === undefined
    ? db.query(newest, [])
    : db.query("SELECT seq FROM events WHERE id = $1", [id]));
  return (rows[0] as { seq: number | null } | undefined)?.seq ?? undefined;
}

/** What is added up over many records. */
const createSums = (
  db: Db,
  source: ListSource,
): Pick<ReadTable["list"], "usage" | "activity" | "failures"> => ({
  usage: (query) => sumUsage(db, query),
  activity: (query) => sumActivity(source, query),
  failures: (query) => sumFailures(source, renderJsonText, query),
});

/** Where a record stands in its table. */
const createPlaces = (
  db: Db,
  source: ListSource,
): Pick<ReadTable["get"], "eventNumber" | "queuedSince"> => ({
  eventNumber: (of) => readEventNumber(db, of),
  queuedSince: () => readQueuedSince(source, renderJsonText),
});

/** The reading side over PostgreSQL. */
export function createReads(
  db: Db,
  now: () => Ms,
): Pick<Store, "findDuplicates" | "get" | "list" | "search" | "counts"> {
  const first = async <Row, T>(
    text: string,
    value: unknown,
    read: (row: Row) => T,
  ): Promise<T | undefined> => (await db.query<Row>(text, [value])).map(read)[0];
  const all = async <Row, T>(
    text: string,
    values: readonly unknown[],
    read: (row: Row) => T,
  ): Promise<T[]> => (await db.query<Row>(text, values)).map(read);
  const byId = <Q, T>({ table, columns, read }: Page<Q, T>, id: string): Promise<T | undefined> =>
    first(`SELECT ${columns} FROM ${table} WHERE id = $1`, id, read);
  const run = createRunReads(db);
  const source = createSource(db);
  const { lists, search } = createSearches(source);
  return {
    search,
    async findDuplicates(keys) {
      if (keys.length === 0) return [];
      const ids = keys.map(({ scope, key }) => digest(scope, key));
      const records = await readDedupeRecords(db.accepts, ids);
      return ids.map((id) => {
        const record = records.get(id.toString("hex"));
        return record && record.expiresAt > now() ? record : undefined;
      });
    },
    counts: () => readCounts(db),
    ...toReads({
      get: {
        event: (id) => byId(PAGES.events, id),
        run: run.run,
        delivery: (id) => byId(PAGES.deliveries, id),
        session: run.session,
        checkpoint: (ref) => first(NEWEST_CHECKPOINT, digest(sessionId(ref)), toTurn),
        value: (key) =>
          first(
            "SELECT value FROM meta WHERE key = $1",
            key,
            (row: { value: string }) => JSON.parse(row.value) as unknown,
          ),
        ...createPlaces(db, source),
        approval: (id) => byId(PAGES.approvals, id),
        toolResult: (id) =>
          first("SELECT record FROM tool_results WHERE id = $1", id, parseRecord<ToolResultRecord>),
        config: (id) =>
          first(
            "SELECT seq, id, first_used, last_used, content FROM configs WHERE id = $1",
            id,
            toConfig,
          ),
      },
      list: {
        ...lists,
        ...createSums(db, source),
        turns: run.turns,
        queuedSystemEvents({ agentId, limit }) {
          const { columns, read } = PAGES.systemEvents;
          return all(
            `SELECT ${columns} FROM system_events WHERE agent = $1 AND state = 'queued' ORDER BY seq LIMIT $2`,
            [agentId, limit],
            read,
          );
        },
        hookSessions: run.hookSessions,
        collected: (runId) =>
          all(
            "SELECT record FROM collected WHERE run_id = $1 ORDER BY seq",
            [runId],
            parseRecord<Collected>,
          ),
        lastRoutes(agentId) {
          const text =
            "SELECT agent, channel, recipient, thread, at FROM last_routes WHERE agent = $1 ORDER BY at DESC";
          return all(text, [agentId], toLastRoute);
        },
        eventNumbers: ({ after, limit }) =>
          all(EVENT_NUMBERS, [after, limit], ({ seq }: { seq: number }) => seq),
        numberedEvents: (numbers) => all(NUMBERED_EVENTS, [numbers], toNumberedEvent),
        steps: async (runId) => toSteps(await db.query(readSteps("$1"), [runId])),
      },
    }),
  };
}
