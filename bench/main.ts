/** `npm run bench`: servers measured in turn in one run; ratios, times and CPU time per request, as Markdown or JSON. */
import { execFileSync } from "node:child_process";
import { cpus, loadavg } from "node:os";
import { parseArgs } from "node:util";
import { chatRows } from "./chat.ts";
import { HOOK_ROWS, hookRow, onPostgres, withWorkers } from "./hooks.ts";
import { isolationRows } from "./isolation.ts";
import { limitsRows } from "./limits.ts";
import { CONNECTIONS, type Row, type Timing } from "./measure.ts";
import { peerRows } from "./peers.ts";
import { enqueueToStart, hasPostgres, twoAgainstOne, withSchema } from "./postgres.ts";
import { runsAgainst, wholeRuns } from "./runs.ts";
import { ROOT, stopAll, withTimeLimit } from "./servers.ts";
import { startRows } from "./start.ts";
import { whatIfRows } from "./what-if.ts";

const { values } = parseArgs({
  options: {
    json: { type: "boolean" },
    seconds: { type: "string" },
    rounds: { type: "string" },
    row: { type: "string" },
    table: { type: "boolean" },
    peers: { type: "boolean" },
    against: { type: "string" },
    profile: { type: "boolean" },
    costs: { type: "boolean" },
    simulate: { type: "boolean" },
    seed: { type: "string", default: "1" },
    hooks: { type: "string", default: "1000,10000,100000" },
  },
});
const timing: Timing = {
  ms: Number(values.seconds ?? (values.table ? 1 : 3)) * 1000,
  rounds: Number(values.rounds ?? (values.table ? 5 : 3)),
};

/** What `--table` measures: the rows that compare with other programs, with targets for them and with an earlier commit. */
const TABLE = ["agent", "wake", "mapped", "signed", "workers", "postgres", "runs-against", "limits-200k", "limits-2m", "peers"];
/** Four minutes are for starting, filling stores and installing, the rest for the rounds. */
const getTimeLimit = ({ ms, rounds }: Timing): number => 240_000 + (rounds + 1) * (ms * 10 + 20_000);

/** What is measured, by the names of `--row`. */
function getGroups(postgres: boolean): Record<string, () => Promise<Row[]>> {
  const { rounds } = timing;
  const { against } = values;
  return {
    ...Object.fromEntries(Object.keys(HOOK_ROWS).map((name) => [name, () => hookRow(name, timing)])),
    workers: () => withWorkers(timing),
    ...(postgres && {
      postgres: () => withSchema((url) => onPostgres(url, timing)),
      "postgres-two": async () => [await twoAgainstOne(timing)],
      "postgres-start": () => enqueueToStart(100),
    }),
    runs: async () => [await wholeRuns(rounds), await wholeRuns(rounds, 2)],
    ...(against !== undefined && { "runs-against": () => runsAgainst(against, postgres, rounds) }),
    chat: () => chatRows(timing),
    ...((values.peers || values.table) && { peers: () => peerRows(timing) }),
    start: () => startRows(rounds),
    isolation: () => isolationRows(timing),
    "what-if": () => whatIfRows(timing),
    // The longest last: what Ctrl-C ends is printed up to there.
    "limits-200k": () => limitsRows(200_000, postgres, rounds),
    "limits-2m": () => limitsRows(2_000_000, postgres, rounds),
  };
}

const renderTarget = ({ target }: Row): string =>
  target === undefined ? "n/a" : "least" in target ? `≥ ${target.least}` : `≤ ${target.most}`;
const renderValue = ({ value, unit }: Row): string => {
  const digits = unit === undefined || unit === "s" ? 2 : 0;
  return `${value.toFixed(digits)}${unit === undefined ? "" : ` ${unit}`}`;
};
const renderPair = (pair: readonly (number | undefined)[] | undefined, digits = 0): string =>
  pair === undefined ? "" : pair.flatMap((one) => (one === undefined ? [] : [one.toFixed(digits)])).join(", ");

/** The tables of docs/performance.md, one for each section. */
function renderTables(rows: readonly Row[]): string {
  const sections = Map.groupBy(rows, ({ section }) => section);
  return [...sections]
    .map(([section, list]) => {
      const lines = list.map((row) => {
        const more = [renderPair(row.cpuMicros), renderPair(row.p99, 1), row.errors ?? ""];
        return `| ${[row.row, renderValue(row), renderTarget(row), row.moonshot ?? "", ...more].join(" | ")} |`;
      });
      const notes = list.flatMap(({ row, note }) => (note === undefined ? [] : [`- ${row}: ${note}`]));
      const head =
        "| row | measured | target | moonshot | CPU µs, against | p99 ms, against | failed answers |\n|---|---|---|---|---|---|---|";
      return [`## ${section}\n`, head, ...lines, ...(notes.length > 0 ? ["", ...notes] : [])].join("\n");
    })
    .join("\n\n");
}

async function measureRows(): Promise<void> {
  const [busy = 0] = loadavg();
  const commit = execFileSync("git", ["rev-parse", "--short", "HEAD"], { cwd: ROOT, encoding: "utf8" }).trim();
  const postgres = await hasPostgres();
  const rows: Row[] = [];
  for (const [name, measure] of Object.entries(getGroups(postgres))) {
    if (values.row === undefined ? values.table && !TABLE.includes(name) : !name.includes(values.row)) continue;
    const began = performance.now();
    try {
      rows.push(...(await withTimeLimit(getTimeLimit(timing), measure)));
      console.error(`${name}: done after ${Math.round((performance.now() - began) / 1000)} s`);
    } catch (error) {
      console.error(`${name}: failed: ${error instanceof Error ? error.message : String(error)}`);
      process.exitCode = 1;
    }
  }
  const { ms, rounds } = timing;
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? "unknown"}, Node ${process.versions.node}, load average before ${busy.toFixed(1)}`;
  const measured = { date: new Date().toISOString().slice(0, 10), commit, machine };
  if (values.json) console.log(JSON.stringify({ ...measured, connections: CONNECTIONS, rounds, seconds: ms / 1000, rows }, null, 2));
  else {
    console.log(`Measured on ${measured.date} at commit ${commit}: ${machine}; the median of ${rounds} rounds of ${ms / 1000} s.\n`);
    console.log(renderTables(rows));
  }
}

async function printProfile(): Promise<void> {
  const { profileRow } = await import("./profile.ts");
  const shares = await profileRow(values.row ?? "agent", timing.ms);
  if (values.json) console.log(JSON.stringify(Object.fromEntries(shares), null, 2));
  else {
    const busy = 1 - (shares.get("idle") ?? 0);
    const percent = (share: number): string => `${(share * 100).toFixed(1)} %`;
    console.log("| category | of the time | of the time it was busy |\n|---|---|---|");
    for (const [name, share] of shares) console.log(`| ${name} | ${percent(share)} | ${name === "idle" ? "" : percent(share / busy)} |`);
  }
}

for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, stopAll);
if (values.costs) await (await import("./costs.ts")).writeCosts(timing.ms, timing.rounds);
if (values.simulate)
  (await import("./simulate.ts")).main({ ...values, seed: Number(values.seed), rates: values.hooks.split(",").map(Number) });
if (values.profile) await printProfile();
else if (!values.costs && !values.simulate) await measureRows();
process.exit();
