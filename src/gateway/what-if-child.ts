/**
 * The main file of a what-if process: it compares what mappings do with recorded events, beside a gateway that answers hooks.
 * It keeps the gateway's config compiled and its connection open between calls. It sends nothing, and reads the store alone.
 */
import { flushCompileCache } from "node:module";
import { constants, setPriority } from "node:os";
import { systemClock } from "../core/clock.ts";
import { RouseError, safeError, type Failure } from "../core/errors.ts";
import type { FileTexts } from "../core/files.ts";
import { createLogger } from "../core/log.ts";
import { NO_NETWORK } from "../core/http/no-network.ts";
import { killGroup } from "../core/process-group.ts";
import { createTransformPool } from "../mapping/transforms/pool.ts";
import { findStoreDriver, storeUrl } from "../store/open.ts";
import type { StoreReader } from "../store/types.ts";
import type { ComparisonDeps } from "../operate/edits/landing-checks.ts";
import { carryOut, type JobLine } from "../operate/what-if/jobs.ts";
import { buildSnapshot, type BuildResult, type LoadedSnapshot } from "./snapshot.ts";
import type { ConfigInUse, WhatIfCall, WhatIfReply } from "./what-if.ts";

type Started = Exclude<WhatIfCall, { stop: true }>;

const log = createLogger("silent");
setPriority(constants.priority.PRIORITY_LOW);
const { env } = process;

interface Built {
  result: BuildResult;
  dispose(): Promise<void>;
}

async function build(
  { cwd, configFile, config, stateDir, hasTerminal }: ConfigInUse,
  texts?: FileTexts,
): Promise<Built> {
  const pool = createTransformPool(env);
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

/** The snapshot of a config, with the number of those who need it: jobs, and the process itself while the gateway uses it. */
interface Kept {
  hash: string;
  built: Promise<Built>;
  users: number;
}

let kept: Kept | undefined;
let connection: { url: string; store: Promise<StoreReader> } | undefined;

function release(one: Kept | undefined): void {
  if (one && --one.users === 0) void one.built.then(({ dispose }) => dispose());
}

/** Runs work with the snapshot that the gateway uses, made by its files. */
async function withInUse(
  inUse: ConfigInUse,
  work: (loaded: LoadedSnapshot) => Promise<void>,
): Promise<void> {
  const { hash } = inUse;
  if (kept?.hash !== hash) {
    release(kept);
    kept = { hash, built: build(inUse), users: 1 };
  }
  const own = kept;
  own.users++;
  try {
    const { result } = await own.built;
    if (result.ok && result.loaded.snapshot.hash === hash) return await work(result.loaded);
    if (kept === own) {
      kept = undefined;
      release(own);
    }
    throw new RouseError({
      code: "conflict",
      message:
        "the config's files are not what the gateway uses: wait until it has read them, or mend their problems",
      ...(!result.ok && { issues: result.issues }),
    });
  } finally {
    release(own);
  }
}

async function disconnect(): Promise<void> {
  const { store } = connection ?? {};
  connection = undefined;
  await (await store)?.close();
}

async function openStore(url: string): Promise<StoreReader> {
  const driver = await findStoreDriver(url);
  return driver.openReader({ url, env, clock: systemClock });
}

async function connect(loaded: LoadedSnapshot): Promise<StoreReader> {
  const url = storeUrl(loaded.snapshot.config.store.url, loaded.stateDir);
  if (connection?.url !== url) {
    void disconnect().catch(() => undefined);
    connection = { url, store: openStore(url) };
  }
  return connection.store;
}

/** Carries out a job on the snapshot in use. `signal` aborts when its answer is not wanted any more. */
async function work(
  { job, inUse, now }: Started,
  loaded: LoadedSnapshot,
  signal: AbortSignal,
  send: (line: JobLine) => void,
): Promise<void> {
  const store = await connect(loaded);
  const events: StoreReader["events"] = {
    ...store.events,
    list(query) {
      signal.throwIfAborted();
      return store.events.list(query);
    },
  };
  const withCandidate: ComparisonDeps["withCandidate"] = async (texts, use) => {
    const { result, dispose } = await build(inUse, texts);
    // Its modules end immediately: a loop of one must not hold back the end of the job.
    const onAbort = (): void => void dispose();
    signal.addEventListener("abort", onAbort);
    try {
      signal.throwIfAborted();
      return await use(result.ok ? { ok: true, snapshot: result.loaded.snapshot } : result);
    } finally {
      signal.removeEventListener("abort", onAbort);
      await dispose();
    }
  };
  const { snapshot } = loaded;
  await carryOut(job, { snapshot, store: { ...store, events }, now, withCandidate }, send);
}

const running = new Map<number, AbortController>();
const reply = (one: WhatIfReply): void =>
  void process.send?.(one, undefined, undefined, () => undefined);

function toFailure(error: unknown): Failure {
  if (!(error instanceof RouseError))
    return { code: "internal", message: `the comparison failed (${safeError(error).name})` };
  const { code, message, issues } = error;
  return { code, message, ...(issues && { issues }) };
}

async function start(call: Started): Promise<void> {
  const { id } = call;
  const ended = new AbortController();
  const { signal } = ended;
  running.set(id, ended);
  try {
    await withInUse(call.inUse, (loaded) =>
      work(call, loaded, signal, (line) => {
        signal.throwIfAborted();
        reply({ id, line });
      }),
    );
  } catch (error) {
    const failure = toFailure(error);
    if (!signal.aborted) reply({ id, line: { type: "error", ...failure } });
    if (running.size === 1 && (failure.code === "internal" || failure.code === "store_unavailable"))
      await disconnect().catch(() => undefined);
  }
  running.delete(id);
  reply({ id, memory: process.memoryUsage.rss() });
  // It ends by a signal, when nothing is written any more.
  flushCompileCache();
}

process.on("message", (call: WhatIfCall) => {
  if ("job" in call) return void start(call);
  running.get(call.id)?.abort();
});

/** Ends with the gateway, and takes the processes of modules along: they are of its process group, and one that loops would stay. */
process.on("disconnect", () => {
  killGroup(process.pid);
  process.exit(0);
});
process.on("unhandledRejection", () => process.exit(1));
