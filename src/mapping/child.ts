/**
 * The main file of a transform child: runs one call after the other. Whatever a module does here (loops, allocates,
 * exits, rejects later) ends at most this process.
 */
import { importUserModule } from "../plugin/resolve.ts";
import { evaluateOutside } from "./expression.ts";
import type { Call, Reply } from "./pool.ts";

// A promise that nobody waits for any more harms no other call.
process.on("unhandledRejection", () => undefined);
process.on("uncaughtException", () => undefined);
process.on("disconnect", () => process.exit(0));

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
      : { id: call.id, ok: false, reason: "expression", message: result.message };
  }
  let module: Record<string, unknown>;
  try {
    module = await load(call.file, call.version);
  } catch {
    return { id: call.id, ok: false, reason: "load" };
  }
  const transform = functionOf(module, call.exportName);
  if (!transform) return { id: call.id, ok: false, reason: "no_function" };
  try {
    const value = await transform(call.input);
    // Through JSON, so that what cannot be sent is found here, in this call.
    return { id: call.id, ok: true, value: value === undefined ? null : (JSON.parse(JSON.stringify(value)) as unknown) };
  } catch {
    return { id: call.id, ok: false, reason: "threw" };
  }
}

let last: Promise<unknown> = Promise.resolve();
process.on("message", (call: Call) => {
  last = last.then(async () => process.send?.(await answer(call)));
});
