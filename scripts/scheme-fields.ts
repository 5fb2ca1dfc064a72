/** The table of a scheme's fields in the page about signatures, from the schema that checks schemes. */
import { schemeSchema } from "../src/config/schema/signature.ts";
import { withTable } from "./channel-options.ts";
import { describeOptions, optionTable, type Option } from "./options.ts";

const MARKS = [
  "<!-- fields of a scheme: from its schema, by `npm run docs` -->",
  "<!-- end of fields -->",
] as const;

/** The parts of a place, which the page describes once. */
const PARTS = ["header", "query", "body", "split", "prefix"];

/** The fields of a scheme, without the parts of places. */
function listFields(): Option[] {
  const options = describeOptions(schemeSchema);
  const paths = new Set(options.map(({ path }) => path));
  const isPlace = (path: string): boolean => PARTS.every((part) => paths.has(`${path}.${part}`));
  return options
    .filter(({ path }) => {
      const dot = path.lastIndexOf(".");
      return !(dot > 0 && PARTS.includes(path.slice(dot + 1)) && isPlace(path.slice(0, dot)));
    })
    .map((option) => ({
      ...option,
      type:
        option.path === "id"
          ? "place or list of places"
          : isPlace(option.path)
            ? "place"
            : option.type,
    }));
}

/** The page about signatures with a new table of fields. */
export const withSchemeFields = (page: string): string =>
  withTable(page, MARKS, optionTable(listFields()));
