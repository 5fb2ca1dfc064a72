import { hash } from "node:crypto";

/** Bytes of SHA-256 that stand for a text in an index, where the text may be longer than an index takes. */
const BYTES = 16;

export function digest(...parts: readonly string[]): Buffer {
  return hash("sha256", parts.join("\n"), "buffer").subarray(0, BYTES);
}
