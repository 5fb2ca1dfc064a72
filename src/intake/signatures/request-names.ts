import type { Scheme, SignatureSource } from "../../config/schema/signature.ts";

/** Names of headers (lower-case) and of query parameters. */
export interface RequestNames {
  headers: readonly string[];
  query: readonly string[];
}

function getNames(sources: readonly (SignatureSource | undefined)[]): {
  headers: string[];
  query: string[];
} {
  const headers = sources.flatMap((source) => source?.header?.toLowerCase() ?? []);
  return { headers, query: sources.flatMap((source) => source?.query ?? []) };
}

/**
 * Returns the headers and parameters that a scheme reads as data, and those that carry its credential; `readsBody` is true if it
 * reads fields of the body too.
 */
export function getSchemeNames(scheme: Scheme): {
  data: RequestNames;
  credentials: RequestNames;
  readsBody: boolean;
} {
  const { headers, query } = getNames([
    scheme.timestamp?.at,
    ...(scheme.id ?? []),
    scheme.bodyHash,
  ]);
  const signed = [...scheme.signed.matchAll(/\{header:([^}]+)\}/g)].map((found) => found[1] ?? "");
  const data = {
    headers: [
      ...headers,
      ...[...signed, ...(scheme.keepHeaders ?? [])].map((name) => name.toLowerCase()),
    ],
    query,
  };
  const credentials = getNames([scheme.signature]);
  credentials.query.push(...scheme.handshakes.flatMap(({ when }) => when.verifyToken ?? []));
  const sources = [scheme.signature, scheme.timestamp?.at, ...(scheme.id ?? [])];
  const readsBody =
    sources.some((source) => source?.body !== undefined) ||
    scheme.algorithm === "x509" ||
    scheme.handshakes.some(({ signed, when }) => signed && when.body !== undefined);
  return { data, credentials, readsBody };
}
