import { isSkipped, type TestResult } from "./test-result.ts";

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

interface JunitCase {
  /** Groups cases: the hook's path. */
  group: string;
  name: string;
  ms: number;
  failure?: { type: string; message: string; text: string };
  isSkipped?: boolean;
}

function renderCase({ group, name, ms, failure, isSkipped: skipped }: JunitCase): string {
  const head = `    <testcase classname="${escapeXml(group)}" name="${escapeXml(name)}" time="${seconds(ms)}"`;
  if (skipped) return `${head}>\n      <skipped message="no model was asked"/>\n    </testcase>`;
  if (!failure) return `${head}/>`;
  const { type, message, text } = failure;
  return `${head}>\n      <failure type="${type}" message="${escapeXml(message)}">${escapeXml(text)}</failure>\n    </testcase>`;
}

const listMappingMisses = ({ mapping }: TestResult): [field: string, text: string][] =>
  (mapping?.differences ?? []).map(({ field, expected, actual }) => [
    field,
    `${field}\nexpected: ${show(expected)}\nactual: ${show(actual)}`,
  ]);

const listAgentMisses = ({ runs }: TestResult): [field: string, text: string][] =>
  runs.flatMap(({ misses, reply }) =>
    misses.map(({ field, reason }): [string, string] => [
      field,
      `${field}: ${reason}\nreply: ${reply ?? "none"}`,
    ]),
  );

function toJunitCase(result: TestResult): JunitCase {
  const { fixture, mapping, runs, ok } = result;
  const { name, request, run } = fixture;
  const group = request?.path ?? `agent ${run?.agent ?? "default"}`;
  const ms = runs.reduce((sum, one) => sum + one.ms, mapping?.ms ?? 0);
  const common = { group, name, ms };
  if (ok) return { ...common, isSkipped: isSkipped(result) };
  const misses = [...listMappingMisses(result), ...listAgentMisses(result)];
  const message = [...new Set(misses.map(([field]) => field))].join(", ");
  const passed = runs.filter((one) => one.passed).length;
  const count = runs.length === 0 ? "" : ` (${passed} of ${runs.length} runs passed)`;
  const text = misses.map(([, shown]) => shown).join("\n\n");
  return { ...common, failure: { type: "difference", message: message + count, text } };
}

/** Results of tests in the form that CI systems read as JUnit's. */
export function renderJunit(results: readonly TestResult[]): string {
  const all = results.map(toJunitCase);
  const failed = all.filter(({ failure }) => failure).length;
  const skipped = all.filter((one) => one.isSkipped).length;
  const time = `time="${seconds(all.reduce((sum, { ms }) => sum + ms, 0))}"`;
  const counts = `tests="${all.length}" failures="${failed}" errors="0"`;
  const cases = all.map((one) => `${renderCase(one)}\n`).join("");
  // Jenkins' schema has no `skipped` for all suites together.
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites ${counts} ${time}>\n  <testsuite name="rouse test" ${counts} skipped="${skipped}" ${time}>\n${cases}  </testsuite>\n</testsuites>\n`;
}
