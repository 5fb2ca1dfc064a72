/** Returns the wait that the headers of an answer ask for, in milliseconds; undefined if they ask for none. Names are in lower case. */
export function getHeaderWait(headers: unknown, now: number): number | undefined {
  if (typeof headers !== "object" || headers === null) return undefined;
  const values = headers as Record<string, unknown>;
  const ms = Number(values["retry-after-ms"]);
  if (values["retry-after-ms"] !== undefined && Number.isFinite(ms)) return Math.max(0, ms);
  const text = values["retry-after"];
  if (typeof text !== "string") return undefined;
  const seconds = Number(text);
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1000);
  const date = Date.parse(text);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}
