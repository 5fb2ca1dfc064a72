import { stripVTControlCharacters } from "node:util";
import { getSpelling, parseJson } from "../../core/json.ts";
import type { TextBlock } from "../chunk.ts";
import { decodeDocument } from "./charset.ts";
import { optional, type ExtractFormat } from "./types.ts";
import { tableBlocks, type TableCell } from "./table.ts";

const LINES = /\r\n?|\n/;

/** The parts of a text with empty lines between them. */
export function* paragraphs(text: string): Generator<TextBlock> {
  const lines = text.replace(/\r\n?/g, "\n");
  // One by one: a list of all paragraphs would take as much memory again as the text.
  let from = 0;
  for (const gap of lines.matchAll(/\n[ \t]*\n|$/g)) {
    const paragraph = lines.slice(from, gap.index).trim();
    if (paragraph !== "") yield { kind: "text", text: paragraph };
    from = gap.index + gap[0].length;
  }
}

/** Joins the lines of an invitation or an address card that were cut in words, and reads its escapes (RFC 5545, 3.1). */
const unfoldCard = (text: string): string =>
  /^\ufeff?BEGIN:V(?:CALENDAR|CARD)\s/i.test(text)
    ? text
        .replace(/\r?\n[ \t]/g, "")
        .replace(/\\([\\;,n])/gi, (_, sign: string) => (/n/i.test(sign) ? " " : sign))
    : text;

/** Logs of programs have sequences that set colours, whose letters would be part of the words. */
export const extractText: ExtractFormat = async ({ bytes }) => ({
  blocks: paragraphs(unfoldCard(stripVTControlCharacters(await decodeDocument(bytes)))),
});

/** Parses a heading that begins with `#`. */
function parseHeading(line: string): TextBlock | undefined {
  const [, marks, text = ""] = /^ {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$/.exec(line) ?? [];
  return marks === undefined ? undefined : { kind: "heading", text, level: marks.length };
}

/** The cells of a table's line, without its outer bars. One behind a backslash is text. */
const toRow = (line: string): TableCell[] =>
  line
    .trim()
    .replace(/^\||(?<!\\)\|$/g, "")
    .split(/(?<!\\)\|/)
    .map((cell) => ({ text: cell.trim().replaceAll("\\|", "|") }));

/** The begin of code, also behind the mark of a list's item: no line that has the end of it too. */
const FENCE = /^ {0,3}(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*(`{3,}(?!.*`)|~{3,})/;

/** Returns the mark of the code that goes on behind a line, which may end it. */
const goOn = (fence: string, line: string): string | undefined =>
  line.trim().startsWith(fence) && /^[`~]+$/.test(line.trim()) ? undefined : fence;

/** Returns whether a line is below the names of a table's columns, or an empty row. */
const isRule = (line: string): boolean => line.includes("|") && !/[^\s|:-]/.test(line);

const isTableRow = (line: string, isInTable: boolean): boolean =>
  isRule(line) || /^\s*\|.*\|\s*$/.test(line) || (isInTable && line.includes("|"));

/** Markdown by its lines: headings of both kinds, fenced code as it is, tables by their rows. */
function* markdownBlocks(text: string): Generator<TextBlock> {
  let paragraph: string[] = [];
  let fence: string | undefined;
  let rows: TableCell[][] = [];
  const flush = (): TextBlock[] => {
    const joined = paragraph.join("\n").trim();
    const table = [...tableBlocks(rows)];
    paragraph = [];
    rows = [];
    return joined === "" ? table : [...table, { kind: "text", text: joined }];
  };
  /** Takes a line of a table. Without outer bars, only the line below the names says that they are a table's. */
  const addRow = (line: string): TextBlock[] => {
    const isNamed = isRule(line) && rows.length === 0 && paragraph.at(-1)?.includes("|");
    const row = isNamed ? paragraph.pop() : isRule(line) ? undefined : line;
    const before = paragraph.length > 0 ? flush() : [];
    if (row !== undefined) rows.push(toRow(row));
    return before;
  };
  for (const line of text.split(LINES)) {
    const isCode = fence !== undefined;
    fence = fence === undefined ? FENCE.exec(line)?.[1] : goOn(fence, line);
    if (isCode || fence !== undefined) {
      paragraph.push(line);
      continue;
    }
    const heading = parseHeading(line);
    const underline = /^ {0,3}(={2,}|-{2,})[ \t]*$/.exec(line)?.[1];
    const isRow = isTableRow(line, rows.length > 0);
    if (!isRow && rows.length > 0) yield* flush();
    if (heading) {
      yield* flush();
      yield heading;
    } else if (underline !== undefined && paragraph.length === 1) {
      const [above = ""] = paragraph.splice(0);
      yield { kind: "heading", text: above.trim(), level: underline.startsWith("=") ? 1 : 2 };
    } else if (isRow) yield* addRow(line);
    else if (line.trim() === "") yield* flush();
    else paragraph.push(line);
  }
  yield* flush();
}

/** The lines between `---`, or those of TOML between `+++`, that a file may begin with. */
const FRONT_MATTER = /^(---|\+\+\+)\r?\n([^]*?)\r?\n\1[ \t]*(?:\r?\n|$)/;

export const extractMarkdown: ExtractFormat = async ({ bytes }) => {
  const text = await decodeDocument(bytes);
  const front = FRONT_MATTER.exec(text);
  const fields = front?.[2]?.trim() ?? "";
  const facts: TextBlock[] = fields === "" ? [] : [{ kind: "row", text: fields }];
  const blocks = [...facts, ...markdownBlocks(text.slice(front?.[0].length ?? 0))];
  // An empty one, or a text that begins in the next line, is none.
  const named = /^title[ \t]*[:=][ \t]*(["']?)([^\s"'>|].*?)\1[ \t]*$/m.exec(fields)?.[2];
  return {
    title:
      named ?? blocks.find(({ kind, level }) => kind === "heading" && level === 1)?.text ?? null,
    blocks,
  };
};

/** Of those that are as likely, the first one counts: a comma may divide decimals. */
const DELIMITERS = ["\t", ";", ",", "|"];

/** The character that divides the cells: the one of which most lines have the same number, then the one that they have most of. */
function findDelimiter(text: string): string {
  const lines = text
    .slice(0, 10_000)
    .replace(/"(?:[^"]|"")*"/g, "")
    .split(LINES);
  const ranked = DELIMITERS.map((delimiter) => {
    const counts = lines.map((line) => line.split(delimiter).length - 1).filter(Boolean);
    const groups = [...Map.groupBy(counts, (count) => count)];
    const [count = 0, same = []] = groups.toSorted(([, a], [, b]) => b.length - a.length)[0] ?? [];
    return { delimiter, lines: same.length, count };
  });
  const [best] = ranked.toSorted((a, b) => b.lines - a.lines || b.count - a.count);
  return best?.delimiter ?? ",";
}

/** The first line that names Excel the character between the cells. */
const SEPARATOR_LINE = /^sep=(.)\r?\n/i;

function* toCells(rows: Iterable<readonly string[]>): Generator<TableCell[]> {
  for (const row of rows) yield row.map((cell) => ({ text: cell.replace(/\s+/g, " ").trim() }));
}

export const extractCsv: ExtractFormat = async ({ bytes }) => {
  const whole = await decodeDocument(bytes);
  const [told = "", separator] = SEPARATOR_LINE.exec(whole) ?? [];
  const text = whole.slice(told.length);
  const { parse } = await optional("csv-parse", () => import("csv-parse/sync"));
  const rows: string[][] = [];
  const read = { bytes: 0, lines: 0 };
  const options = {
    bom: true,
    delimiter: separator ?? findDelimiter(text),
    // A backslash before a quote that does not end the cell, as databases write it.
    escape: /\\"[^",;|\t\r\n]/.test(text) ? "\\" : '"',
    ltrim: true,
    relax_column_count: true,
    relax_quotes: true,
    skip_empty_lines: true,
    on_record(row: string[], { bytes, lines }: typeof read): null {
      rows.push(row);
      Object.assign(read, { bytes, lines });
      return null;
    },
  };
  try {
    parse(text, options);
  } catch {
    const line = read.lines + (told === "" ? 1 : 2);
    rows.push([`(A quote in line ${line} is not closed: from there on, quotes are text.)`]);
    const rest = Buffer.from(text).subarray(read.bytes);
    parse(rest, { ...options, quote: false });
  }
  return { blocks: tableBlocks(toCells(rows)) };
};

const MAX_DEPTH = 50;

/** The leaves of a value as `path: value`. */
function* leaves(value: unknown, path: string, depth = 0): Generator<string> {
  if (typeof value === "object" && value !== null && depth < MAX_DEPTH) {
    for (const [key, inner] of Object.entries(value))
      yield* leaves(
        getSpelling(value, key) ?? inner,
        path === "" ? key : `${path}.${key}`,
        depth + 1,
      );
  } else if (value !== null && value !== "")
    yield `${path === "" ? "" : `${path}: `}${typeof value === "object" ? "…" : (value as string | number | boolean)}`;
}

const toRows = (values: readonly unknown[]): TextBlock[] =>
  values
    .map((value): TextBlock => ({ kind: "row", text: [...leaves(value, "")].join("; ") }))
    .filter(({ text }) => text !== "");

const tryParse = (text: string): unknown => {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
};

/**
 * A list by its members, an object by its leaves, lines of JSON by the lines, whatever the name says. A file that is no JSON
 * after all is read as text, and so is a line that is cut off.
 */
export const extractJson: ExtractFormat = async ({ bytes, filename }) => {
  const text = (await decodeDocument(bytes)).replace(/^\ufeff/, "");
  const whole = /\.(?:jsonl|ndjson)$/i.test(filename) ? undefined : tryParse(text);
  if (Array.isArray(whole)) return { blocks: toRows(whole) };
  if (whole !== undefined)
    return { blocks: [...leaves(whole, "")].map((line) => ({ kind: "row", text: line })) };
  const lines = text.split(LINES).filter((line) => line.trim() !== "");
  return tryParse(lines[0] ?? "") === undefined
    ? { blocks: paragraphs(text) }
    : { blocks: toRows(lines.map((line) => tryParse(line) ?? line)) };
};
