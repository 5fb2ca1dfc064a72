/** The option tables in the pages of channels, from the schemas of their plugins. */
import { describeOptions, toCell, type Option } from "../src/config/document.ts";
import type { Plugin } from "../src/plugin/api.ts";

const BEGIN = "<!-- options: from the plugin's schema, by `npm run docs` -->";
const END = "<!-- end of options -->";

/** What every section of a channel may have besides. */
const SHARED = (id: string): string[][] => [
  ["`enabled`", "boolean", "`true`", "`false` turns the channel off."],
  [
    "`accounts`",
    "object",
    "–",
    `Several accounts: a section for each account by name, which adds to this section. The first account is \`${id}\`, further accounts are \`${id}:<name>\`.`,
  ],
];

function row({ path, type, defaultValue, required, description }: Option): string[] {
  const value = required ? "required" : defaultValue === undefined ? "–" : `\`${defaultValue}\``;
  return [`\`${path}\``, type, value, description].map(toCell);
}

/** A markdown table, its columns padded as the formatter does. */
export function table(rows: readonly string[][]): string {
  const [head = [], ...body] = rows;
  const widths = head.map((_, column) => Math.max(3, ...rows.map((cells) => cells[column]?.length ?? 0)));
  const line = (cells: readonly string[]): string => `| ${cells.map((text, column) => text.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...body.map(line)].join("\n");
}

/** A channel's page with its option table made anew. */
export function withOptions(page: string, { id, config }: Plugin): string {
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`docs/channels/${id}.md has no place for its options: ${BEGIN} … ${END}`);
  const options = config ? describeOptions(config).map(row) : [];
  const rows = [["key", "type", "default", "meaning"], ...options, ...SHARED(id)];
  return `${page.slice(0, begin)}${BEGIN}\n\n${table(rows)}\n\n${page.slice(end)}`;
}
