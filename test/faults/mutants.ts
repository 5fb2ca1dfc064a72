/**
 * `node --conditions=rouse-source test/faults/mutants.ts [name …]`: takes each fix back in a copy of the program, and shows that
 * seeds find it. Exits with 1 if a mutant lives. To add one: the text of the program that is the fix, and what was there before.
 */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

interface Mutant {
  name: string;
  changes: { file: string; from: string; to: string }[];
  /** The faults that the seeds draw from; all of them if absent. */
  fault?: string;
  seeds: number;
  store?: "postgres";
}

const SEEDS = 20;
const one = (name: string, fault: string, ...[file, from, to, seeds = SEEDS]: [string, string, string, number?]): Mutant => ({
  name,
  fault,
  changes: [{ file, from, to }],
  seeds,
});

/** Those that make runs wait for their provider, and what can disturb that. */
const WAITS =
  "kill,kill at commit,suspend,slow machine,disk full,provider limits once,hanging provider,slow provider,channel away,channel loses answers,channel hangs";

const MUTANTS: Mutant[] = [
  one(
    "jobs of one key run beside each other",
    "slow provider",
    "src/store/sqlite/jobs.ts",
    "first ? this.#readyAt(runAt) : null",
    "this.#readyAt(runAt)",
  ),
  one(
    "jobs that a crash cut off stay held",
    "kill",
    "src/store/sqlite/jobs.ts",
    "UPDATE jobs SET held = 0,",
    "UPDATE jobs SET held = held,",
  ),
  one(
    "a result is not committed again",
    "disk full",
    "src/runs/persist.ts",
    "if (isOver || !isUnavailable(error)) throw error;",
    "throw error;",
  ),
  one(
    "suspects of a crash start beside others",
    "poison",
    "src/runs/execute.ts",
    "leave = await deps.quarantine?.enter(current.crashes === MAX_CRASHES - 1, signal);",
    "",
  ),
  one(
    "work without a delay waits for a wall time",
    "clock back",
    "src/store/job-line.ts",
    "runAt !== undefined && runAt > now && runAt >= FIRST_TIME ? runAt : 0",
    "runAt ?? now",
  ),
  one(
    "delays do not follow a clock that is set back",
    "clock back,provider limits once,channel away",
    "src/store/sqlite/driver.ts",
    "if (step < 0) await",
    "if (step === Infinity) await",
    60,
  ),
  one(
    "a job that became ready while nobody looked is lost",
    "slow machine,outage,provider limits",
    "src/store/sqlite/signals.ts",
    "const wait = Math.max(0, Math.ceil(next - now()));",
    "const wait = Math.ceil(next - now());\n      if (wait <= 0) return;",
    100,
  ),
  one("a breaker never opens", "outage", "src/core/breaker.ts", "FAILURES_TO_OPEN = 5", "FAILURES_TO_OPEN = Infinity"),
  one(
    "Retry-After has no bound",
    "provider limits for a day",
    "src/core/breaker.ts",
    "Math.min(retryAfterMs, maxRetryAfterMs())",
    "retryAfterMs",
  ),
  one(
    "a run is given up after six tries",
    "outage",
    "src/runs/provider-wait.ts",
    "if (!isAway && failures >= MAX_TRIES)",
    "if (failures >= MAX_TRIES)",
  ),
  one(
    "a run does not look for earlier ones of its session that wait",
    WAITS,
    "src/runs/provider-wait.ts",
    "steps.length > 0 ? undefined : await queue.findEarlier(job, keys)",
    "steps.length > Infinity ? await queue.findEarlier(job, keys) : undefined",
    100,
  ),
  one(
    "a decision counts only where the clock says that it came after the call",
    "clock back,kill,kill at commit",
    "src/agent/loop.ts",
    'call.state !== "started" && call.startedFor !== approvalId',
    "(call.startedAt ?? 0) <= ((await journal.getDecision(approvalId))?.at ?? Infinity)",
    60,
  ),
  one(
    "an answer that was cut fails its run",
    "cut answers",
    "src/agent/failure.ts",
    "if (isCut(chain)) return NO_ANSWER.cut;",
    'if (isCut(chain)) return { ...NO_ANSWER.cut, code: "provider_error", retryable: false };',
  ),
  one(
    "durations are read from the wall clock",
    "clock ahead,clock back,hanging provider,slow provider",
    "src/core/clock.ts",
    "Math.floor(clock.monotonic?.() ?? clock.now())",
    "clock.now()",
    60,
  ),
];

const ROOT = resolve(import.meta.dirname, "../..");
const COPIED = ["src", "plugins", "mappings", "transforms", "bench", "test/faults", "test/store", "package.json"];
const NODE = ["--conditions=rouse-source", "--disable-warning=ExperimentalWarning"];

type Verdict = "found" | "LIVES" | "DOES NOT APPLY";

function tryMutant({ changes, fault, seeds, store }: Mutant): { verdict: Verdict; said: string } {
  const dir = mkdtempSync(join(tmpdir(), "rouse-mutant-"));
  try {
    for (const name of COPIED) cpSync(join(ROOT, name), join(dir, name), { recursive: true });
    symlinkSync(join(ROOT, "node_modules"), join(dir, "node_modules"));
    for (const { file, from, to } of changes) {
      const path = join(dir, file);
      const text = readFileSync(path, "utf8");
      if (!text.includes(from)) return { verdict: "DOES NOT APPLY", said: `${file} has no ${JSON.stringify(from)}` };
      writeFileSync(
        path,
        text.replace(from, () => to),
      );
    }
    const chosen = [...(fault === undefined ? [] : ["--fault", fault]), ...(store ? ["--store", store] : [])];
    const run = (cwd: string, from: number, count: number): { seed: number; said: string } | undefined => {
      const args = [...NODE, "test/faults/run.ts", "--first", "--from", String(from), "--seeds", String(count), ...chosen];
      const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd, encoding: "utf8", timeout: 300_000 });
      // Whatever else ends a simulation finds nothing.
      if (!stdout.includes("with a broken invariant")) throw new Error(stderr.slice(0, 2000));
      return status === 0
        ? undefined
        : { seed: Number(/^seed (\d+)/m.exec(stdout)?.[1]), said: stdout.split("\n", 2).join("").slice(0, 200) };
    };
    // A seed that the program itself fails says nothing about the mutant.
    for (let from = 1; from <= seeds;) {
      const found = run(dir, from, seeds - from + 1);
      if (!found) break;
      if (!run(ROOT, found.seed, 1)) return { verdict: "found", said: found.said };
      from = found.seed + 1;
    }
    return { verdict: "LIVES", said: `${seeds} seeds, ${fault ?? "all faults"}` };
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

const names = process.argv.slice(2);
let left = 0;
for (const mutant of MUTANTS.filter(({ name }) => names.length === 0 || names.some((wanted) => name.includes(wanted)))) {
  const { verdict, said } = tryMutant(mutant);
  if (verdict !== "found") left++;
  console.log(`${verdict}: ${mutant.name}\n    ${said}`);
}
process.exit(left > 0 ? 1 : 0);
