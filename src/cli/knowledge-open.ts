import { createReadStream } from "node:fs";
import { Readable, Transform } from "node:stream";
import { systemClock } from "../core/clock.ts";
import { RouseError } from "../core/errors.ts";
import { readProviders } from "../config/providers.ts";
import { BUILTIN_PLUGINS } from "../gateway/snapshot.ts";
import { configuredSearchModels, searchModelIssues } from "../knowledge/configured.ts";
import { createKnowledge } from "../knowledge/knowledge.ts";
import { stageFile } from "../knowledge/upload-staging.ts";
import type {
  DocumentPage,
  DocumentQuery,
  DocumentRecord,
  NewDocument,
  Passage,
  PassagePage,
  PassageQuery,
} from "../knowledge/types.ts";
import { acquireLock, readGateway, type Lock } from "../store/lock.ts";
import { getSqlSource, storeUrl } from "../store/open.ts";
import { connectRunning, read, withId, type GatewayConnection } from "./connect.ts";
import { usage } from "./failure.ts";
import { SYSTEM, type CliIo } from "./io.ts";
import { createCommandLogger } from "./log.ts";
import type { CommonOptions } from "./options.ts";
import { configInvalid, loadSettings, type Settings } from "./settings.ts";
import { findDriver } from "./store-driver.ts";

/** The operator may see and change every document. */
export type Described = Omit<NewDocument, "file" | "sha256" | "bytes" | "access">;

/** The documents as a command needs them: of the gateway that runs, or opened for this command alone. Both answer alike. */
export interface KnowledgeAccess {
  /** @throws RouseError `body_too_large`, `duplicate_document`. */
  addFile(
    file: string,
    described: Described,
    onBytes: (bytes: number) => void,
  ): Promise<{ document: DocumentRecord; duplicate: boolean }>;
  get(tenant: string, id: string): Promise<DocumentRecord | undefined>;
  list(
    tenant: string,
    of: Pick<DocumentQuery, "limit" | "after" | "status"> & { agent?: string },
  ): Promise<DocumentPage>;
  passages(tenant: string, id: string, query: PassageQuery): Promise<PassagePage | undefined>;
  remove(tenant: string, id: string): Promise<boolean>;
  reindex(tenant: string, id: string): Promise<DocumentRecord | undefined>;
  /** The document when it is ready or failed, or after a second or so. */
  wait(tenant: string, id: string): Promise<DocumentRecord | undefined>;
  search(of: { tenant: string; text: string; agent?: string; limit?: number }): Promise<Passage[]>;
  /** Starts the indexing. Returns false if the gateway that has the documents runs without workers. */
  start(): Promise<boolean>;
}

export interface TenantOptions extends CommonOptions {
  tenant: string;
}

export const notFound = (id: string): RouseError =>
  new RouseError({ code: "not_found", message: `there is no document ${id}` });

/**
 * The value of an option that has only a few.
 * @throws RouseError `usage` with those there are.
 */
export function parseChoice<T extends string>(
  option: string,
  value: string,
  allowed: readonly T[],
): T {
  const found = allowed.find((one) => one === value);
  if (found === undefined) throw usage(`${option}: write one of ${allowed.join(", ")}`);
  return found;
}

const WAIT_SECONDS = 1;
/** How long a command waits for another one that holds the state folder. */
const BUSY_MS = 5_000;

/** A file as a stream that says how much of it has gone. */
function readFile(file: string, onBytes: (bytes: number) => void): Transform {
  const counted = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      onBytes(chunk.length);
      done(null, chunk);
    },
  });
  const source = createReadStream(file);
  source.on("error", (error) => counted.destroy(error));
  counted.on("close", () => source.destroy());
  return source.pipe(counted);
}

async function openHere(
  { stateDir, config }: Settings,
  options: CommonOptions,
  io: CliIo,
): Promise<KnowledgeAccess & { close(): Promise<void> }> {
  const kinds = readProviders(BUILTIN_PLUGINS);
  const issues = searchModelIssues(config, kinds);
  if (issues.length > 0) throw configInvalid({ issues });
  const url = storeUrl(config.store.url, stateDir);
  const sql = getSqlSource(await findDriver(url, options, io), url);
  const knowledge = await createKnowledge({
    dir: stateDir,
    env: io.env,
    clock: systemClock,
    log: createCommandLogger(options, io),
    config: config.platform.knowledge,
    sql,
    ...configuredSearchModels({ config, env: io.env, fetch: SYSTEM.fetch, kinds }),
  });
  const agentIds = (agent: string | undefined) =>
    agent === undefined ? {} : { agentIds: [agent] };
  return {
    async addFile(file, described, onBytes) {
      const staged = await stageFile(
        stateDir,
        readFile(file, onBytes),
        config.platform.knowledge.fileMb * 1e6,
      );
      return knowledge.add({ ...described, ...staged });
    },
    get: knowledge.get,
    passages: knowledge.passages,
    list: (tenant, { agent, ...of }) => knowledge.list(tenant, { ...of, ...agentIds(agent) }),
    remove: knowledge.remove,
    reindex: knowledge.reindex,
    wait: (_tenant, id) => knowledge.wait(id, WAIT_SECONDS * 1000),
    search: ({ agent, ...of }) => knowledge.search({ ...of, ...agentIds(agent) }),
    start: () => knowledge.start().then(() => true),
    close: knowledge.close,
  };
}

const orUndefined = (error: unknown): undefined => {
  if (error instanceof RouseError && error.code === "not_found") return undefined;
  throw error;
};

/** The documents of the gateway that runs. */
function throughGateway({ api }: GatewayConnection): KnowledgeAccess {
  const { documents, search } = api.knowledge;
  const one = async (
    answer: Promise<{ json(): Promise<{ document: DocumentRecord }> }>,
  ): Promise<DocumentRecord | undefined> => (await read(answer).catch(orUndefined))?.document;
  return {
    addFile(file, { agentIds = [], metadata, ...described }, onBytes) {
      const query = {
        ...described,
        agent: [...agentIds],
        metadata: metadata && JSON.stringify(metadata),
      };
      const bytes = readFile(file, onBytes);
      const body = Readable.toWeb(bytes) as ReadableStream<Uint8Array>;
      const options = {
        headers: { "content-type": "application/octet-stream" },
        init: { body, duplex: "half" as const },
      };
      return read(documents.$post({ query }, options)).finally(() => bytes.destroy());
    },
    get: (tenant, id) => one(documents[":id"].$get({ ...withId(id), query: { tenant } })),
    list: (tenant, { limit, ...filters }) =>
      read(documents.$get({ query: { tenant, ...filters, limit: limit?.toString() } })),
    passages: (tenant, id, { from, limit }) =>
      read(
        documents[":id"].passages.$get({
          ...withId(id),
          query: { tenant, from: from?.toString(), limit: limit?.toString() },
        }),
      ).catch(orUndefined),
    async remove(tenant, id) {
      const gone = await documents[":id"]
        .$delete({ ...withId(id), query: { tenant } })
        .then(() => true, orUndefined);
      return gone ?? false;
    },
    reindex: (tenant, id) =>
      one(documents[":id"].reindex.$post({ ...withId(id), query: { tenant } })),
    wait: (tenant, id) =>
      one(documents[":id"].$get({ ...withId(id), query: { tenant, wait: String(WAIT_SECONDS) } })),
    search: async (json) => (await read(search.$post({ json }))).passages,
    start: async () => (await read(api.status.$get())).status.workers,
  };
}

/** Takes the state folder, or finds the gateway that has it. Another command has it only for a while. */
async function lockOrGateway(
  settings: Settings,
  options: CommonOptions,
  io: CliIo,
): Promise<Lock | GatewayConnection> {
  const until = io.now() + BUSY_MS;
  for (;;) {
    if (readGateway(settings.stateDir)?.adminUrl !== undefined) {
      const to = await connectRunning(options, io);
      if (to) return to;
    }
    try {
      return await acquireLock(settings.stateDir);
    } catch (error) {
      if (!(error instanceof RouseError) || error.code !== "store_locked" || io.now() > until)
        throw error;
      await new Promise((done) => setTimeout(done, 100));
    }
  }
}

/**
 * Works with the documents of the config's state folder, through the gateway where one runs on it.
 * @throws RouseError `config_invalid`, or `store_locked` while another command holds the state folder for long.
 */
export async function withKnowledge<T>(
  options: CommonOptions,
  io: CliIo,
  work: (knowledge: KnowledgeAccess) => Promise<T>,
): Promise<T> {
  const running = await connectRunning(options, io);
  if (running) return work(throughGateway(running));
  const settings = await loadSettings(options, io);
  const held = await lockOrGateway(settings, options, io);
  await using opened = new AsyncDisposableStack();
  if ("api" in held) {
    opened.defer(() => held.close());
    return await work(throughGateway(held));
  }
  opened.defer(() => held.release());
  const knowledge = await openHere(settings, options, io);
  opened.defer(() => knowledge.close());
  // The stack is closed when this has ended.
  return await work(knowledge);
}
