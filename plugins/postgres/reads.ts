import {
  type Collected,
  createSearches,
  type Lists,
  type Ms,
  type Page,
  PAGES,
  parseRecord,
  readSteps,
  sessionId,
  type Store,
  toLastRoute,
  toReads,
  toSession,
  toSteps,
  toTurn,
  type ToolResultRecord,
  type TurnRecord,
  type TurnRow,
} from "#store-kit";
import { readCounts } from "./counts.ts";
import type { Db } from "./db.ts";
import { digest } from "./digest.ts";
import { readDedupeRecords } from "./keys.ts";
import { createSource, sumUsage } from "./lists.ts";

const SESSION = "session, agent, origin, key, path, credential, turns, created, used";
const HOOK_SESSIONS = `SELECT ${SESSION} FROM sessions WHERE key = $1 AND origin = 'hook' AND agent = $2 ORDER BY used DESC`;

const NEWEST_CHECKPOINT = "SELECT seq, record FROM turns WHERE session = $1 AND covered IS NOT NULL ORDER BY seq DESC LIMIT 1";

/** The newest turns of a session, oldest first. */
async function readTurns(
  db: Db,
  { limit, before = Number.MAX_SAFE_INTEGER, after = 0, ...ref }: Lists["turns"]["of"],
): Promise<TurnRecord[]> {
  const text = "SELECT seq, record FROM turns WHERE session = $1 AND seq < $2 AND seq > $3 ORDER BY seq DESC LIMIT $4";
  const rows = await db.query<TurnRow>(text, [digest(sessionId(ref)), before, after, limit]);
  return rows.map(toTurn).toReversed();
}

/** The reading side over PostgreSQL. */
export function createReads(db: Db, now: () => Ms): Pick<Store, "findDuplicates" | "get" | "list" | "search" | "counts"> {
  const first = async <Row, T>(text: string, value: unknown, read: (row: Row) => T): Promise<T | undefined> =>
    (await db.query<Row>(text, [value])).map(read)[0];
  const all = async <Row, T>(text: string, values: readonly unknown[], read: (row: Row) => T): Promise<T[]> =>
    (await db.query<Row>(text, values)).map(read);
  const byId = <Q, T>({ table, columns, read }: Page<Q, T>, id: string): Promise<T | undefined> =>
    first(`SELECT ${columns} FROM ${table} WHERE id = $1`, id, read);
  const { lists, search } = createSearches(createSource(db));
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
        run: (id) => byId(PAGES.runs, id),
        delivery: (id) => byId(PAGES.deliveries, id),
        session: (ref) => first(`SELECT ${SESSION} FROM sessions WHERE id = $1`, digest(sessionId(ref)), toSession),
        checkpoint: (ref) => first(NEWEST_CHECKPOINT, digest(sessionId(ref)), toTurn),
        value: (key) => first("SELECT value FROM meta WHERE key = $1", key, (row: { value: string }) => JSON.parse(row.value) as unknown),
        approval: (id) => byId(PAGES.approvals, id),
        toolResult: (id) => first("SELECT record FROM tool_results WHERE id = $1", id, parseRecord<ToolResultRecord>),
      },
      list: {
        ...lists,
        usage: (query) => sumUsage(db, query),
        turns: (query) => readTurns(db, query),
        queuedSystemEvents({ agentId, limit }) {
          const { columns, read } = PAGES.systemEvents;
          return all(
            `SELECT ${columns} FROM system_events WHERE agent = $1 AND state = 'queued' ORDER BY seq LIMIT $2`,
            [agentId, limit],
            read,
          );
        },
        hookSessions: ({ agentId, key }) => all(HOOK_SESSIONS, [key, agentId], toSession),
        collected: (runId) => all("SELECT record FROM collected WHERE run_id = $1 ORDER BY seq", [runId], parseRecord<Collected>),
        lastRoutes(agentId) {
          const text = "SELECT agent, channel, recipient, thread, at FROM last_routes WHERE agent = $1 ORDER BY at DESC";
          return all(text, [agentId], toLastRoute);
        },
        steps: async (runId) => toSteps(await db.query(readSteps("$1"), [runId])),
      },
    }),
  };
}
