/** Text that is not saved, as it is kept in this browser: it survives a reload and a sign-out. */
export interface KeptText {
  text: string;
  /** The text of the file that it was written from. */
  base: string;
  /** ISO 8601. */
  at: string;
}

/** Older ones are forgotten. */
const MOST = 5;

const toKey = (mapping: string): string => `rouse.mapping.${mapping}`;

const isKept = (one: unknown): one is KeptText =>
  typeof (one as KeptText | null)?.text === "string";

/** The texts that are kept of a mapping, the newest first. There are several if one was written while another was offered. */
export function readKept(mapping: string): KeptText[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(toKey(mapping)) ?? "[]");
    return (Array.isArray(kept) ? kept : [kept]).filter(isKept);
  } catch {
    return [];
  }
}

/** Keeps the text of a mapping, and those that were not taken up yet. Text as it is in the file need not be kept. */
export function keep(
  mapping: string,
  text: string,
  base: string,
  others: readonly KeptText[],
): void {
  const written =
    text === base || others.some((one) => one.text === text)
      ? []
      : [{ text, base, at: new Date().toISOString() }];
  const kept = [...written, ...others].slice(0, MOST);
  if (kept.length === 0) return localStorage.removeItem(toKey(mapping));
  try {
    localStorage.setItem(toKey(mapping), JSON.stringify(kept));
  } catch {
    // A browser that keeps nothing: the text is on the page alone.
  }
}
