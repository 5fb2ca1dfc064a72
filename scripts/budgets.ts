/** Compares what is there with `test/structure/budgets.json`. */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import {
  BUDGETS_FILE,
  compareBudgets,
  LINES,
  lowerBudgets,
  readBudgets,
  sumByRoot,
  toNumbers,
} from "../test/structure/budgets.ts";
import { countAll } from "../test/structure/counts.ts";

const HELP = `npm run budgets -- [--lower] [--json]

Compares budgets with what is there: lines of code by folder (without blank lines and
comments), files that a request executes (\`npm run explain -- --files\` names them), keys
of the config, commands and options of the CLI, exported names, files that only one other
file imports, words in docs/, comments that begin with a question word.

  --lower   lowers the budgets to what is there, and never raises one
  --json    prints JSON
  --help    prints this help

More than a budget fails, and so does less, so that no gain is lost again; 1 %, at
most 15, is no difference. To raise a
budget, or to give one to a new folder, write the number and the reason into
test/structure/budgets.json: "src/agent": { "budget": 3400, "reason": "…" }.
If that file is missing, --lower writes it with all numbers as they are.
Exit codes: 0 all budgets are met, 1 not.
`;

const { values: options } = parseArgs({
  options: { lower: { type: "boolean" }, json: { type: "boolean" }, help: { type: "boolean" } },
});

/** Prints a line of the table: a name and three numbers. */
function printRow(name: string, numbers: readonly (number | undefined)[]): void {
  console.log(
    name.padEnd(42) + numbers.map((number) => String(number ?? "–").padStart(9)).join(""),
  );
}

async function main(): Promise<void> {
  const counts = await countAll();
  if (options.lower) {
    writeFileSync(
      BUDGETS_FILE,
      `${JSON.stringify(lowerBudgets(readBudgets(), counts), null, 2)}\n`,
    );
  }
  const budgets = readBudgets();
  const rows = compareBudgets(budgets, counts);
  const problems = rows.filter(({ problem }) => problem !== undefined);
  if (options.json) console.log(JSON.stringify(rows, null, 2));
  else {
    console.log(`${"".padEnd(45)}budget   actual     diff`);
    for (const [group, entries] of Map.groupBy(rows, (row) => row.group)) {
      console.log(`${group}:`);
      for (const { name, budget, actual } of entries)
        printRow(`  ${name}`, [budget, actual, (actual ?? 0) - (budget ?? 0)]);
    }
    const [allowed, sums] = [
      sumByRoot(toNumbers(budgets)[LINES] ?? {}),
      sumByRoot(counts[LINES] ?? {}),
    ];
    for (const [root, sum] of Object.entries(sums))
      printRow(`  ${root} in all`, [allowed[root], sum, sum - (allowed[root] ?? 0)]);
  }
  for (const { group, name, problem } of problems) console.error(`${group}: ${name}: ${problem}`);
  process.exitCode = problems.length === 0 ? 0 : 1;
}

if (options.help) console.log(HELP);
else await main();
