import type { Failure } from "../errors.ts";
import { collectFields, parseForm } from "./payload.ts";

/** The parameters of an address by name; one that comes several times has the list of its values. */
export type QueryValues = Record<string, string | string[]>;

function getQuery(url: string): string {
  const start = url.indexOf("?");
  return start < 0 ? "" : url.slice(start + 1);
}

/** Reads the query of an address, in the character set that a parameter of it names. What is no text in it is replaced. */
export function parseQuery(url: string): QueryValues {
  const query = getQuery(url);
  const read = parseForm(query);
  return collectFields(read.ok ? read.fields : new URLSearchParams(query));
}

/** Returns why the query of an address cannot be read to its last character; undefined if it can. */
export const findQueryProblem = (url: string): Failure | undefined =>
  parseForm(getQuery(url)).ok
    ? undefined
    : {
        code: "invalid_body",
        message:
          "the query of the address is no text in UTF-8: encode it in UTF-8, or name its charset in a parameter `charset`",
      };

/** Returns the first value of each parameter, for what knows one only: tokens, signatures, handshakes. */
export function getFirstValues(query: QueryValues): Record<string, string> {
  return Object.fromEntries(
    Object.entries(query).map(([name, value]) => [
      name,
      Array.isArray(value) ? (value[0] ?? "") : value,
    ]),
  );
}
