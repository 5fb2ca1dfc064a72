/**
 * `node --conditions=rouse-source test/faults/run.ts [--seeds 1000] [--from 1] [--seed N] [--fault kill] [--store postgres]`:
 * simulations of seeds, one after the other. With `--seed` the trace of that one is printed. Exits 1 if an invariant is broken.
 */
import { parseArgs } from "node:util";
import { findProblems } from "./invariants.ts";
import { createPlan, type StoreKind } from "./plan.ts";
import { simulate } from "./simulate.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "100" },
    from: { type: "string", default: "1" },
    seed: { type: "string" },
    fault: { type: "string" },
    store: { type: "string", default: "sqlite" },
    errors: { type: "boolean", default: false },
  },
});
// What a killed gateway has begun may reject with nobody left to hear it.
process.on("unhandledRejection", (error) => void (process.env["FAULTS_DEBUG"] && console.error("unhandled", error)));

const store = values.store as StoreKind;
const from = Number(values.seed ?? values.from);
const count = values.seed === undefined ? Number(values.seeds) : 1;
const begun = performance.now();
let broken = 0;
for (let seed = from; seed < from + count; seed++) {
  const plan = createPlan(seed, store, values.fault);
  const outcome = await simulate(plan);
  const problems = findProblems(outcome);
  if (values.seed !== undefined) console.log(outcome.outside.trace.join("\n"));
  if (values.errors) console.log(outcome.errors.join("\n"));
  if (problems.length === 0) continue;
  broken++;
  console.log(`seed ${seed}: ${[...new Set(plan.faults.map(({ kind }) => kind))].join(", ")}\n  ${problems.slice(0, 6).join("\n  ")}${problems.length > 6 ? `\n  and ${problems.length - 6} more` : ""}`);
  console.log(`  replay: node --conditions=rouse-source test/faults/run.ts --store ${store}${values.fault ? ` --fault "${values.fault}"` : ""} --seed ${seed}`);
}
console.log(`${count} seeds in ${((performance.now() - begun) / 1000).toFixed(1)} s, ${broken} broken`);
process.exit(broken > 0 ? 1 : 0);
