/** `npm run bench`: servers measured in turn in one run; ratios, times and CPU time per request, as Markdown or JSON. */
import { GROUPS, type Context } from "./groups.ts";
import { CONNECTIONS, type Row } from "./measure.ts";
import { parseOptions, renderHelp, UsageError, type Options } from "./options.ts";
import { hasPostgres } from "./postgres.ts";
import {
  getCircumstances,
  renderCircumstances,
  renderMachine,
  renderRows,
  writeRun,
} from "./results.ts";
import { stopAll, withTimeLimit } from "./servers.ts";

/** Four minutes are for starting, filling stores and installing, the rest for the rounds. */
const getTimeLimit = ({ ms, rounds }: Options): number =>
  240_000 + (rounds + 1) * (ms * 10 + 20_000);

/** The names of the rows that the options choose; reports those that lack something. */
function chooseGroups({ row, table, peers, against }: Options, postgres: boolean): string[] {
  const given = { PostgreSQL: postgres, "--peers": peers, "--against": against !== undefined };
  return Object.entries(GROUPS).flatMap(([name, { needs, offPage }]) => {
    if (row === undefined ? table && offPage : !name.includes(row)) return [];
    if (needs === undefined || given[needs]) return [name];
    console.error(`${name}: left out, it needs ${needs}`);
    return [];
  });
}

/** The sections all of whose rows were measured. Reports all other sections. */
function getWholeSections(measured: ReadonlyMap<string, Row[]>): Record<string, Row[]> {
  const names = Object.keys(GROUPS).filter((name) => !GROUPS[name]?.offPage);
  const sections = Map.groupBy(names, (name) => GROUPS[name]?.section ?? "");
  const whole: Record<string, Row[]> = {};
  for (const [section, list] of sections) {
    const missing = list.filter((name) => !measured.has(name));
    if (missing.length === 0) whole[section] = list.flatMap((name) => measured.get(name) ?? []);
    else if (missing.length < list.length)
      console.error(`"${section}" is not written, without ${missing.join(", ")}`);
  }
  return whole;
}

async function measureGroups(options: Options): Promise<void> {
  const { ms, rounds, against } = options;
  const circumstances = { ...getCircumstances(), rounds, seconds: ms / 1000 };
  const context: Context = { timing: { ms, rounds }, postgres: await hasPostgres(), against };
  const measured = new Map<string, Row[]>();
  for (const name of chooseGroups(options, context.postgres)) {
    const began = performance.now();
    try {
      measured.set(
        name,
        (await withTimeLimit(getTimeLimit(options), async () => GROUPS[name]?.measure(context))) ??
          [],
      );
      console.error(`${name}: done after ${Math.round((performance.now() - began) / 1000)} s`);
    } catch (error) {
      console.error(`${name}: failed: ${error instanceof Error ? error.message : String(error)}`);
      process.exitCode = 1;
    }
  }
  const sections = Map.groupBy(measured.keys(), (name) => GROUPS[name]?.section ?? "");
  const rowsOf = (names: readonly string[]): Row[] =>
    names.flatMap((name) => measured.get(name) ?? []);
  if (options.json) {
    const rows = [...sections].flatMap(([section, names]) =>
      rowsOf(names).map((row) => ({ section, ...row })),
    );
    console.log(JSON.stringify({ ...circumstances, connections: CONNECTIONS, rows }, null, 2));
  } else {
    console.log(`${renderCircumstances(circumstances)}, on ${renderMachine(circumstances)}.`);
    for (const [section, names] of sections)
      console.log(`\n## ${section}\n\n${renderRows(rowsOf(names))}`);
  }
  if (options.write) writeRun({ ...circumstances, sections: getWholeSections(measured) });
}

async function printProfile({ row = "agent", ms, json }: Options): Promise<void> {
  const { profileRow } = await import("./profile.ts");
  const shares = await profileRow(row, ms);
  if (json) return console.log(JSON.stringify(Object.fromEntries(shares), null, 2));
  const busy = 1 - (shares.get("idle") ?? 0);
  const percent = (share: number): string => `${(share * 100).toFixed(1)} %`;
  console.log("| category | of the time | of the time it was busy |\n|---|---|---|");
  for (const [name, share] of shares)
    console.log(
      `| ${name} | ${percent(share)} | ${name === "idle" ? "" : percent(share / busy)} |`,
    );
}

const TASKS: Record<Options["task"], (options: Options) => Promise<void> | void> = {
  help: () => console.log(renderHelp(GROUPS)),
  profile: printProfile,
  measure: measureGroups,
};

for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, stopAll);
try {
  const options = parseOptions(process.argv.slice(2), Object.keys(GROUPS));
  await TASKS[options.task](options);
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(`${error.message} \`npm run bench -- --help\` lists options and rows.`);
  process.exitCode = 2;
}
process.exit();
