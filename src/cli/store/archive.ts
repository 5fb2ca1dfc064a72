import { createCipheriv, createDecipheriv, randomBytes, scrypt } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { open } from "node:fs/promises";
import { pipeline as join } from "node:stream";
import { buffer } from "node:stream/consumers";
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

/** The first bytes of an archive. A salt, what tells a wrong passphrase, the ciphertext and the tag of AES-256-GCM follow. */
const MAGIC = Buffer.from("rouse-backup-2\n");
const SALT_BYTES = 16;
const CHECK_BYTES = 16;
const TAG_BYTES = 16;
const HEAD_BYTES = MAGIC.length + SALT_BYTES + CHECK_BYTES;
/** The bytes that say how long the fields of an entry are. */
const LENGTH_BYTES = 4;

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

/** Renders the fields of an entry: their length, and JSON. */
function renderHead(entry: Omit<ArchiveEntry, "content">): Buffer {
  const head = Buffer.from(JSON.stringify(entry));
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32BE(head.length);
  return Buffer.concat([length, head]);
}

async function* pack(entries: AsyncIterable<ArchiveEntry>): AsyncGenerator<Buffer> {
  for await (const { content, ...entry } of entries) {
    yield renderHead(entry);
    let written = 0;
    for await (const chunk of content) {
      written += chunk.length;
      yield chunk;
    }
    if (written !== entry.size)
      throw usage(`${entry.path} became shorter while it was read: run the backup again`);
  }
  yield Buffer.alloc(LENGTH_BYTES);
}

/** Writes an archive into a new file (mode 0600): compressed, and encrypted. */
export async function writeArchive(
  file: string,
  entries: AsyncIterable<ArchiveEntry>,
  passphrase: string,
  signal: AbortSignal,
): Promise<void> {
  async function* encrypt(source: Bytes): AsyncGenerator<Buffer> {
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
  for (;;) {
    const length = (await buffer(take(LENGTH_BYTES))).readUInt32BE();
    if (length === 0) break;
    const head = JSON.parse((await buffer(take(length))).toString()) as Omit<
      ArchiveEntry,
      "content"
    >;
    const content = take(head.size);
    yield { ...head, content };
    for await (const _rest of content);
  }
  // The end of the stream is where gzip and AES find out whether all of it is as it was written.
  while (!(await chunks.next()).done);
}

/**
 * Opens an archive; returns what reads it from its beginning, as often as needed.
 * @throws RouseError `usage` if the file is no backup, or the passphrase is another one.
 */
export async function openArchive(
  file: string,
  getPassphrase: () => Promise<string>,
): Promise<() => AsyncGenerator<ArchiveEntry>> {
  const head = Buffer.alloc(HEAD_BYTES);
  const tag = Buffer.alloc(TAG_BYTES);
  await using handle = await open(file, "r");
  const { size } = await handle.stat();
  await handle.read(head, 0, HEAD_BYTES, 0);
  if (!head.subarray(0, MAGIC.length).equals(MAGIC))
    throw usage(`${file} is no backup: \`rouse backup\` makes one`);
  await handle.read(tag, 0, TAG_BYTES, Math.max(0, size - TAG_BYTES));
  const salt = head.subarray(MAGIC.length, MAGIC.length + SALT_BYTES);
  const { key, nonce, check } = await derive(await getPassphrase(), salt);
  if (!check.equals(head.subarray(MAGIC.length + SALT_BYTES)))
    throw usage(`${file} was encrypted with another passphrase`);
  async function* decrypt(source: Bytes): AsyncGenerator<Buffer> {
    const decipher = createDecipheriv("aes-256-gcm", key, nonce).setAuthTag(tag);
    for await (const chunk of source) yield decipher.update(chunk);
    yield decipher.final();
  }
  return async function* () {
    const source = createReadStream(file, { start: HEAD_BYTES, end: size - TAG_BYTES - 1 });
    yield* unpack(join(source, decrypt, createGunzip(), () => undefined));
  };
}
