import { collectFields } from "./payload.ts";

/** The parameters of an address by name; one that comes several times has the list of its values. */
export type QueryValues = Record<string, string | string[]>;

/** Reads the query of an address. */
export function parseQuery(url: string): QueryValues {
  const start = url.indexOf("?");
  return start < 0 ? {} : collectFields(new URLSearchParams(url.slice(start + 1)));
}

/** Returns the first value of each parameter, for what knows one only: tokens, signatures, handshakes. */
export function getFirstValues(query: QueryValues): Record<string, string> {
  return Object.fromEntries(
    Object.entries(query).map(([name, value]) => [
      name,
      Array.isArray(value) ? (value[0] ?? "") : value,
    ]),
  );
}
