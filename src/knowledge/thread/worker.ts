/**
 * The main file of the thread that has the documents open: neither a search nor an indexing holds up the event loop. Calls run at
 * the same time; what must not is decided by the catalog, for all gateways. What reads has a connection of its own, which sees
 * nothing of transactions that are under way.
 */
import { randomUUID } from "node:crypto";
import { parentPort, workerData, type MessagePort } from "node:worker_threads";
import { openCatalog } from "../catalog/catalog.ts";
import { createWriter } from "../catalog/writer.ts";
import { createReader } from "../index/reader.ts";
import {
  CLOSE,
  errorReply,
  type Calls,
  type CallMessage,
  type ReplyMessage,
  type WorkerSettings,
} from "./protocol.ts";

const settings = workerData as WorkerSettings;
const port = parentPort as MessagePort;
/** With one name for all processes, work that a killed process had taken from its own file is taken up immediately. */
const holder = settings.sql ? randomUUID() : "this";

async function answer(calls: Calls, { id, name, args }: CallMessage): Promise<ReplyMessage> {
  try {
    const call = calls[name as keyof Calls] as (...args: unknown[]) => Promise<unknown>;
    return { id, ok: true, value: await call(...args) };
  } catch (error) {
    return { id, ok: false, error: errorReply(error) };
  }
}

async function serve(): Promise<void> {
  const written = await openCatalog(settings, true);
  const read = await openCatalog(settings, false);
  const reader = await createReader(read, settings.index);
  let isClosing = false;
  const writer = createWriter(written, holder, () => isClosing);
  const calls: Calls = { ...writer, ...reader };
  const running = new Set<Promise<void>>();
  const close = async (): Promise<void> => {
    isClosing = true;
    await Promise.all(running);
    // If the database does not answer, another gateway takes the work over when the lease ends.
    await calls.release().catch(() => undefined);
    reader.close();
    await Promise.all([written.close(), read.close()]);
    port.close();
  };
  port.on("message", (message: CallMessage) => {
    if (message.name === CLOSE) return void close();
    const one = answer(calls, message).then((reply) => port.postMessage(reply));
    running.add(one);
    void one.finally(() => running.delete(one));
  });
}

try {
  await serve();
  port.postMessage({ id: 0, ok: true, value: null } satisfies ReplyMessage);
} catch (error) {
  port.postMessage({ id: 0, ok: false, error: errorReply(error) } satisfies ReplyMessage);
}
