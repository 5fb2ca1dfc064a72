/**
 * The main file of a what-if process: it compares what mappings do with recorded events, beside a gateway that answers hooks.
 * It keeps the gateway's config compiled and its connection open between calls. It sends nothing, and reads the store alone.
 */
import { flushCompileCache } from "node:module";
import { systemClock } from "../core/clock.ts";
import { RouseError, safeError, type Failure } from "../core/errors.ts";
import type { FileTexts } from "../core/files.ts";
import { createLogger } from "../core/log.ts";
import { NO_NETWORK } from "../core/no-network.ts";
import { killGroup } from "../core/process-group.ts";
import { stepBack } from "../core/step-back.ts";
import { createTransformPool } from "../mapping/transform-pool.ts";
import { findStoreDriver, storeUrl } from "../store/open.ts";
import type { StoreReader } from "../store/types.ts";
import { runJob, type JobLine } from "../workbench/what-if-job.ts";
import { buildSnapshot, type BuildResult, type LoadedSnapshot } from "./snapshot.ts";
import type { ConfigInUse, WhatIfCall, WhatIfReply } from "./what-if-messages.ts";

type Start = Extract<WhatIfCall, { kind: "start" }>;

const log = createLogger("silent");
const trim = stepBack();
const { env } = process;

interface Built {
  result: BuildResult;
  dispose(): Promise<void>;
}

async function build(
  { cwd, configFile, config, stateDir, hasTerminal }: ConfigInUse,
  texts?: FileTexts,
): Promise<Built> {
  const pool = createTransformPool({ log, env });
  const files = {
    ...(configFile !== undefined && { configFile }),
    ...(config && { config }),
    ...(texts && { texts }),
  };
  const base = { cwd, env, stateDir, clock: systemClock, fetch: NO_NETWORK, log, pool };
  const result = await buildSnapshot({
    ...base,
    ...files,
    ...(hasTerminal && { print: () => undefined }),
  });
  return {
    result,
    dispose: async () =>
      void (await Promise.all([pool.close(), result.ok && result.loaded.dispose()])),
  };
}

/** The snapshot that the gateway uses, made by its files. */
let kept: { loaded: LoadedSnapshot; dispose(): Promise<void> } | undefined;
let connection: { url: string; store: StoreReader } | undefined;

async function getInUse(inUse: ConfigInUse): Promise<LoadedSnapshot> {
  if (kept?.loaded.snapshot.hash === inUse.hash) return kept.loaded;
  void kept?.dispose();
  kept = undefined;
  const { result, dispose } = await build(inUse);
  if (result.ok && result.loaded.snapshot.hash === inUse.hash) {
    kept = { loaded: result.loaded, dispose };
    return result.loaded;
  }
  await dispose();
  const message =
    "the config's files are not what the gateway uses: wait until it has read them, or mend their problems";
  throw new RouseError({ code: "conflict", message, ...(!result.ok && { issues: result.issues }) });
}

async function disconnect(): Promise<void> {
  const { store } = connection ?? {};
  connection = undefined;
  await store?.close();
}

async function connect({ snapshot, stateDir }: LoadedSnapshot): Promise<StoreReader> {
  const url = storeUrl(snapshot.config.store.url, stateDir);
  if (connection?.url === url) return connection.store;
  await disconnect();
  const drivers = snapshot.offers.stores.map(({ value }) => value);
  const { openReader } = await findStoreDriver(url, drivers);
  if (!openReader) {
    const message = "the store cannot be read by a second process: its plugin has no `openReader`";
    throw new RouseError({ code: "what_if_unavailable", message });
  }
  const store = await openReader({ url, env, clock: systemClock });
  connection = { url, store };
  return store;
}

/** A job that is under way. */
interface Running {
  ended: AbortController;
  /** Resolves the wait for the gateway to want the next line. */
  next?: () => void;
}

const running = new Map<number, Running>();
const send = (reply: WhatIfReply): void =>
  void process.send?.(reply, undefined, undefined, () => undefined);

function toFailure(error: unknown): Failure {
  if (!(error instanceof RouseError))
    return { code: "internal", message: `the comparison failed (${safeError(error).name})` };
  const { code, message, issues } = error;
  return { code, message, ...(issues && { issues }) };
}

async function carryOut({ id, job, inUse, now }: Start, current: Running): Promise<void> {
  const { signal } = current.ended;
  const loaded = await getInUse(inUse);
  const { snapshot } = loaded;
  const store = await connect(loaded);
  const sendLine = async (line: JobLine): Promise<void> => {
    signal.throwIfAborted();
    const asked = new Promise<void>((resolve) => (current.next = resolve));
    send({ kind: "line", id, line });
    await asked;
    signal.throwIfAborted();
  };
  const deps = {
    snapshot,
    places: () => ({
      mappingsDir: snapshot.config.hooks.mappingsDir,
      configFile: snapshot.configFile,
      stateDir: loaded.stateDir,
    }),
    store: {
      list: ((name, query) => {
        trim();
        return store.list(name, query);
      }) as StoreReader["list"],
    },
    signal,
    now: () => now,
    async withCandidate<T>(
      texts: FileTexts,
      use: (
        found: { ok: true; snapshot: typeof snapshot } | Extract<BuildResult, { ok: false }>,
      ) => Promise<T>,
    ) {
      const { result, dispose } = await build(inUse, texts);
      // Its modules end immediately: a loop of one must not hold back the next call.
      const onAbort = (): void => void dispose();
      signal.addEventListener("abort", onAbort);
      try {
        signal.throwIfAborted();
        return await use(result.ok ? { ok: true, snapshot: result.loaded.snapshot } : result);
      } finally {
        signal.removeEventListener("abort", onAbort);
        await dispose();
      }
    },
  };
  await runJob(job, deps, sendLine);
}

async function start(call: Start): Promise<void> {
  const current: Running = { ended: new AbortController() };
  const { signal } = current.ended;
  running.set(call.id, current);
  let failure: Failure | undefined;
  try {
    await carryOut(call, current);
  } catch (error) {
    if (!signal.aborted) failure = toFailure(error);
    if (failure?.code === "internal" || failure?.code === "store_unavailable")
      await disconnect().catch(() => undefined);
  }
  running.delete(call.id);
  trim();
  send({
    kind: "ended",
    id: call.id,
    memory: process.memoryUsage.rss(),
    ...(failure && { failure }),
  });
  // It ends by a signal, when nothing is written any more.
  flushCompileCache();
}

process.on("message", (call: WhatIfCall) => {
  if (call.kind === "start") return void start(call);
  const current = running.get(call.id);
  if (call.kind === "stop") current?.ended.abort();
  current?.next?.();
});

/** Ends with the gateway, and takes the processes of modules along: they are of its process group, and one that loops would stay. */
process.on("disconnect", () => {
  killGroup(process.pid);
  process.exit(0);
});
process.on("unhandledRejection", () => process.exit(1));
