import { isCredentialName } from "../core/credential-name.ts";
import type { Snapshot } from "./types.ts";

/** Which headers (lower-case) and query parameters of a path's requests are stored, matched and rendered. */
export interface KeptNames {
  headers: ReadonlySet<string>;
  query: ReadonlySet<string>;
}

/** Headers that are kept on all paths. */
const HARMLESS = ["accept", "content-length", "content-type", "date", "host", "user-agent"];
/** Paths that no mapping takes. */
const WITHOUT_MAPPINGS = new Set(["wake", "agent"]);

/** Collects the names that the mappings and the scheme of a path use, without credentials. */
function collectNames(path: string, { mappings, verifiers }: Pick<Snapshot, "mappings" | "verifiers">): KeptNames {
  const byHookToken = mappings.rules(path)?.auth === undefined && !WITHOUT_MAPPINGS.has(path);
  const taking = mappings.mappings.filter(({ paths }) => (paths.length === 0 ? byHookToken : paths.includes(path)));
  const names = verifiers.get(path)?.names;
  const keep = (kind: "headers" | "query", more: readonly string[]): ReadonlySet<string> => {
    const all = [...more, ...(names?.data[kind] ?? []), ...taking.flatMap((mapping) => mapping[kind])];
    return new Set(all.filter((name) => !isCredentialName(name) && !names?.credentials[kind].includes(name)));
  };
  return { headers: keep("headers", HARMLESS), query: keep("query", []) };
}

/** Creates the lookup of a snapshot. Names are collected once for each path; all paths without a mapping share one entry. */
export function createKeptNames(snapshot: Pick<Snapshot, "mappings" | "verifiers">): (path: string) => KeptNames {
  const known = new Map<string, KeptNames>();
  return (path) => {
    const name = snapshot.mappings.rules(path) || WITHOUT_MAPPINGS.has(path) ? path : "";
    const kept = known.get(name) ?? collectNames(name, snapshot);
    known.set(name, kept);
    return kept;
  };
}

type Values = Record<string, string>;

function pick(values: Values, names: ReadonlySet<string>): Values {
  const kept: Values = {};
  for (const name in values) if (names.has(name)) kept[name] = values[name] as string;
  return kept;
}

/**
 * Returns the headers and parameters that are kept. The query of a GET request is its payload: all of it is kept except
 * credentials. Header names are lower-case.
 */
export function keptParts(kept: KeptNames, { method, headers, query }: { method: string; headers: Values; query: Values }) {
  const payload = (): Values => Object.fromEntries(Object.entries(query).filter(([name]) => !isCredentialName(name)));
  return { headers: pick(headers, kept.headers), query: method === "GET" ? payload() : pick(query, kept.query) };
}
