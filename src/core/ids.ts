import { createHash, randomFillSync, randomInt } from "node:crypto";

const ALPHABET = "0123456789abcdefghijklmnopqrstuv";
const POOL = Buffer.allocUnsafe(17 * 256);
let offset = POOL.length;

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

function base32Time(ms: number): string {
  let text = "";
  let rest = ms;
  for (let i = 0; i < 9; i++) {
    text = ALPHABET[rest % 32] + text;
    rest = Math.floor(rest / 32);
  }
  return text;
}

let lastMs = -1;
let lastTime = "";

/**
 * A new id: prefix, `_`, nine characters of milliseconds (so that ids sort by time and an index
 * on them grows at its end) and 26 characters of base32hex, 130 random bits.
 */
export function newId(prefix: "req", nowMs?: number): string;
export function newId(prefix: Exclude<IdPrefix, "req">, nowMs: number): string;
export function newId(prefix: IdPrefix, nowMs?: number): string {
  if (offset + 17 > POOL.length) {
    randomFillSync(POOL);
    offset = 0;
  }
  if (nowMs !== undefined && nowMs !== lastMs) {
    lastMs = nowMs;
    lastTime = base32Time(nowMs);
  }
  // Requests are neither stored nor sorted by their ids: chance takes the place of the time.
  let text = `${prefix}_${nowMs === undefined ? base32Time(randomInt(32 ** 9)) : lastTime}`;
  let bits = 0;
  let value = 0;
  for (let i = 0, made = 0; made < 26; i++) {
    value = ((value & 0x3ff) << 8) | (POOL[offset + i] ?? 0);
    bits += 8;
    while (bits >= 5 && made < 26) {
      bits -= 5;
      text += ALPHABET[(value >>> bits) & 31];
      made++;
    }
  }
  offset += 17;
  return text;
}

/** Returns the id below which all ids of earlier milliseconds lie, and none of later ones. */
export const firstIdOf = (prefix: Exclude<IdPrefix, "req">, ms: number): string =>
  `${prefix}_${base32Time(Math.min(Math.max(0, Math.ceil(ms)), 32 ** 9 - 1))}${"0".repeat(26)}`;

/** Returns the id that this seed always has: it sorts by `ms`, as those that `newId` makes. */
export function seededId(prefix: Exclude<IdPrefix, "req">, ms: number, seed: string): string {
  const digest = createHash("sha256").update(seed).digest();
  return `${prefix}_${base32Time(ms)}${Array.from(digest.subarray(0, 26), (byte) => ALPHABET[byte & 31]).join("")}`;
}

/** A fresh 128-bit value in hex, for the markers of the external-content boundary and for tokens' names. */
export function randomHex128(): string {
  return randomFillSync(Buffer.allocUnsafe(16)).toString("hex");
}
