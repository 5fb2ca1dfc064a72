/**
 * The main file of the threads that have the documents open: one writes, one reads and searches, so that neither a search nor
 * an indexing holds up the event loop. Calls run at the same time; what must not is decided by the catalog, for all gateways.
 */
import { randomUUID } from "node:crypto";
import { parentPort, workerData, type MessagePort } from "node:worker_threads";
import { openCatalog, type DocumentCatalog } from "../catalog/catalog.ts";
import { createWriter } from "../catalog/writer.ts";
import { createReader } from "../index/reader.ts";
import {
  CLOSE,
  errorReply,
  type CallMessage,
  type ReplyMessage,
  type WorkerSettings,
} from "./protocol.ts";

const settings = workerData as WorkerSettings;
const port = parentPort as MessagePort;
/** What a killed process had taken from its own file is taken up immediately. */
const holder = settings.sql ? randomUUID() : "this";

interface Opened {
  calls: Record<string, (...args: unknown[]) => Promise<unknown>>;
  end(): Promise<void>;
}

async function open(catalog: DocumentCatalog): Promise<Opened> {
  if (settings.role === "reader") {
    const { close, ...calls } = await createReader(catalog, settings.index);
    return { calls: calls as unknown as Opened["calls"], end: async () => close() };
  }
  const calls = createWriter(catalog, holder);
  // If the database does not answer, another gateway takes the work over when the lease ends.
  const end = (): Promise<void> => calls.release().catch(() => undefined);
  return { calls: calls as unknown as Opened["calls"], end };
}

async function answer(
  calls: Opened["calls"],
  { id, name, args }: CallMessage,
): Promise<ReplyMessage> {
  try {
    return { id, ok: true, value: await calls[name]?.(...args) };
  } catch (error) {
    return { id, ok: false, error: errorReply(error) };
  }
}

function serve(catalog: DocumentCatalog, { calls, end }: Opened): void {
  const running = new Set<Promise<void>>();
  const close = async (): Promise<void> => {
    await Promise.all(running);
    await end();
    await catalog.close();
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
  const catalog = await openCatalog(settings, settings.role === "writer");
  try {
    serve(catalog, await open(catalog));
  } catch (error) {
    await catalog.close();
    throw error;
  }
  port.postMessage({ id: 0, ok: true, value: null } satisfies ReplyMessage);
} catch (error) {
  port.postMessage({ id: 0, ok: false, error: errorReply(error) } satisfies ReplyMessage);
}
