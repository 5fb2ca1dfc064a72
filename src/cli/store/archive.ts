import { createCipheriv, createDecipheriv, randomBytes, scrypt } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { open } from "node:fs/promises";
import { pipeline as join } from "node:stream";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import { createGunzip, createGzip } from "node:zlib";
import { describeShortSecret } from "../../core/secret.ts";
import { usage } from "../failure.ts";
import type { CliIo } from "../io.ts";
import { readSecret } from "../options.ts";

/** A file of an archive, or a folder: its path ends with a slash. */
export interface ArchiveEntry {
  path: string;
  mode: number;
  size: number;
  content: AsyncIterable<Buffer>;
}

/** The first entry of a backup: what the archive is, as JSON. */
export const MANIFEST = ".rouse-backup.json";

export interface Manifest {
  version: 1;
  /** The version of the program that made it. */
  program: string;
  at: string;
  /** Paths in the archive: of the config, the state folder and the store's file. Null if there is none. */
  config: string | null;
  state: string;
  store: string | null;
  /** The store is outside of the archive, in a database such as PostgreSQL. */
  isStoreElsewhere: boolean;
  /** The secrets that were left out, by their paths. */
  leftOut: string[];
  /** The variables of the environment that the config needs. */
  variables: string[];
}

const LEAST_PASSPHRASE = 12;

/**
 * Reads a passphrase from a file, or asks for it: twice if it is a new one.
 * @throws RouseError `usage` if it is too short, or there is no terminal to ask in.
 */
export async function readPassphrase(
  file: string | undefined,
  io: CliIo,
  { isNew }: { isNew: boolean },
): Promise<string> {
  const check = (text: string): string | undefined =>
    text.length < LEAST_PASSPHRASE ? describeShortSecret(text, LEAST_PASSPHRASE) : undefined;
  if (file !== undefined) {
    const text = await readSecret(file, io);
    const problem = check(text);
    if (problem !== undefined) throw usage(`--passphrase-file: ${problem}`);
    return text;
  }
  if (!io.prompts) throw usage("the backup is encrypted: add --passphrase-file <file>");
  const passphrase = await io.prompts.password({
    message: isNew ? "A passphrase that encrypts the backup" : "The passphrase of the backup",
    check,
  });
  if (isNew)
    await io.prompts.password({
      message: "The same again; without it, the backup cannot be read",
      check: (text) => (text === passphrase ? undefined : "it is another one"),
    });
  return passphrase;
}

type Bytes = AsyncIterable<Buffer>;

const BLOCK = 512;
/** Longer sizes do not fit into the eleven octal digits of a header. */
const OCTAL_BYTES = 8 ** 11;
/** The first bytes of an encrypted archive. A salt, the ciphertext and the tag of AES-256-GCM follow. */
const MAGIC = Buffer.from("rouse-backup-1\n");
const SALT_BYTES = 16;
const TAG_BYTES = 16;

const deriveKey = promisify<string, Buffer, number, object, Buffer>(scrypt);

/** The key, the nonce, and what tells a wrong passphrase. Each archive has a salt of its own, so no nonce comes twice with a key. */
async function derive(
  passphrase: string,
  salt: Buffer,
): Promise<{ key: Buffer; nonce: Buffer; check: Buffer }> {
  const cost = { N: 2 ** 16, r: 8, p: 1, maxmem: 2 ** 27 };
  const derived = await deriveKey(passphrase, salt, 60, cost);
  return {
    key: derived.subarray(0, 32),
    nonce: derived.subarray(32, 44),
    check: derived.subarray(44),
  };
}

/** The index at which a path is split into the two fields of a header; undefined if it is too long for them. */
function cutPath(path: Buffer): number | undefined {
  if (path.length <= 100) return 0;
  const slash = path.indexOf("/", path.length - 101);
  return slash > 0 && slash <= 155 && slash < path.length - 1 ? slash + 1 : undefined;
}

/** True if the archive's format has room for a path. */
export const fitsArchive = (path: string): boolean => cutPath(Buffer.from(path)) !== undefined;

/** The header of an entry as POSIX has it (ustar). */
function renderHeader({ path, mode, size }: Omit<ArchiveEntry, "content">): Buffer {
  const bytes = Buffer.from(path);
  const at = cutPath(bytes) ?? 0;
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, offset: number, digits: number): void =>
    void block.write(value.toString(8).padStart(digits, "0"), offset, "latin1");
  bytes.copy(block, 0, at);
  octal(mode, 100, 7);
  octal(0, 108, 7);
  octal(0, 116, 7);
  if (size < OCTAL_BYTES) octal(size, 124, 11);
  else {
    // As GNU tar writes it, which others read too.
    block.writeUInt8(0x80, 124);
    block.writeBigUInt64BE(BigInt(size), 128);
  }
  octal(Math.floor(Date.now() / 1000), 136, 11);
  block.write(`        ${path.endsWith("/") ? "5" : "0"}`, 148, "latin1");
  block.write("ustar\u000000", 257, "latin1");
  if (at > 0) bytes.copy(block, 345, 0, at - 1);
  octal(
    block.reduce((sum, byte) => sum + byte, 0),
    148,
    6,
  );
  block.writeUInt8(0, 154);
  return block;
}

async function* pack(entries: AsyncIterable<ArchiveEntry>): AsyncGenerator<Buffer> {
  for await (const entry of entries) {
    yield renderHeader(entry);
    let written = 0;
    for await (const chunk of entry.content) {
      written += chunk.length;
      yield chunk;
    }
    if (written !== entry.size)
      throw usage(`${entry.path} became shorter while it was read: run the backup again`);
    yield Buffer.alloc(-written & (BLOCK - 1));
  }
  yield Buffer.alloc(2 * BLOCK);
}

/** Writes an archive into a new file (mode 0600): a tar file with gzip, encrypted if there is a passphrase. */
export async function writeArchive(
  file: string,
  entries: AsyncIterable<ArchiveEntry>,
  passphrase: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  async function* encrypt(source: Bytes): AsyncGenerator<Buffer> {
    if (passphrase === undefined) return yield* source;
    const salt = randomBytes(SALT_BYTES);
    const { key, nonce, check } = await derive(passphrase, salt);
    const cipher = createCipheriv("aes-256-gcm", key, nonce);
    yield Buffer.concat([MAGIC, salt, check]);
    for await (const chunk of source) yield cipher.update(chunk);
    yield cipher.final();
    yield cipher.getAuthTag();
  }
  const output = createWriteStream(file, { flags: "wx", mode: 0o600, flush: true });
  await pipeline(pack(entries), createGzip(), encrypt, output, { signal });
}

async function* unpack(source: Bytes): AsyncGenerator<ArchiveEntry> {
  const chunks = source[Symbol.asyncIterator]();
  await using _ended = { [Symbol.asyncDispose]: async () => void (await chunks.return?.()) };
  let rest: Buffer = Buffer.alloc(0);
  async function* take(length: number): AsyncGenerator<Buffer> {
    for (let left = length; left > 0;) {
      if (rest.length === 0) {
        const { done, value } = await chunks.next();
        if (done) throw new Error("the archive ends early");
        rest = value;
      }
      const part = rest.subarray(0, left);
      rest = rest.subarray(part.length);
      left -= part.length;
      yield part;
    }
  }
  const read = async (length: number): Promise<Buffer> => {
    const parts: Buffer[] = [];
    for await (const part of take(length)) parts.push(part);
    return Buffer.concat(parts);
  };
  for (;;) {
    const block = await read(BLOCK);
    if (block[0] === 0) break;
    const text = (from: number, to: number): string =>
      block.toString("utf8", from, to).replace(/\0.*$/s, "");
    const isLarge = block[124] === 0x80;
    const size = isLarge ? Number(block.readBigUInt64BE(128)) : parseInt(text(124, 136), 8);
    const path = [text(345, 500), text(0, 100)].filter(Boolean).join("/");
    const content = take(size);
    yield { path, mode: parseInt(text(100, 108), 8), size, content };
    for await (const _rest of content);
    await read(-size & (BLOCK - 1));
  }
  // The end of the stream is where gzip and AES find out whether all of it is as it was written.
  while (!(await chunks.next()).done);
}

/**
 * Opens an archive; returns what reads it from its begin, as often as needed. `getPassphrase` is called if it is encrypted.
 * @throws RouseError `usage` if the file is no backup, or the passphrase is another one.
 */
export async function openArchive(
  file: string,
  getPassphrase: () => Promise<string>,
): Promise<() => AsyncGenerator<ArchiveEntry>> {
  const head = Buffer.alloc(MAGIC.length + SALT_BYTES + 16);
  await using handle = await open(file, "r");
  const { size } = await handle.stat();
  await handle.read(head, 0, head.length, 0);
  const isEncrypted = head.subarray(0, MAGIC.length).equals(MAGIC);
  if (!isEncrypted && head.readUInt16BE(0) !== 0x1f8b)
    throw usage(`${file} is no backup: \`rouse backup\` makes one`);
  let decrypt: (source: Bytes) => Bytes = (source) => source;
  const end = size - TAG_BYTES - 1;
  if (isEncrypted && end > head.length) {
    const salt = head.subarray(MAGIC.length, MAGIC.length + SALT_BYTES);
    const { key, nonce, check } = await derive(await getPassphrase(), salt);
    if (!check.equals(head.subarray(MAGIC.length + SALT_BYTES)))
      throw usage(`${file} was encrypted with another passphrase`);
    const tag = Buffer.alloc(TAG_BYTES);
    await handle.read(tag, 0, TAG_BYTES, end + 1);
    decrypt = async function* (source) {
      const decipher = createDecipheriv("aes-256-gcm", key, nonce).setAuthTag(tag);
      for await (const chunk of source) yield decipher.update(chunk);
      yield decipher.final();
    };
  }
  return () => {
    const part = { start: head.length, end: Math.max(head.length, end) };
    const source = createReadStream(file, isEncrypted ? part : {});
    return unpack(join(source, decrypt, createGunzip(), () => undefined));
  };
}
