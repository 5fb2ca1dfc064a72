import { randomInt } from "node:crypto";
import type { Store } from "../store/types.ts";

/** No two of them look alike, and a code is never a word. */
const ALPHABET = "23456789abcdef";
const LENGTH = 3;
/** Tries with a length, before a code gets one character more. */
const TRIES = 8;
/** The most open approvals that are looked through. */
export const MAX_OPEN = 500;

const randomCode = (length: number): string => Array.from({ length }, () => ALPHABET[randomInt(ALPHABET.length)]).join("");

/** Creates a code that none of `taken` has. */
export function createCode(taken: ReadonlySet<string>): string {
  for (let tries = 0; ; tries++) {
    const code = randomCode(LENGTH + Math.floor(tries / TRIES));
    if (!taken.has(code)) return code;
  }
}

/** Creates codes that no open approval has. The store refuses one that another gateway has taken meanwhile. */
export async function createCodes(count: number, store: Pick<Store, "list">): Promise<string[]> {
  const taken = new Set((await store.list("approvals", { state: "open", limit: MAX_OPEN })).map(({ code }) => code));
  return Array.from({ length: count }, () => {
    const code = createCode(taken);
    taken.add(code);
    return code;
  });
}

/** A code as a person types it: case and spaces do not matter. */
export const normalizeCode = (text: string): string => text.trim().toLowerCase();
