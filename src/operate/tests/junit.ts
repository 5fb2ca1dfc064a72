import { isSkipped, type TestResult } from "./agent-tests.ts";

/** Characters that no XML 1.0 document may hold, escaped or not. */
const FORBIDDEN =
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const NAMED: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "\n": "&#10;",
  "\r": "&#13;",
  "\t": "&#9;",
};

const escapeXml = (text: string): string =>
  text
    .replace(FORBIDDEN, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .replace(/[&<>"\n\r\t]/g, (char) => NAMED[char] ?? char);

const seconds = (ms: number): string => (ms / 1000).toFixed(3);
const show = (value: unknown): string =>
  typeof value === "string" ? value : (JSON.stringify(value) ?? "nothing");

/** The differences of a test, by their fields. */
const listMisses = ({ mapping, runs }: TestResult): [field: string, text: string][] => [
  ...(mapping?.differences ?? []).map(({ field, expected, actual }): [string, string] => [
    field,
    `${field}\nexpected: ${show(expected)}\nactual: ${show(actual)}`,
  ]),
  ...runs.flatMap(({ misses, reply }) =>
    misses.map(({ field, reason }): [string, string] => [
      field,
      `${field}: ${reason}\nreply: ${reply ?? "none"}`,
    ]),
  ),
];

const getMs = ({ mapping, runs }: TestResult): number =>
  runs.reduce((sum, one) => sum + one.ms, mapping?.ms ?? 0);

function renderCase(result: TestResult): string {
  const { fixture, runs, ok } = result;
  const { name, request, run } = fixture;
  // Groups cases: the hook's path.
  const group = request?.path ?? `agent ${run?.agent ?? "default"}`;
  const head = `    <testcase classname="${escapeXml(group)}" name="${escapeXml(name)}" time="${seconds(getMs(result))}"`;
  if (isSkipped(result))
    return `${head}>\n      <skipped message="no model was asked"/>\n    </testcase>\n`;
  if (ok) return `${head}/>\n`;
  const misses = listMisses(result);
  const fields = [...new Set(misses.map(([field]) => field))].join(", ");
  const passed = runs.filter((one) => one.passed).length;
  const count = runs.length === 0 ? "" : ` (${passed} of ${runs.length} runs passed)`;
  const text = escapeXml(misses.map(([, shown]) => shown).join("\n\n"));
  return `${head}>\n      <failure type="difference" message="${escapeXml(fields + count)}">${text}</failure>\n    </testcase>\n`;
}

/** Results of tests in the form that CI systems read as JUnit's. */
export function renderJunit(results: readonly TestResult[]): string {
  const failed = results.filter(({ ok }) => !ok).length;
  const skipped = results.filter(isSkipped).length;
  const time = `time="${seconds(results.reduce((sum, one) => sum + getMs(one), 0))}"`;
  const counts = `tests="${results.length}" failures="${failed}" errors="0"`;
  const cases = results.map(renderCase).join("");
  // Jenkins' schema has no `skipped` for all suites together.
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites ${counts} ${time}>\n  <testsuite name="rouse test" ${counts} skipped="${skipped}" ${time}>\n${cases}  </testsuite>\n</testsuites>\n`;
}
