/**
 * PostgreSQL's text holds every character but U+0000, which a sender may well write (`"\u0000"` in JSON). It is kept as
 * a character that Unicode promises never to use, which itself is kept doubled, so that nothing is lost.
 */
const MARK = "\u{10FFFF}";

function encodeNul(text: string): string {
  if (!text.includes("\0") && !text.includes(MARK)) return text;
  return text.replaceAll(MARK, `${MARK}1`).replaceAll("\0", `${MARK}0`);
}

export function decodeNul(text: string): string {
  if (!text.includes(MARK)) return text;
  return text.replaceAll(`${MARK}0`, "\0").replaceAll(`${MARK}1`, MARK);
}

/** A statement's value, or a list of them, fit for PostgreSQL. */
export function encodeValue(value: unknown): unknown {
  if (typeof value === "string") return encodeNul(value);
  return Array.isArray(value) ? value.map(encodeValue) : value;
}

/**
 * Lists as PostgreSQL takes them in binary (`array_recv` in its `arrayfuncs.c`: one dimension, a flag for nulls, the
 * type, the length, the first index, then each element with its length). As text each element is quoted here and read
 * character by character there, which costs more than all else of a statement that carries JSON.
 */
const HEADER = 20;
const NULL = -1;

/** The encoding of the elements of one type. `size`: in bytes, or undefined for a value that the type does not have. */
interface Element {
  oid: number;
  size(value: unknown): number | undefined;
  write(value: unknown, into: Buffer, at: number): void;
}

const TWO_32 = 2 ** 32;
const ELEMENTS: Record<string, Element> = {
  text: {
    oid: 25,
    size: (value) => (typeof value === "string" ? Buffer.byteLength(value) : undefined),
    write: (value, into, at) => void into.write(value as string, at),
  },
  bytea: {
    oid: 17,
    size: (value) => (value instanceof Uint8Array ? value.byteLength : undefined),
    write: (value, into, at) => into.set(value as Uint8Array, at),
  },
  bigint: {
    oid: 20,
    size: (value) => (Number.isSafeInteger(value) ? 8 : undefined),
    write(value, into, at) {
      into.writeInt32BE(Math.floor((value as number) / TWO_32), at);
      into.writeUInt32BE((value as number) >>> 0, at + 4);
    },
  },
  int: {
    oid: 23,
    size: (value) => ((value as number) >> 0 === value ? 4 : undefined),
    write: (value, into, at) => void into.writeInt32BE(value as number, at),
  },
  boolean: {
    oid: 16,
    size: (value) => (typeof value === "boolean" ? 1 : undefined),
    write: (value, into, at) => void into.writeUInt8(Number(value), at),
  },
};

/**
 * A list of `type` (as it is named in a cast) in binary; undefined for a type that is not known here, and where an
 * element is no value of it: as text PostgreSQL decides on it.
 */
export function binaryList(type: string, list: readonly unknown[]): Buffer | undefined {
  const element = ELEMENTS[type];
  if (!element) return undefined;
  const values =
    type === "text"
      ? list.map((value) => (typeof value === "string" ? encodeNul(value) : value))
      : list;
  const sizes: number[] = [];
  let total = HEADER;
  let nulls = 0;
  for (const value of values) {
    const size = value === null || value === undefined ? NULL : element.size(value);
    if (size === undefined) return undefined;
    if (size === NULL) nulls = 1;
    sizes.push(size);
    total += 4 + Math.max(0, size);
  }
  const into = Buffer.allocUnsafe(total);
  into.writeInt32BE(values.length > 0 ? 1 : 0, 0);
  into.writeInt32BE(nulls, 4);
  into.writeInt32BE(element.oid, 8);
  if (values.length === 0) return into.subarray(0, 12);
  into.writeInt32BE(values.length, 12);
  into.writeInt32BE(1, 16);
  let at = HEADER;
  for (const [n, size] of sizes.entries()) {
    into.writeInt32BE(size, at);
    at += 4;
    if (size === NULL) continue;
    element.write(values[n], into, at);
    at += size;
  }
  return into;
}
