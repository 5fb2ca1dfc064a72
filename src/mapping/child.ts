/**
 * The main file of a transform child: runs one call after the other. Whatever a module does here (loops, allocates,
 * exits, rejects later) ends at most this process.
 */
import { Worker } from "node:worker_threads";
import { importUserModule } from "../plugin/resolve.ts";
import { captureConsole, describeThrown } from "./debug.ts";
import { evaluateOutside } from "./expression.ts";
import { READY, type Call, type Reply } from "./pool.ts";

/** Memory of this process, buffers and all: the heap has a limit of its own, buffers lie outside it. */
const MAX_MEMORY = 768 * 2 ** 20;
const LOOK_MS = 20;
/** What a module may give, as JSON: the gateway takes it apart in its own process. */
const MAX_RESULT_CHARS = 8_000_000;

// A promise that nobody waits for any more harms no other call.
process.on("unhandledRejection", () => undefined);
process.on("uncaughtException", () => undefined);
process.on("disconnect", () => process.exit(0));
// A thread of its own: it looks while a module keeps this one busy.
const watch = `setInterval(() => process.memoryUsage.rss() > ${MAX_MEMORY} && process.kill(process.pid, "SIGKILL"), ${LOOK_MS})`;
new Worker(watch, { eval: true, execArgv: [], stdin: false }).unref();

const loaded = new Map<string, Promise<Record<string, unknown>>>();
async function importModule(file: string): Promise<Record<string, unknown>> {
  const { module } = await importUserModule(file);
  if (module.ok) return module.exports;
  throw module.error;
}

/** One import for each version of a file: a call that finds it there looks at no file. */
function load(file: string, version: string): Promise<Record<string, unknown>> {
  const key = `${file}?${version}`;
  const known = loaded.get(key);
  if (known) return known;
  const module = importModule(file);
  loaded.set(key, module);
  module.catch(() => loaded.delete(key));
  return module;
}

function functionOf(module: Record<string, unknown>, name: string | undefined): ((input: unknown) => unknown) | undefined {
  const nested = module["default"];
  // A CommonJS module's exports are the default export of its namespace.
  const inner = typeof nested === "object" && nested !== null ? (nested as Record<string, unknown>) : {};
  const candidates = name === undefined ? [nested, inner["default"], module["transform"], inner["transform"]] : [module[name], inner[name]];
  return candidates.find((candidate) => typeof candidate === "function") as ((input: unknown) => unknown) | undefined;
}

async function answer(call: Call): Promise<Reply> {
  if (call.kind === "jsonata") {
    const result = await evaluateOutside(call.source, call.input, call.now, call.timeoutMs);
    return result.ok
      ? { id: call.id, ok: true, value: result.value }
      : { id: call.id, ok: false, reason: "expression", message: result.message, ...(result.error ? { error: result.error } : {}) };
  }
  let module: Record<string, unknown>;
  try {
    module = await load(call.file, call.version);
  } catch (error) {
    return { id: call.id, ok: false, reason: "load", thrown: describeThrown(error) };
  }
  const transform = functionOf(module, call.exportName);
  if (!transform) return { id: call.id, ok: false, reason: "no_function" };
  if (call.kind === "check") return { id: call.id, ok: true, value: null };
  try {
    const value = await transform(call.input);
    // Through JSON, so that what cannot be sent is found here, in this call.
    const text = JSON.stringify(value) as string | undefined;
    if (text !== undefined && text.length > MAX_RESULT_CHARS) return { id: call.id, ok: false, reason: "too_large" };
    return { id: call.id, ok: true, value: text === undefined ? null : (JSON.parse(text) as unknown) };
  } catch (error) {
    return { id: call.id, ok: false, reason: "threw", thrown: describeThrown(error) };
  }
}

const withConsole = captureConsole((message) => process.send?.(message));

let last: Promise<unknown> = Promise.resolve();
process.on("message", (call: Call) => {
  last = last.then(async () => process.send?.(await withConsole(call.id, () => answer(call))));
});
process.send?.({ id: READY });
