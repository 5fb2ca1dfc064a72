import { createHash } from "node:crypto";

const MODULUS = 1n << 256n;

/** A hash of rows that does not depend on their order: the sum of their SHA-256s. */
export class RowsHash {
  #sum = 0n;
  rows = 0;

  add(values: readonly unknown[]): void {
    const hash = createHash("sha256");
    for (const value of values) {
      if (value === null || value === undefined) hash.update("n;");
      else if (value instanceof Uint8Array) hash.update(`b${value.byteLength}:`).update(value);
      else {
        // Numbers and texts alone are left.
        const text = JSON.stringify(value);
        hash.update(`j${text.length}:${text}`);
      }
    }
    this.#sum = (this.#sum + BigInt(`0x${hash.digest("hex")}`)) % MODULUS;
    this.rows++;
  }

  get hex(): string {
    return this.#sum.toString(16).padStart(64, "0");
  }
}
