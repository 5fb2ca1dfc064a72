/** Text that is not saved, as it is kept in this browser: it survives a reload and a sign-out. */
export interface KeptText {
  text: string;
  /** The text of the file that it was written from. */
  base: string;
  /** ISO 8601. */
  at: string;
}

const toKey = (mapping: string): string => `rouse.mapping.${mapping}`;

/** The text that is kept of a mapping; null if there is none. */
export function readKept(mapping: string): KeptText | null {
  try {
    const kept = JSON.parse(localStorage.getItem(toKey(mapping)) ?? "null") as KeptText | null;
    return typeof kept?.text === "string" ? kept : null;
  } catch {
    return null;
  }
}

/** Keeps the text of a mapping. Text as it is in the file need not be kept. */
export function keep(mapping: string, text: string, base: string): void {
  if (text === base) return drop(mapping);
  try {
    localStorage.setItem(toKey(mapping), JSON.stringify({ text, base, at: new Date().toISOString() }));
  } catch {
    // A browser that keeps nothing: the text is on the page alone.
  }
}

/** Forgets the text of a mapping. */
export const drop = (mapping: string): void => localStorage.removeItem(toKey(mapping));
