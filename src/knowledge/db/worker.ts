/**
 * The main file of the threads that have the database open: one writes, one reads, so that neither a search nor an
 * indexing waits for the other or holds up the event loop. Calls that have arrived together share one transaction.
 */
import { DatabaseSync } from "node:sqlite";
import {
  parentPort,
  receiveMessageOnPort,
  workerData,
  type MessagePort,
} from "node:worker_threads";
import { Statements } from "../../store/sqlite/statements.ts";
import {
  CLOSE,
  type CallMessage,
  type ReplyMessage,
  type WorkerSettings,
  errorReply,
} from "./protocol.ts";
import { createReader } from "./reader.ts";
import { prepareKnowledge } from "./schema.ts";
import { createWriter } from "./writer.ts";

const { role, database, files, now } = workerData as WorkerSettings;
const port = parentPort as MessagePort;
/** What a transaction takes together: an answer waits for all of it. */
const TOGETHER = 32;
const READER_CACHE =
  "PRAGMA cache_size=-64000; PRAGMA mmap_size=268435456; PRAGMA query_only=1; PRAGMA busy_timeout=5000;";

type AnyCalls = Record<string, (...args: unknown[]) => unknown>;

function run(calls: AnyCalls, { id, name, args }: CallMessage): ReplyMessage {
  try {
    return { id, ok: true, value: calls[name]?.(...args) };
  } catch (error) {
    return { id, ok: false, error: errorReply(error) };
  }
}

const isPart = (message: CallMessage | undefined): boolean => message?.name === "indexPart";

function end(db: DatabaseSync): void {
  db.close();
  port.close();
}

function read(db: DatabaseSync): void {
  db.exec(READER_CACHE);
  const calls = createReader(new Statements(db)) as unknown as AnyCalls;
  port.on("message", (message: CallMessage) =>
    message.name === CLOSE ? end(db) : port.postMessage(run(calls, message)),
  );
}

function write(db: DatabaseSync): void {
  const { calls, beforeCommit, afterCommit } = createWriter(new Statements(db), files);
  const all = calls as unknown as AnyCalls;

  const runInside = (messages: readonly CallMessage[]): ReplyMessage[] => {
    db.exec("SAVEPOINT one");
    const replies = messages.map((message) => run(all, message));
    const isDone = replies.every(({ ok }) => ok);
    if (!isDone) db.exec("ROLLBACK TO one");
    db.exec("RELEASE one");
    return isDone || messages.length === 1
      ? replies
      : messages.flatMap((message) => runInside([message]));
  };

  /** Parts of documents that follow each other share a savepoint: FTS5 writes all that it has in memory at each. */
  const runAll = (messages: readonly CallMessage[]): ReplyMessage[] => {
    const replies: ReplyMessage[] = [];
    for (let from = 0, to = 1; from < messages.length; from = to++) {
      while (isPart(messages[from]) && isPart(messages[to])) to++;
      replies.push(...runInside(messages.slice(from, to)));
    }
    return replies;
  };

  const commit = (messages: CallMessage[]): void => {
    let replies: ReplyMessage[];
    try {
      db.exec("BEGIN IMMEDIATE");
      replies = runAll(messages);
      beforeCommit();
      db.exec("COMMIT");
      afterCommit();
    } catch (error) {
      if (db.isTransaction) db.exec("ROLLBACK");
      replies = messages.map(({ id }) => ({ id, ok: false, error: errorReply(error) }));
    }
    for (const reply of replies) port.postMessage(reply);
  };

  port.on("message", (first: CallMessage) => {
    const messages = [first];
    for (
      let next;
      first.name !== CLOSE && messages.length < TOGETHER && (next = receiveMessageOnPort(port));
    )
      messages.push(next.message as CallMessage);
    const work = messages.filter(({ name }) => name !== CLOSE);
    if (work.length > 0) commit(work);
    if (work.length < messages.length) end(db);
  });
}

try {
  const db = new DatabaseSync(database);
  if (role === "writer") prepareKnowledge(db, now);
  if (role === "writer") write(db);
  else read(db);
  port.postMessage({ id: 0, ok: true, value: null } satisfies ReplyMessage);
} catch (error) {
  port.postMessage({ id: 0, ok: false, error: errorReply(error) } satisfies ReplyMessage);
}
