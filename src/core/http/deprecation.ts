/** The token in the address, which ends up in the logs of proxies: since when it is deprecated, and when it goes. */
export const QUERY_TOKEN = { since: "2026-11-01", until: "2027-11-01" };

/** Builds the headers of an answer to a caller that sent it: `Deprecation` (RFC 9745) and `Sunset` (RFC 8594). */
export const QUERY_TOKEN_HEADERS = {
  deprecation: `@${Date.parse(QUERY_TOKEN.since) / 1000}`,
  sunset: new Date(QUERY_TOKEN.until).toUTCString(),
};
