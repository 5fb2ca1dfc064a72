/**
 * `node --conditions=rouse-source test/faults/mutants.ts [name …]`: takes each fix of `mutant-list.ts` back in a copy of the program,
 * and shows what finds it: seeds, or a test. Prints a table. Exits with 1 if a mutant lives.
 */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { MUTANTS, type Mutant, type SeedCheck, type TestCheck } from "./mutant-list.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const COPIED = [
  "bin",
  "src",
  "plugins",
  "mappings",
  "transforms",
  "bench",
  "test",
  "package.json",
  "vitest.config.ts",
  "tsconfig.json",
];
const NODE = ["--conditions=rouse-source", "--disable-warning=ExperimentalWarning"];
const TIMEOUT_MS = 600_000;
const LOOP = "a program that loops";
/** On PostgreSQL time is real: a busy machine does this as well. */
const BY_LOAD = ["senders are answered in time", LOOP];

interface Verdict {
  /** `FAILS WITHOUT IT`: the test does not pass for the program itself, so that it says nothing. */
  verdict: "found" | "LIVES" | "DOES NOT APPLY" | "FAILS WITHOUT IT";
  by: string;
  seeds: string;
}

function runSeeds(
  cwd: string,
  { fault, store }: SeedCheck,
  from: number,
  count: number,
): { seed: number; by: string } | undefined {
  const chosen = [
    ...(fault === undefined ? [] : ["--fault", fault]),
    ...(store ? ["--store", store] : []),
  ];
  const args = [
    ...NODE,
    "test/faults/run.ts",
    "--first",
    "--from",
    String(from),
    "--seeds",
    String(count),
    ...chosen,
  ];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd,
    encoding: "utf8",
    timeout: TIMEOUT_MS,
  });
  const [, ended] = /^seed (\d+) (?:took|has written)/m.exec(stderr) ?? [];
  if (ended !== undefined) return { seed: Number(ended), by: LOOP };
  // Whatever else ends a simulation finds nothing.
  if (!stdout.includes("with a broken invariant")) throw new Error(stderr.slice(0, 2000));
  if (status === 0) return undefined;
  const [, seed, invariant] = /^seed (\d+).*\n {2}([^:]+):/m.exec(stdout) ?? [];
  return { seed: Number(seed), by: invariant ?? "" };
}

/** A seed that the program itself fails says nothing about the mutant. */
function trySeeds(dir: string, check: SeedCheck): Verdict {
  const { seeds, fault, store } = check;
  const drawn = `${fault ?? "all faults"}${store ? ` on ${store}` : ""}`;
  for (let from = 1; from <= seeds;) {
    const found = runSeeds(dir, check, from, seeds - from + 1);
    if (!found) break;
    const isLoad = store === "postgres" && BY_LOAD.includes(found.by);
    if (!isLoad && !runSeeds(ROOT, check, found.seed, 1))
      return { verdict: "found", by: `seeds of ${drawn}: ${found.by}`, seeds: String(found.seed) };
    from = found.seed + 1;
  }
  return { verdict: "LIVES", by: `seeds of ${drawn}`, seeds: `> ${seeds}` };
}

function tryTest(dir: string, { test, only }: TestCheck): Verdict {
  const project = test.endsWith(".soak.test.ts") ? "soak" : "tests";
  const args = ["node_modules/vitest/vitest.mjs", "run", "--project", project, test, "-t", only];
  const run = (cwd: string): string => {
    const env = { ...process.env, NO_COLOR: "1", FORCE_COLOR: "0" };
    const { stdout, stderr } = spawnSync(process.execPath, args, {
      cwd,
      env,
      encoding: "utf8",
      timeout: TIMEOUT_MS,
    });
    return stdout + stderr;
  };
  const failed = /Tests {2}.*\d+ failed/;
  const own = run(ROOT);
  const by = `${test}: ${only}`;
  if (failed.test(own) || !/Tests {2}.*\d+ passed/.test(own))
    return { verdict: "FAILS WITHOUT IT", by, seeds: "-" };
  return { verdict: failed.test(run(dir)) ? "found" : "LIVES", by, seeds: "-" };
}

function tryMutant({ changes, check }: Mutant): Verdict {
  const dir = mkdtempSync(join(tmpdir(), "rouse-mutant-"));
  try {
    for (const name of COPIED) cpSync(join(ROOT, name), join(dir, name), { recursive: true });
    symlinkSync(join(ROOT, "node_modules"), join(dir, "node_modules"));
    for (const { file, from, to } of changes) {
      const path = join(dir, file);
      const text = readFileSync(path, "utf8");
      if (!text.includes(from))
        return {
          verdict: "DOES NOT APPLY",
          by: `${file} has no ${JSON.stringify(from)}`,
          seeds: "-",
        };
      writeFileSync(
        path,
        text.replace(from, () => to),
      );
    }
    return "test" in check ? tryTest(dir, check) : trySeeds(dir, check);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

const names = process.argv.slice(2);
let left = 0;
console.log("| mutant | verdict | what found it | seeds needed |\n| --- | --- | --- | --- |");
for (const mutant of MUTANTS.filter(
  ({ name }) => names.length === 0 || names.some((wanted) => name.includes(wanted)),
)) {
  const { verdict, by, seeds } = tryMutant(mutant);
  if (verdict !== "found") left++;
  console.log(`| ${mutant.name} | ${verdict} | ${by} | ${seeds} |`);
}
process.exit(left > 0 ? 1 : 0);
