import { existsSync } from "node:fs";
import { chmod, mkdir, open, rm, stat } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { Readable } from "node:stream";
import { isInside } from "../../core/files.ts";
import { temporaryName } from "../../core/replace-file.ts";
import { VERSION } from "../../core/version.ts";
import { copyDatabase } from "../../store/sqlite/copy-database.ts";
import { answering, type Given } from "../command.ts";
import { connected, read } from "../gateway/connect.ts";
import { usage } from "../failure.ts";
import type { CliIo } from "../io.ts";
import { printLines } from "../print.ts";
import { createProgress, type ProgressLine } from "../progress.ts";
import { loadWithoutSecrets } from "../settings.ts";
import { bytes } from "../text.ts";
import {
  MANIFEST,
  readPassphrase,
  writeArchive,
  type ArchiveEntry,
  type Manifest,
} from "./archive.ts";
import { findVariables, gatherFiles, type BackupFiles } from "./backup-files.ts";

const BACKUP_OPTIONS = {
  "--passphrase-file <file>": "encrypt with the passphrase in it; - reads standard input",
  "--store":
    "a copy of the store alone, with one of the documents beside it, if there are any; on PostgreSQL use pg_dump",
} as const;

async function* readEntries(
  manifest: Manifest,
  sources: ReadonlyMap<string, string>,
  progress: ProgressLine,
): AsyncGenerator<ArchiveEntry> {
  const content = Buffer.from(JSON.stringify(manifest, null, 2));
  yield { path: MANIFEST, mode: 0o600, size: content.length, content: Readable.from([content]) };
  let done = 0;
  for (const [path, at] of sources) {
    await using handle = await open(at).catch((error: NodeJS.ErrnoException) => {
      // It was there a moment ago.
      if (error.code === "ENOENT") return undefined;
      throw error;
    });
    if (!handle) continue;
    const found = await handle.stat();
    const size = path.endsWith("/") ? 0 : found.size;
    const chunks = size === 0 ? [] : handle.createReadStream({ end: size - 1, autoClose: false });
    yield { path, mode: found.mode & 0o777, size, content: Readable.from(chunks) };
    done += size;
    progress.update(done, bytes(done));
  }
}

/** Copies the databases into the folder `work`, and writes all into the file. What was written is removed if that fails or is interrupted. */
async function write(
  { file, passphrase, work }: Readonly<Record<"file" | "passphrase" | "work", string>>,
  { sources, databases }: BackupFiles,
  manifest: Manifest,
  io: CliIo,
): Promise<void> {
  const progress = createProgress(io, "backing up");
  const stop = new AbortController();
  const undo = io.onInterrupt?.(() => stop.abort());
  try {
    await mkdir(work, { recursive: true, mode: 0o700 });
    for (const [path, at] of databases) {
      const copy = join(work, basename(path));
      await copyDatabase(at, copy);
      await chmod(copy, 0o600);
      sources.set(path, copy);
    }
    const entries = readEntries(manifest, sources, progress);
    await writeArchive(file, entries, passphrase, stop.signal);
  } catch (error) {
    await rm(file, { force: true });
    throw stop.signal.aborted ? usage("stopped; nothing was written") : error;
  } finally {
    undo?.();
    progress.end();
    await rm(work, { recursive: true, force: true });
  }
}

/** Has the gateway copy its database. */
function copyStore(file: string, options: Given<typeof BACKUP_OPTIONS>, io: CliIo) {
  if (options.passphraseFile !== undefined)
    throw usage("--store copies the database as it is: leave --passphrase-file away");
  return connected(options, io, ({ api }) => read(api.store.backup.$post({ json: { file } })));
}

/** `rouse backup`: all that another machine needs, in one file. */
export const backupCommand = answering({
  usage: "backup <file>",
  about:
    "the config's folder, the secrets, and the state with its store in one encrypted file, also while the gateway runs; `rouse restore` brings them back. It holds bodies and replies: keep it safe",
  examples: [
    "rouse backup /backups/rouse-$(date +%F).backup",
    "rouse backup --store /backups/rouse-$(date +%F).db",
  ],
  options: BACKUP_OPTIONS,
  async answer(io, options, name) {
    const began = io.now();
    const file = resolve(io.cwd, name);
    if (options.store) return copyStore(file, options, io);
    const loaded = await loadWithoutSecrets(options, io);
    const { baseDir, stateDir } = loaded;
    if (existsSync(file)) throw usage(`${file} is there already; name a new file`);
    if (isInside(baseDir, file) || isInside(stateDir, file))
      throw usage(`${file} lies in a folder that it would be a backup of; name a file elsewhere`);
    const passphrase = await readPassphrase(options.passphraseFile, io, { isNew: true });
    const files = await gatherFiles(loaded);
    const manifest: Manifest = {
      version: 1,
      program: VERSION,
      at: new Date(began).toISOString(),
      ...files.places,
      variables: findVariables(loaded, io.env),
    };
    const work = temporaryName(join(stateDir, "backup"));
    await write({ file, passphrase, work }, files, manifest, io);
    const { size } = await stat(file);
    const seconds = (io.now() - began) / 1000;
    const { notTaken } = files;
    return { file, bytes: size, seconds, ...manifest, notTaken };
  },
  print(made, io) {
    const { file, bytes: size, seconds } = made;
    io.out(`${file}  ${bytes(size)} in ${seconds.toFixed(1)} s\n`);
    if (!("notTaken" in made)) {
      const { knowledge } = made;
      if (knowledge) io.out(`${knowledge.database}  documents, ${bytes(knowledge.bytes)}\n`);
      return;
    }
    if (made.isStoreElsewhere)
      io.out(
        "without the store, which is in another database: pg_dump makes a copy of PostgreSQL\n",
      );
    printLines(io, "not in a backup: these variables of the environment", made.variables);
    printLines(io, "not taken, outside of the config's folder", made.notTaken);
  },
});
