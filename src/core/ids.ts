import { createHash, randomBytes, randomFillSync, randomInt } from "node:crypto";

const ALPHABET = "0123456789abcdefghijklmnopqrstuv";
const LENGTH = 26;
/** Random bytes for many ids: to ask for those of one takes as long. */
const pool = Buffer.allocUnsafe(LENGTH * 256);
let taken = pool.length;

/** The kinds of id: the prefix tells a reader of a log or a receipt what an id names. */
export type IdPrefix =
  | "evt"
  | "run"
  | "sev"
  | "dlv"
  | "req"
  | "job"
  | "trn"
  | "doc"
  | "gwy"
  | "apr"
  | "rul"
  | "sch"
  | "par"
  | "mem";

/** Nine characters that sort as the milliseconds do. */
const toTimePart = (ms: number): string => ms.toString(32).padStart(9, "0");

/** 26 characters: five bits of each byte. */
function toChancePart(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += ALPHABET[byte & 31];
  return text;
}

/**
 * A new id: prefix, `_`, nine characters of milliseconds (so that ids sort by time and an index
 * on them grows at its end) and 26 characters of base32hex, 130 random bits.
 */
export function newId(prefix: "req", nowMs?: number): string;
export function newId(prefix: Exclude<IdPrefix, "req">, nowMs: number): string;
export function newId(prefix: IdPrefix, nowMs?: number): string {
  if (taken === pool.length) {
    randomFillSync(pool);
    taken = 0;
  }
  const bytes = pool.subarray(taken, (taken += LENGTH));
  // Requests are neither stored nor sorted by their ids: chance takes the place of the time.
  return `${prefix}_${toTimePart(nowMs ?? randomInt(32 ** 9))}${toChancePart(bytes)}`;
}

/** Returns the id below which all ids of earlier milliseconds lie, and none of later ones. */
export const firstIdOf = (prefix: Exclude<IdPrefix, "req">, ms: number): string =>
  `${prefix}_${toTimePart(Math.min(Math.max(0, Math.ceil(ms)), 32 ** 9 - 1))}${"0".repeat(26)}`;

/** Returns the id that this seed always has: it sorts by `ms`, as those that `newId` makes. */
export function seededId(prefix: Exclude<IdPrefix, "req">, ms: number, seed: string): string {
  const digest = createHash("sha256").update(seed).digest();
  return `${prefix}_${toTimePart(ms)}${toChancePart(digest.subarray(0, LENGTH))}`;
}

/** A fresh 128-bit value in hex, for the markers of the external-content boundary and for tokens' names. */
export const randomHex128 = (): string => randomBytes(16).toString("hex");
