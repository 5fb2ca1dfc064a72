/** A recorded request with what a preset makes of it. */
export interface HttpSample {
  name: string;
  /** As it is posted. */
  body: string;
  expect: {
    /** The mapping that takes it; `null` if none does. */
    mapping: string | null;
    /** The session of the run; `null` if it does not matter. */
    sessionKey: string | null;
    /** Words that the agent is given. */
    text: readonly string[];
  };
  headers: Record<string, string>;
  /** The path after `/hooks/`. */
  path: string;
  /** The origin of the request: a program, a package or a page. */
  source: string;
  /** True if the request was written by hand, false if the sender or its documentation wrote it. */
  isHandMade: boolean;
}

const COMMENT = /^# ([a-z-]+): (.+)$/;
const REQUEST_LINE = /^POST \/hooks\/(\S+) HTTP\/1\.1$/;
const HEADER = /^([\w-]+): ?(.*)$/;

/** Parses lines that have a name and a value each. Names become lower case. */
function parseLines(sample: string, form: RegExp, lines: readonly string[]): [string, string][] {
  return lines.map((line) => {
    const [, key, value = ""] = form.exec(line) ?? [];
    if (key === undefined)
      throw new Error(`${sample}: the line is not a comment, a request line or a header: ${line}`);
    return [key.toLowerCase(), value];
  });
}

/**
 * Parses a `.http` file: comment lines with the expected outcome, the raw request, and its body up to the end of the file.
 * The comments are `source`, `hand-made` (`yes` or `no`), `mapping` (`none` if none takes the request), `session` (optional),
 * and `text`, once for each text. A value with line breaks is written as a JSON string.
 * @param name The name of the test, usually the file's.
 * @throws Error with the name and the line, if the file has another form.
 */
export function parseHttpSample(name: string, file: string): HttpSample {
  const [head = ""] = file.split(/\r?\n\r?\n/, 1);
  const lines = head.split(/\r?\n/);
  const start = lines.findIndex((line) => !line.startsWith("# "));
  const [, path] = REQUEST_LINE.exec(lines[start] ?? "") ?? [];
  if (path === undefined)
    throw new Error(`${name}: the line \`POST /hooks/<path> HTTP/1.1\` must follow the comments`);
  const comments = parseLines(name, COMMENT, lines.slice(0, start));
  const getValues = (key: string): string[] =>
    comments
      .filter(([comment]) => comment === key)
      .map(([, value]) => (value.startsWith('"') ? (JSON.parse(value) as string) : value));
  const required = (key: string): string => {
    const [value] = getValues(key);
    if (value === undefined) throw new Error(`${name}: a line \`# ${key}: …\` is missing`);
    return value;
  };
  const handMade = required("hand-made");
  const mapping = required("mapping");
  if (handMade !== "yes" && handMade !== "no")
    throw new Error(`${name}: \`hand-made\` is yes or no, not ${handMade}`);
  return {
    name,
    source: required("source"),
    isHandMade: handMade === "yes",
    path,
    headers: Object.fromEntries(parseLines(name, HEADER, lines.slice(start + 1))),
    // Editors end a file with a line break, which no sender posts.
    body: file
      .slice(head.length)
      .replace(/^\r?\n\r?\n/, "")
      .replace(/\r?\n$/, ""),
    expect: {
      mapping: mapping === "none" ? null : mapping,
      sessionKey: getValues("session")[0] ?? null,
      text: getValues("text"),
    },
  };
}
