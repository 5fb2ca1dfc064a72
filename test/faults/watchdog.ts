/**
 * Ends the process whose seed takes too long, or writes too much. It runs in a thread of its own, since a program that loops may let
 * the event loop never turn again.
 */
import { writeSync } from "node:fs";
import { isMainThread, parentPort, Worker } from "node:worker_threads";
import { measureFolders, removeFolders } from "./folders.ts";

/** Much longer than a seed takes on a machine that is busy with other things. */
const MAX_MS = 180_000;
/** A log of SQLite that is never restarted has some megabytes after most seeds. */
const MAX_BYTES = 512 * 2 ** 20;
const LOOK_MS = 500;

type Call = { begin: number; replay: string } | { end: number };

export interface Watchdog {
  begin(seed: number, replay: string): void;
  end(seed: number): void;
}

/** Watches this process from now on. */
export function startWatchdog(): Watchdog {
  const worker = new Worker(new URL(import.meta.url));
  worker.unref();
  const call = (message: Call): void => worker.postMessage(message, []);
  return {
    begin: (seed, replay) => call({ begin: seed, replay }),
    end: (seed) => call({ end: seed }),
  };
}

function watch(): void {
  const running = new Map<number, { since: number; replay: string }>();
  parentPort?.on("message", (call: Call) => {
    if ("end" in call) running.delete(call.end);
    else running.set(call.begin, { since: performance.now(), replay: call.replay });
  });
  setInterval(() => {
    const [first] = running;
    if (!first) return;
    const [seed, { since, replay }] = first;
    const ms = performance.now() - since;
    const bytes = measureFolders(process.pid);
    if (ms < MAX_MS && bytes < MAX_BYTES) return;
    const reason =
      bytes < MAX_BYTES
        ? `took more than ${MAX_MS / 1000} s`
        : `has written ${Math.round(bytes / 2 ** 20)} MB in ${(ms / 1000).toFixed(1)} s, more than ${MAX_BYTES / 2 ** 20} MB`;
    // The thread of the event loop would have to take part in any other way to print.
    writeSync(
      2,
      `seed ${seed} ${reason}: the program may be in a loop. The process is ended.\n  replay: ${replay}\n`,
    );
    removeFolders(process.pid);
    process.kill(process.pid, "SIGKILL");
  }, LOOK_MS);
}

if (!isMainThread) watch();
