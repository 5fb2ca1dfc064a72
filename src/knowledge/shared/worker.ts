/**
 * The main file of the threads that talk to the database of the store: words become numbers, and vectors are compared, off the event
 * loop. Calls run at the same time; what must not is decided by the database, for all gateways.
 */
import { randomUUID } from "node:crypto";
import { parentPort, workerData, type MessagePort } from "node:worker_threads";
import { createLogger } from "../../core/log.ts";
import { openSql, type SqlDatabase, type SqlSource } from "../../store/sql.ts";
import {
  CLOSE,
  type CallMessage,
  type ReplyMessage,
  type WorkerSettings,
  errorReply,
} from "../db/protocol.ts";
import { openPgvector } from "./pgvector.ts";
import { createSharedReader } from "./reader.ts";
import { SHARED_MIGRATIONS, MIGRATIONS_TABLE } from "./schema.ts";
import { createSharedWriter } from "./writer.ts";

const { role, sql } = workerData as WorkerSettings & { sql: SqlSource };
const port = parentPort as MessagePort;
/** A document of a thousand pages is deleted in one statement. */
const LIMITS = { connections: 4, statementMs: 60_000 };
const holder = randomUUID();

type AnyCalls = Record<string, (...args: unknown[]) => Promise<unknown>>;

async function callsOf(db: SqlDatabase): Promise<{ calls: AnyCalls; release(): Promise<void> }> {
  if (role === "writer") await db.migrate(SHARED_MIGRATIONS, MIGRATIONS_TABLE);
  const nearest = await openPgvector(db);
  const calls =
    role === "writer"
      ? createSharedWriter(db, holder, nearest)
      : createSharedReader(db, holder, nearest);
  return { calls: calls as unknown as AnyCalls, release: () => calls.release() };
}

async function answer(calls: AnyCalls, { id, name, args }: CallMessage): Promise<ReplyMessage> {
  try {
    return { id, ok: true, value: await calls[name]?.(...args) };
  } catch (error) {
    return { id, ok: false, error: errorReply(error) };
  }
}

async function serve(db: SqlDatabase): Promise<void> {
  const { calls, release } = await callsOf(db);
  const running = new Set<Promise<void>>();
  const end = async (): Promise<void> => {
    await Promise.all(running);
    // If the database does not answer, another gateway takes the work over when the lease ends.
    await release().catch(() => undefined);
    await db.close();
    port.close();
  };
  port.on("message", (message: CallMessage) => {
    if (message.name === CLOSE) return void end();
    const one = answer(calls, message).then((reply) => port.postMessage(reply));
    running.add(one);
    void one.finally(() => running.delete(one));
  });
}

try {
  const db = await openSql(sql, { env: process.env, log: createLogger("silent"), ...LIMITS });
  try {
    await serve(db);
  } catch (error) {
    await db.close();
    throw error;
  }
  port.postMessage({ id: 0, ok: true, value: null } satisfies ReplyMessage);
} catch (error) {
  port.postMessage({ id: 0, ok: false, error: errorReply(error) } satisfies ReplyMessage);
}
