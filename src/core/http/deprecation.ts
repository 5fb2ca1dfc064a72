/** A deprecation of something that callers send. Days as `2026-11-01`. */
export interface Deprecation {
  since: string;
  /** The day on which it goes, if that is decided. */
  until?: string;
}

/** The token in the address, which ends up in the logs of proxies. */
export const QUERY_TOKEN = { since: "2026-11-01", until: "2027-11-01" } satisfies Deprecation;

/** The name `conversation_id` for `session_id`. */
export const CONVERSATION_ID: Deprecation = { since: "2026-11-01" };

/** Builds the headers of an answer to a caller that sent it: `Deprecation` (RFC 9745) and `Sunset` (RFC 8594). */
export function deprecationHeaders({ since, until }: Deprecation): Record<string, string> {
  const sunset = until === undefined ? {} : { sunset: new Date(until).toUTCString() };
  return { deprecation: `@${Date.parse(since) / 1000}`, ...sunset };
}
