import type { DebugNote, EventDebug } from "../vocabulary/debug-notes.ts";
import type { CliIo } from "./io.ts";
import { cell, fit, printable, printableJson, width } from "./text.ts";

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
