/** The figures of the page about the source, from the budgets, which a test compares with what is there. */
import { EXECUTED, LINES, readBudgets, sumByRoot, toNumbers } from "../test/structure/budgets.ts";
import { withTable } from "./channel-options.ts";

const getMarks = (name: string) =>
  [
    `<!-- ${name}: from \`test/structure/budgets.json\`, by \`npm run docs\` -->`,
    `<!-- end of ${name} -->`,
  ] as const;
const toRows = (
  counts: Readonly<Record<string, number>>,
  toCell: (name: string) => string,
): string[][] =>
  Object.entries(counts).map(([name, count]) => [toCell(name), count.toLocaleString("en-US")]);

/** `docs/architecture.md` with its tables made anew. */
export function withBudgets(page: string): string {
  const { [EXECUTED]: requests = {}, [LINES]: lines = {} } = toNumbers(readBudgets());
  const folders = Object.fromEntries(
    Object.entries(lines).filter(([folder]) => folder.startsWith("src/")),
  );
  const withRequests = withTable(page, getMarks(EXECUTED), [
    ["request", "files"],
    ...toRows(requests, (name) => name.replace(/^POST .*/, "`$&`")),
  ]);
  return withTable(withRequests, getMarks(LINES), [
    ["folder", "lines"],
    ...toRows(folders, (name) => `\`${name}/\``),
    ...toRows(sumByRoot(lines), (name) => `all of \`${name}\``),
  ]);
}
