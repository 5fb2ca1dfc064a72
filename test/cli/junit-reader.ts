import { SaxesParser } from "saxes";

interface JunitElement {
  name: string;
  attributes: Record<string, string>;
  text: string;
  /** The element around it. */
  within: string | undefined;
}

/**
 * The elements and attributes that Jenkins' schema of JUnit reports knows, as far as a report of results needs them: it refuses
 * any other. A name with `!` is required.
 */
const SCHEMA: Record<string, { within: (string | undefined)[]; attributes: string[] }> = {
  testsuites: {
    within: [undefined],
    attributes: ["name", "time", "tests", "failures", "disabled", "errors"],
  },
  testsuite: {
    within: [undefined, "testsuites", "testsuite"],
    attributes: [
      "name",
      "tests!",
      "failures",
      "errors",
      "time",
      "disabled",
      "skipped",
      "timestamp",
      "hostname",
      "id",
      "package",
      "file",
    ],
  },
  testcase: {
    within: ["testsuite"],
    attributes: ["name!", "assertions", "time", "timestamp", "classname", "status", "file", "line"],
  },
  failure: { within: ["testcase"], attributes: ["type", "message"] },
};
/** Seconds with up to three decimals. */
const TIME = /^\d+(?:\.\d{1,3})?$/;

/**
 * Reads a JUnit report as Jenkins does: by its schema.
 * @throws Error if it is not well-formed XML 1.0, or has what the schema does not know.
 */
export function readJunit(text: string): JunitElement[] {
  const found: JunitElement[] = [];
  const open: JunitElement[] = [];
  const parser = new SaxesParser();
  parser.on("error", (error) => {
    throw error;
  });
  parser.on("opentag", ({ name, attributes }) => {
    const element = { name, attributes, text: "", within: open.at(-1)?.name };
    const known = SCHEMA[name];
    if (!known?.within.includes(element.within))
      throw new Error(`<${name}> in ${element.within ?? "the document"}`);
    const names = known.attributes.map((one) => one.replace("!", ""));
    const wrong = Object.keys(attributes).filter((one) => !names.includes(one));
    const missing = known.attributes.filter(
      (one) => one.endsWith("!") && attributes[one.slice(0, -1)] === undefined,
    );
    if (wrong.length + missing.length > 0)
      throw new Error(`<${name}>: ${[...wrong, ...missing].join(", ")}`);
    if (attributes["time"] !== undefined && !TIME.test(attributes["time"]))
      throw new Error(`<${name}>: time ${attributes["time"]}`);
    found.push(element);
    open.push(element);
  });
  parser.on("closetag", () => void open.pop());
  parser.on("text", (part) => {
    const around = open.at(-1);
    if (around) around.text += part;
    if (around?.name !== "failure" && part.trim() !== "")
      throw new Error(`text in <${around?.name}>`);
  });
  parser.write(text).close();
  return found;
}
