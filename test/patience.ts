import { enableCompileCache } from "node:module";
import { resolve } from "node:path";
import fc from "fast-check";
import { vi } from "vitest";

// As `bin/rouse.js` does: a child that starts without compiled code takes three times as long.
process.env["NODE_COMPILE_CACHE"] ??= resolve(import.meta.dirname, "../node_modules/.cache/rouse");
enableCompileCache(process.env["NODE_COMPILE_CACHE"]);

/**
 * Generated inputs are the same in each run, so that a change fails by what it does. The nightly run has another seed each night;
 * a failure prints its counterexample.
 */
fc.configureGlobal({ seed: Number(process.env["TEST_SEED"] ?? 1) });

/**
 * The least time that a test waits for something, in milliseconds. Vitest's own second is less than one request may take on a
 * machine whose cores are all busy. A check that holds earlier ends the wait. Speed is measured by the benchmarks.
 */
const PATIENCE_MS = 60_000;

type WaitFor = typeof vi.waitFor;
const PATCHED = Symbol.for("rouse.patience");
const original = vi.waitFor as WaitFor & { [PATCHED]?: true };

// Files of tests share a process: once is enough.
if (!original[PATCHED]) {
  const waitFor: WaitFor = (check, options = {}) => {
    const given = typeof options === "number" ? { timeout: options } : options;
    return original(check, { ...given, timeout: Math.max(given.timeout ?? 0, PATIENCE_MS) });
  };
  vi.waitFor = Object.assign(waitFor, { [PATCHED]: true as const });
}
