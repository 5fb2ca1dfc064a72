/**
 * The main file of a what-if process: it compares what mappings do with recorded events, beside a gateway that answers hooks.
 * It keeps the gateway's config compiled and its connection open between calls. It sends nothing, and reads the store alone.
 */
import { flushCompileCache } from "node:module";
import { systemClock } from "../core/clock.ts";
import { RouseError, safeError, type Failure } from "../core/errors.ts";
import type { FileTexts } from "../core/files.ts";
import { createLogger } from "../core/log.ts";
import { NO_NETWORK } from "../core/http/no-network.ts";
import { killGroup } from "../core/process-group.ts";
import { stepBack } from "../core/step-back.ts";
import { createTransformPool } from "../mapping/transforms/pool.ts";
import { findStoreDriver, storeUrl } from "../store/open.ts";
import type { Snapshot } from "../intake/types.ts";
import type { Reads, StoreReader } from "../store/types.ts";
import { examineChange } from "../operate/edits/landing.ts";
import { requireSnapshot, type ComparisonDeps } from "../operate/edits/landing-checks.ts";
import { planChange } from "../operate/edits/planned-change.ts";
import { toTexts } from "../operate/edits/user-files.ts";
import { readEvents } from "../operate/what-if/selection.ts";
import { evaluateText } from "../operate/edits/text-evaluation.ts";
import { whatIf } from "../operate/what-if/what-if.ts";
import { buildSnapshot, type BuildResult, type LoadedSnapshot } from "./snapshot.ts";
import type { ConfigInUse, JobLine, WhatIfCall, WhatIfJob, WhatIfReply } from "./what-if.ts";

type Started = Extract<WhatIfCall, { job: WhatIfJob }>;

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

type Send = (line: JobLine) => void;

/** What the work of a job needs. `signal` aborts when its answer is not wanted any more. */
interface Deps {
  snapshot: Snapshot;
  store: Reads;
  now: number;
  signal: AbortSignal;
  withCandidate: ComparisonDeps["withCandidate"];
}

async function compare(
  { change: wanted, selection }: Extract<WhatIfJob, { kind: "compare" }>,
  { snapshot, store, now, withCandidate }: Deps,
  send: Send,
): Promise<void> {
  const { change } = planChange(wanted, snapshot);
  await withCandidate(toTexts(change), async (found) => {
    const after = requireSnapshot(found, "the config has problems with this change");
    const options = {
      period: { from: selection.since, to: now },
      store,
      repeats: selection.events !== undefined,
    };
    const events = readEvents(store, selection);
    for await (const line of whatIf(snapshot, after, events, options)) send(line);
  });
}

async function examine(
  { change, options }: Extract<WhatIfJob, { kind: "examine" }>,
  deps: Deps,
  send: Send,
): Promise<void> {
  const { snapshot, store, now } = deps;
  const examined = await examineChange(change, options, {
    ...deps,
    snapshot: () => snapshot,
    withStore: (use) => use(store),
    now: () => now,
  });
  send({ type: "examined", ...examined });
}

async function evaluate(
  { change, event: id }: Extract<WhatIfJob, { kind: "evaluate" }>,
  deps: Deps,
  send: Send,
): Promise<void> {
  const events = id === undefined ? [] : [id];
  const { value: event } = await readEvents(deps.store, { last: 1, events }).next();
  const evaluation = await evaluateText(change, event ?? undefined, deps);
  send({ type: "evaluated", ...evaluation });
}

async function carryOut(
  { job, inUse, now }: Started,
  loaded: LoadedSnapshot,
  signal: AbortSignal,
  send: Send,
): Promise<void> {
  const { snapshot } = loaded;
  const store = await connect(loaded);
  const deps: Deps = {
    snapshot,
    store: {
      ...store,
      events: {
        ...store.events,
        list(query) {
          signal.throwIfAborted();
          trim();
          return store.events.list(query);
        },
      },
    },
    now,
    signal,
    async withCandidate(texts, use) {
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
    },
  };
  if (job.kind === "evaluate") return evaluate(job, deps, send);
  return job.kind === "compare" ? compare(job, deps, send) : examine(job, deps, send);
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
      carryOut(call, loaded, signal, (line) => {
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
  trim();
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
