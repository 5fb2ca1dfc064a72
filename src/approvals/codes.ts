import { randomInt } from "node:crypto";

/** No two of these characters look alike, and they form no words. */
const ALPHABET = "23456789abcdef";
const MIN_LENGTH = 3;

/** Creates a code for people to type. The store refuses the code of an open approval; each further try is one character longer. */
export const createCode = (tries = 0): string =>
  Array.from({ length: MIN_LENGTH + tries }, () => ALPHABET[randomInt(ALPHABET.length)]).join("");

/** A code as a person types it: case and white space do not matter. */
export const normalizeCode = (text: string): string => text.trim().toLowerCase();
