/**
 * `node --conditions=rouse-source test/faults/run.ts [--seeds 1000] [--from 1] [--seed N] [--fault kill]`:
 * runs seeds, and prints those that break an invariant. `--known` runs the seeds of `known-seeds.ts`. With `--seed` or `--trace`
 * traces are printed too, with `--errors` what its gateways logged. Exits with 1 if an invariant is broken.
 */
import { parseArgs } from "node:util";
import { removeFolders, removeLeftFolders } from "./folders.ts";
import { KNOWN_SEEDS } from "./known-seeds.ts";
import { renderFailure, runSeeds, type Failure } from "./seeds.ts";
import type { Outcome } from "./simulate.ts";
import { startWatchdog } from "./watchdog.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "100" },
    from: { type: "string", default: "1" },
    seed: { type: "string" },
    fault: { type: "string" },
    trace: { type: "boolean", default: false },
    errors: { type: "boolean", default: false },
    first: { type: "boolean", default: false },
    known: { type: "boolean", default: false },
  },
});
// A killed gateway may leave promises that reject without a handler.
process.on("unhandledRejection", () => undefined);
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
  process.once(signal, () => {
    removeFolders(process.pid);
    process.exit(1);
  });
removeLeftFolders();
const watchdog = startWatchdog();

const count = values.seed === undefined ? Number(values.seeds) : 1;
if (!Number.isInteger(count) || count < 1)
  throw new Error(`--seeds is a number of seeds, such as 1000, and not "${values.seeds}"`);
const begun = performance.now();
let done = 0;
const given = { from: Number(values.seed ?? values.from), count, fault: values.fault };
const ranges = values.known
  ? KNOWN_SEEDS.map(({ seed, fault }) => ({ from: seed, count: 1, fault }))
  : [given];
const options = {
  first: values.first,
  onBegin: watchdog.begin,
  // At once: the watchdog may end the process at a later seed.
  onFailure: (failure: Failure) => console.log(renderFailure(failure)),
  onEnd({ plan, outside, errors }: Outcome) {
    watchdog.end(plan.seed);
    done++;
    if (values.seed !== undefined || values.trace) console.log(outside.trace.join("\n"));
    if (values.errors) console.log(errors.join("\n"));
    if (process.stderr.isTTY) process.stderr.write(`\r${done}`);
  },
};
const failures: Failure[] = [];
for (const range of ranges) failures.push(...(await runSeeds({ ...options, ...range })));
console.log(
  `${done} seeds in ${((performance.now() - begun) / 1000).toFixed(1)} s, ${failures.length} with a broken invariant`,
);
process.exit(failures.length > 0 ? 1 : 0);
