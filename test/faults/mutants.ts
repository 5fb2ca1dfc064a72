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

interface Verdict {
  /** `FAILS WITHOUT IT`: the seed or the test does not pass for the program itself, so that it says nothing. */
  verdict: "found" | "LIVES" | "DOES NOT APPLY" | "FAILS WITHOUT IT";
  by: string;
}

/** Runs a seed. Returns what it breaks; undefined if nothing. */
function runSeed(cwd: string, { fault, seed }: SeedCheck): string | undefined {
  const args = [
    ...NODE,
    "test/faults/run.ts",
    "--from",
    `${seed}`,
    "--seeds",
    "1",
    "--fault",
    fault,
  ];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd,
    encoding: "utf8",
    timeout: TIMEOUT_MS,
  });
  if (/^seed \d+ (?:took|has written)/m.test(stderr)) return LOOP;
  // Whatever else ends a simulation finds nothing.
  if (!stdout.includes("with a broken invariant")) throw new Error(stderr.slice(0, 2000));
  return status === 0 ? undefined : /^seed \d+.*\n {2}([^:]+):/m.exec(stdout)?.[1];
}

function trySeed(dir: string, check: SeedCheck): Verdict {
  const by = `seed ${check.seed} of ${check.fault}`;
  // A seed that the program itself fails says nothing about the mutant.
  if (runSeed(ROOT, check) !== undefined) return { verdict: "FAILS WITHOUT IT", by };
  const broken = runSeed(dir, check);
  return broken === undefined
    ? { verdict: "LIVES", by }
    : { verdict: "found", by: `${by}: ${broken}` };
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
    return { verdict: "FAILS WITHOUT IT", by };
  return { verdict: failed.test(run(dir)) ? "found" : "LIVES", by };
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
        return { verdict: "DOES NOT APPLY", by: `${file} has no ${JSON.stringify(from)}` };
      writeFileSync(
        path,
        text.replace(from, () => to),
      );
    }
    return "test" in check ? tryTest(dir, check) : trySeed(dir, check);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

const names = process.argv.slice(2);
let left = 0;
console.log("| mutant | verdict | what found it |\n| --- | --- | --- |");
for (const mutant of MUTANTS.filter(
  ({ name }) => names.length === 0 || names.some((wanted) => name.includes(wanted)),
)) {
  const { verdict, by } = tryMutant(mutant);
  if (verdict !== "found") left++;
  console.log(`| ${mutant.name} | ${verdict} | ${by} |`);
}
process.exit(left > 0 ? 1 : 0);
