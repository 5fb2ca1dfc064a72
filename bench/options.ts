/** The options of `npm run bench`. */
import { parseArgs, type ParseArgsConfig } from "node:util";

const OPTIONS = {
  row: { type: "string" },
  table: { type: "boolean" },
  write: { type: "boolean" },
  peers: { type: "boolean" },
  against: { type: "string" },
  seconds: { type: "string" },
  rounds: { type: "string" },
  json: { type: "boolean" },
  profile: { type: "boolean" },
  help: { type: "boolean" },
} satisfies ParseArgsConfig["options"];

const ABOUT: Record<keyof typeof OPTIONS, [argument: string, about: string]> = {
  row: ["<text>", "measures only rows whose name contains the text"],
  table: ["", "measures the rows of docs/performance.md"],
  write: [
    "",
    "writes whole sections into bench/results.json; `npm run docs` puts them into the page",
  ],
  peers: [
    "",
    "measures other programs too; installs those that are missing into ~/.cache/rouse-bench",
  ],
  against: ["<commit>", "measures whole runs of this checkout against those of a commit"],
  seconds: ["<number>", "how long each side is measured in a round (3; with --table 1)"],
  rounds: ["<number>", "rounds after the round to warm up (3; with --table 5)"],
  json: ["", "prints JSON"],
  profile: ["", "prints where the gateway's main thread spends its time in the row of --row"],
  help: ["", "prints this"],
};

const EXAMPLES = [
  "npm run bench -- --row agent",
  "npm run bench -- --row agent --seconds 10 --rounds 5 --json",
  "npm run bench -- --row peers --peers",
  "npm run bench -- --profile --row agent",
  "npm run bench -- --table --write",
];

/** An option that the user has to change. */
export class UsageError extends Error {}

export interface Options {
  row: string | undefined;
  table: boolean;
  write: boolean;
  peers: boolean;
  against: string | undefined;
  ms: number;
  rounds: number;
  json: boolean;
  task: "help" | "profile" | "measure";
}

const isPositive = (value: number): boolean => value > 0 && Number.isFinite(value);

function toNumber(
  name: keyof typeof OPTIONS,
  text: string,
  isValid: (value: number) => boolean,
  what: string,
): number {
  const value = Number(text);
  if (text.trim() === "" || !isValid(value))
    throw new UsageError(`--${name} is "${text}", and has to be ${what}.`);
  return value;
}

function parseValues(argv: readonly string[]) {
  try {
    return parseArgs({ args: [...argv], options: OPTIONS }).values;
  } catch (error) {
    // Node may add how to write an argument that begins with a dash: none does here.
    throw new UsageError(`${(error as Error).message.split(". ")[0]}.`);
  }
}

export function parseOptions(argv: readonly string[], groups: readonly string[]): Options {
  const {
    row,
    table = false,
    write = false,
    peers = false,
    against,
    json = false,
    ...values
  } = parseValues(argv);
  if (row !== undefined && !groups.some((name) => name.includes(row)))
    throw new UsageError(`No row has "${row}" in its name. The rows are ${groups.join(", ")}.`);
  const task = (["help", "profile"] as const).find((name) => values[name]) ?? "measure";
  if (write && task !== "measure")
    throw new UsageError(`--write is for what is measured, and not for --${task}.`);
  return {
    row,
    table,
    write,
    peers: peers || table,
    against,
    json,
    task,
    ms:
      toNumber("seconds", values.seconds ?? (table ? "1" : "3"), isPositive, "a number above 0") *
      1000,
    rounds: toNumber(
      "rounds",
      values.rounds ?? (table ? "5" : "3"),
      (value) => isPositive(value) && Number.isInteger(value),
      "a whole number above 0",
    ),
  };
}

const renderList = (rows: readonly (readonly [name: string, about: string])[]): string => {
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, about]) => `  ${name.padEnd(width)}  ${about}`).join("\n");
};

export function renderHelp(
  groups: Readonly<Record<string, { about: string; needs?: string }>>,
): string {
  const options = Object.entries(ABOUT).map(
    ([name, [argument, about]]) => [`--${name} ${argument}`.trim(), about] as const,
  );
  const rows = Object.entries(groups).map(
    ([name, { about, needs }]) => [name, needs ? `${about}; needs ${needs}` : about] as const,
  );
  return `Measures servers in turn, round by round, and prints the medians of the rounds.

Usage: npm run bench -- [options]

Options:
${renderList(options)}

Rows:
${renderList(rows)}

Examples:
${EXAMPLES.map((line) => `  ${line}`).join("\n")}

npm run bench:knowledge and bench:lists measure documents and lists.`;
}
