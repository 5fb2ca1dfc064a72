/** The tables of docs/performance.md, from what `npm run bench` has written into bench/results.json. */
import {
  readRuns,
  renderCircumstances,
  renderMachine,
  renderRows,
  type Run,
} from "../bench/results.ts";

const PART = /^(<!-- results: (.*) -->)\n[^]*?^(<!-- end of results -->)$/gm;
/** The name of the part that says where and when all sections were measured. */
const WHERE = "where and when";

const renderRun = (run: Run): string =>
  `- ${Object.keys(run.sections).join("; ")}: ${renderCircumstances(run)}`;

const renderRuns = (runs: readonly Run[]): string =>
  [...Map.groupBy(runs, renderMachine)]
    .map(([machine, list]) => `${machine}:\n\n${list.map(renderRun).join("\n")}`)
    .join("\n\n");

/** The page with new contents in its marked parts. Each section of the results has one, and no other. */
export function withResults(page: string): string {
  const runs = readRuns();
  const parts = new Map(
    runs
      .flatMap(({ sections }) => Object.entries(sections))
      .map(([name, rows]) => [name, renderRows(rows)]),
  );
  parts.set(WHERE, renderRuns(runs));
  const named = [...page.matchAll(PART)].map(([, , name = ""]) => name);
  if (named.toSorted().join() !== [...parts.keys()].toSorted().join())
    throw new Error(
      `docs/performance.md has places for ${named.join(", ")}; the results are ${[...parts.keys()].join(", ")}`,
    );
  return page.replaceAll(
    PART,
    (_, begin: string, name: string, end: string) => `${begin}\n\n${parts.get(name)}\n\n${end}`,
  );
}
