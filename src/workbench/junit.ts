import type { FixtureResult } from "./fixture-run.ts";

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

/** A case of a suite. */
export interface JunitCase {
  /** Groups cases: the hook's path. */
  group: string;
  name: string;
  ms: number;
  failure?: { type: string; message: string; text: string };
  /** Why it was not run. */
  skipped?: string;
}

function renderCase({ group, name, ms, failure, skipped }: JunitCase): string {
  const head = `    <testcase classname="${escapeXml(group)}" name="${escapeXml(name)}" time="${seconds(ms)}"`;
  if (skipped !== undefined)
    return `${head}>\n      <skipped message="${escapeXml(skipped)}"/>\n    </testcase>`;
  if (!failure) return `${head}/>`;
  const { type, message, text } = failure;
  return `${head}>\n      <failure type="${type}" message="${escapeXml(message)}">${escapeXml(text)}</failure>\n    </testcase>`;
}

/** Cases in the form that CI systems read as JUnit's. `suite` names the command. */
export function renderJunitSuite(suite: string, all: readonly JunitCase[]): string {
  const failed = all.filter(({ failure }) => failure).length;
  const skipped = all.filter((one) => one.skipped !== undefined).length;
  const time = `time="${seconds(all.reduce((sum, { ms }) => sum + ms, 0))}"`;
  const counts = `tests="${all.length}" failures="${failed}" errors="0"`;
  const cases = all.map((one) => `${renderCase(one)}\n`).join("");
  // Jenkins' schema has no `skipped` for all suites together.
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites ${counts} ${time}>\n  <testsuite name="${suite}" ${counts} skipped="${skipped}" ${time}>\n${cases}  </testsuite>\n</testsuites>\n`;
}

function toJunitCase({ fixture: { name, request }, differences, ms }: FixtureResult): JunitCase {
  const message = differences.map(({ field }) => field).join(", ");
  const text = differences
    .map(
      ({ field, expected, actual }) =>
        `${field}\nexpected: ${show(expected)}\nactual: ${show(actual)}`,
    )
    .join("\n\n");
  return {
    group: request.path,
    name,
    ms,
    ...(differences.length > 0 && { failure: { type: "difference", message, text } }),
  };
}

/** Results of fixtures in the form that CI systems read as JUnit's. */
export const renderJunit = (results: readonly FixtureResult[]): string =>
  renderJunitSuite("rouse test", results.map(toJunitCase));
