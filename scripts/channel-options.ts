/** The option tables in the pages of channels, from the schemas of their plugins. */
import type { Plugin } from "../src/plugin/api.ts";
import { describeOptions, optionTable, table } from "./options.ts";

const MARKS = [
  "<!-- options: from the plugin's schema, by `npm run docs` -->",
  "<!-- end of options -->",
] as const;

/** Keys that every section of a channel may have. `docs/conversations.md` explains them once. */
const SHARED = ["dmPolicy", "typing", "streaming"];

/** The forms of a recipient are in a section of the page. */
const DEFAULT_TO = "The [recipient](#recipients) if none is named.";

/** A page with rows as the table between two marks. Throws if the page has no such place. */
export function withTable(
  page: string,
  [begin, end]: readonly [string, string],
  rows: readonly string[][],
): string {
  const [start, stop] = [page.indexOf(begin), page.indexOf(end)];
  if (start < 0 || stop < start)
    throw new Error(`a page has no place for its table: ${begin} … ${end}`);
  return `${page.slice(0, start)}${begin}\n\n${table(rows)}\n\n${page.slice(stop)}`;
}

/** A channel's page with a new table of options. */
export function withOptions(page: string, { config }: Plugin): string {
  const options = (config ? describeOptions(config) : [])
    .filter(({ path }) => !SHARED.includes(path))
    .map((option) =>
      option.path === "defaultTo" ? { ...option, description: DEFAULT_TO } : option,
    );
  return withTable(page, MARKS, optionTable(options));
}
