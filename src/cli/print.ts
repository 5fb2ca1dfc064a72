import type { DebugNote, EventDebug } from "../vocabulary/debug-notes.ts";
import type { CliIo } from "./io.ts";
import { cell, fit, localTime, printable, printableJson, shortTime, width } from "./text.ts";

const GAP = "  ";

/** Prints aligned columns with a head. On a terminal the last column is cut to its width; ids stay whole. */
export function printTable(
  io: CliIo,
  head: readonly string[],
  rows: readonly (readonly string[])[],
): void {
  const cells = [head, ...rows].map((row) => row.map(cell));
  const widths = head.map((_, column) => Math.max(...cells.map((row) => width(row[column] ?? ""))));
  const before = widths.slice(0, -1).reduce((sum, columns) => sum + columns + GAP.length, 0);
  const room =
    io.terminal.columns === undefined ? Infinity : Math.max(20, io.terminal.columns - before);
  for (const row of cells) {
    const line = row.map((text, column) => {
      if (column === head.length - 1) return fit(text, room);
      return text + " ".repeat((widths[column] as number) - width(text));
    });
    io.out(`${line.join(GAP).trimEnd()}\n`);
  }
}

/** Prints `name  value` lines; fields without a value are left out. */
export function printFields(
  io: CliIo,
  fields: Record<string, string | number | null | undefined>,
): void {
  const shown = Object.entries(fields).filter(
    ([, value]) => value !== null && value !== undefined && value !== "",
  );
  const widest = Math.max(0, ...shown.map(([name]) => width(name)));
  for (const [name, value] of shown) io.out(`${name.padEnd(widest)}${GAP}${cell(String(value))}\n`);
}

/** Prints a title and an indented block of text. */
export function printBlock(io: CliIo, title: string, text: string): void {
  io.out(`\n${title}\n`);
  for (const line of printable(text).split("\n")) io.out(`  ${line}\n`);
}

/** Prints a title and the items of a list below it; nothing if there are none. */
export function printLines(io: CliIo, title: string, items: readonly string[]): void {
  if (items.length > 0) printBlock(io, `${title}:`, items.join("\n"));
}

type Cell =
  | string
  | number
  | boolean
  | readonly string[]
  | { code: string; message: string }
  | null
  | undefined;
/** A member of a row by its name, or a name and how it is read. `time` renders a time. */
export type RecordColumn<Row> =
  | (keyof Row & string)
  | readonly [name: string, read: (row: Row, time: (iso: string | null) => string) => Cell];

const ISO = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;

/** The name of a member for people: `agent` of `agentId`, `last used` of `lastUsedAt`. */
const toTitle = (name: string): string =>
  cell(name)
    .replace(/(?:Id|At)$/, "")
    .replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

function renderCell(value: Cell, time: (iso: string) => string): string {
  if (value === null || value === undefined || value === false) return "";
  if (value === true) return "yes";
  if (typeof value === "object")
    return "code" in value ? `${value.code}: ${value.message}` : value.join(" ");
  const text = String(value);
  return ISO.test(text) ? time(text) : text;
}

function readColumns<Row>(
  row: Row,
  columns: readonly RecordColumn<Row>[],
  time: (iso: string | null) => string,
): [title: string, text: string][] {
  return columns.map((column) =>
    typeof column === "string"
      ? [toTitle(column), renderCell(row[column] as Cell, time)]
      : [column[0], renderCell(column[1](row, time), time)],
  );
}

/** Prints one object as lines of a name and a value. What is empty is left out. */
export function printRecord<Row>(io: CliIo, row: Row, columns: readonly RecordColumn<Row>[]): void {
  const time = (iso: string | null): string => (iso === null ? "" : localTime(iso));
  printFields(io, Object.fromEntries(readColumns(row, columns, time)));
}

/** Prints rows by a table of columns. What is empty is shown as a dash. */
export function printRows<Row>(
  io: CliIo,
  columns: readonly RecordColumn<Row>[],
  rows: readonly Row[],
  { isWhole = false } = {},
): void {
  const time = (iso: string | null): string => shortTime(iso, io.now());
  printTable(
    isWhole ? { ...io, terminal: { ...io.terminal, columns: undefined } } : io,
    columns.map((column) =>
      (typeof column === "string" ? toTitle(column) : column[0]).toUpperCase(),
    ),
    rows.map((row) => readColumns(row, columns, time).map(([, text]) => text || "–")),
  );
}

/** True for a value that stands on the line of its name: no list, no object but an error, no text of several lines. */
function isCell(value: unknown): value is Cell {
  if (typeof value === "object" && value !== null) return "code" in value && "message" in value;
  return typeof value !== "string" || !value.includes("\n");
}

const indented = (io: CliIo): CliIo => ({
  ...io,
  out: (text) => io.out(text.replace(/^(?=.)/gm, "  ")),
});

/** Prints a part of an object below its name: a text, an object, a list of words, or a table. */
function printPart(io: CliIo, title: string, part: unknown): void {
  if (typeof part === "string") return printBlock(io, title, part);
  const items = Array.isArray(part) ? (part as unknown[]) : undefined;
  if (items?.every((item) => typeof item === "string"))
    return items.length === 0 ? undefined : printBlock(io, title, items.join("\n"));
  const rows = (items ?? [part]) as Record<string, Cell>[];
  if (rows.every((row) => Object.keys(row).length === 0)) return;
  io.out(`\n${title}\n`);
  if (items) printRows(indented(io), [...new Set(rows.flatMap((row) => Object.keys(row)))], rows);
  else for (const row of rows) printDetail(indented(io), row);
}

/** Prints an object of an answer: a line for each of its fields, and below them its texts, objects and lists. What is empty is left out. */
export function printDetail(io: CliIo, detail: object): void {
  const all = Object.entries(detail);
  const fields = all.filter(([, value]) => isCell(value)) as [string, Cell][];
  printFields(
    io,
    Object.fromEntries(
      fields.map(([name, value]) => [toTitle(name), renderCell(value, localTime)]),
    ),
  );
  for (const [name, value] of all) if (!isCell(value)) printPart(io, toTitle(name), value);
}

function debugText({ error, console: printed = [], cut }: DebugNote): string {
  const lines: string[] = [];
  if (error) lines.push(error.message, ...(error.frames ?? []).map((frame) => `  at ${frame}`));
  if (error?.excerpt !== undefined)
    lines.push(
      `line ${error.line}, column ${error.column}:`,
      ...error.excerpt.split("\n").map((line) => `  ${line}`),
    );
  lines.push(
    ...printed.map(({ stream, text }) =>
      stream === "stderr" ? `console (stderr): ${text}` : `console: ${text}`,
    ),
  );
  if (cut) lines.push("further lines are not kept");
  return lines.join("\n");
}

/** Prints what the mappings' own code threw and printed. */
export function printDebug(io: CliIo, debug: EventDebug | null): void {
  for (const note of debug?.notes ?? [])
    printBlock(
      io,
      `${note.field} of ${note.mapping}${note.item === undefined ? "" : `, item ${note.item}`}`,
      debugText(note),
    );
  if (debug?.cut) io.out("\nfurther notes of the mappings' code are not kept\n");
}

/** Prints one JSON document. An object that is an answer says in `answeredBy` which config it comes from. */
export function printJson(io: CliIo, value: object): void {
  io.out(
    `${printableJson(io.answeredBy === undefined ? value : { ...value, answeredBy: io.answeredBy }, 2)}\n`,
  );
}

/** Says from which config an answer comes: on standard error, or with `--json` in the document. */
export function printAnsweredBy(
  io: CliIo,
  config: string | null,
  by: string,
  isJson: boolean,
): void {
  io.answeredBy = { config };
  if (!isJson) io.err(`config: ${config ?? "none: the defaults"} (${by})\n`);
}
