import type { CliIo } from "./io.ts";
import { cell, fit, printable, shellWord, width } from "./text.ts";

const GAP = "  ";

/** Prints aligned columns with a head. On a terminal the last column is cut to its width; ids stay whole. */
export function printTable(io: CliIo, head: readonly string[], rows: readonly (readonly string[])[]): void {
  const cells = [head, ...rows].map((row) => row.map(cell));
  const widths = head.map((_, column) => Math.max(...cells.map((row) => width(row[column] ?? ""))));
  const before = widths.slice(0, -1).reduce((sum, columns) => sum + columns + GAP.length, 0);
  const room = io.terminal.columns === undefined ? Infinity : Math.max(20, io.terminal.columns - before);
  for (const row of cells) {
    const line = row.map((text, column) => {
      if (column === head.length - 1) return fit(text, room);
      return text + " ".repeat((widths[column] as number) - width(text));
    });
    io.out(`${line.join(GAP).trimEnd()}\n`);
  }
}

/** Prints `name  value` lines; fields without a value are left out. */
export function printFields(io: CliIo, fields: Record<string, string | number | null | undefined>): void {
  const shown = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const widest = Math.max(0, ...shown.map(([name]) => width(name)));
  for (const [name, value] of shown) io.out(`${name.padEnd(widest)}${GAP}${cell(String(value))}\n`);
}

/** Prints a title and an indented block of text. */
export function printBlock(io: CliIo, title: string, text: string): void {
  io.out(`\n${title}\n`);
  for (const line of printable(text).split("\n")) io.out(`  ${line}\n`);
}

/** Prints one JSON document. An object that is an answer says in `answeredBy` which config it comes from. */
export function printJson(io: CliIo, value: object): void {
  io.out(`${JSON.stringify(io.answeredBy === undefined ? value : { ...value, answeredBy: io.answeredBy }, null, 2)}\n`);
}

/** Says from which config an answer comes: on standard error, or with `--json` in the document. */
export function printAnsweredBy(io: CliIo, config: string | null, by: string, isJson: boolean): void {
  io.answeredBy = { config };
  if (!isJson) io.err(`config: ${config ?? "none: the defaults"} (${by})\n`);
}

/** Says how to see the next page, where there is one. */
export function printMore(io: CliIo, command: string, next: string | null): void {
  if (next !== null) io.out(`\nmore: ${command} --before ${shellWord(next)}\n`);
}
