import { existsSync } from "node:fs";
import { chmod, mkdir, open, rm, stat, readdir } from "node:fs/promises";
import { basename, join, resolve, dirname, posix, relative, sep } from "node:path";
import { Readable } from "node:stream";
import { loadConfig, type LoadedConfig } from "../../config/load.ts";
import { isInside } from "../../core/files.ts";
import { temporaryName } from "../../core/replace-file.ts";
import { VERSION } from "../../core/version.ts";
import { copyDatabase } from "../../store/sqlite/copy-database.ts";
import {
  MANIFEST,
  writeArchive,
  type ArchiveEntry,
  type Manifest,
  fitsArchive,
} from "./archive.ts";
import { answering, type Given } from "../command.ts";
import { connected, read } from "../gateway/connect.ts";
import { usage } from "../failure.ts";
import type { CliIo } from "../io.ts";
import { readPassphrase } from "../options.ts";
import { printLines } from "../print.ts";
import { createProgress, type ProgressLine } from "../progress.ts";
import { configInvalid, toLoadOptions, member } from "../settings.ts";
import { bytes } from "../text.ts";
import { homedir } from "node:os";
import { renderPath } from "../../config/issues.ts";
import { readJson5 } from "../../config/json5.ts";
import { mask } from "../../config/mask.ts";
import { readEnvironmentProviders } from "../../config/providers.ts";
import { configSchema } from "../../config/schema/index.ts";
import { mappingFileSchema } from "../../config/schema/mapping.ts";
import { resolveReferences, VARIABLE_REFERENCE } from "../../config/secrets.ts";
import { BUILTIN_PLUGINS } from "../../plugin/locations.ts";
import { storeUrl } from "../../store/open.ts";

/** Packages and histories come from elsewhere; `..data` are the folders behind the links of a Kubernetes volume. */
const SKIPPED = /^(?:node_modules|\.git|\.\..*)$|\.rouse-[\da-f-]{36}\.tmp$/;
/** In the state folder: of the process that uses it, and what is made again where it is missing. */
const LOCK = /^gateway(?:-\d+)?\.(?:lock(?:-journal)?|json)$|^knowledge-index\.db/;
const SQLITE = "sqlite:";
/** Files beside a config that people keep secrets in, though Rouse reads none of them by itself. */
const SECRET_FILE = /^\.env|^\.npmrc$|\.(?:pem|key|p12|pfx)$/;

function* findStrings(value: unknown): Generator<string> {
  if (typeof value === "string") yield value;
  else if (typeof value === "object" && value !== null)
    for (const member of Object.values(value)) yield* findStrings(member);
}

/** The paths of secrets that are written out. */
function findLiterals(value: unknown, masked: unknown, path: PropertyKey[] = []): string[] {
  if (typeof value === "string")
    return value === masked || VARIABLE_REFERENCE.test(value) ? [] : [renderPath(path)];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, one]) =>
    findLiterals(one, member(masked, key), [...path, Array.isArray(value) ? Number(key) : key]),
  );
}

/**
 * Finds the files that the config and the mapping files take secrets from.
 * @throws RouseError `usage` if a secret is written out in one of them.
 */
async function findSecretFiles(
  { file: configFile, baseDir, config }: LoadedConfig,
  env: Record<string, string | undefined>,
): Promise<Set<string>> {
  const { mappingsDir } = config.hooks;
  const names = await readdir(mappingsDir, { recursive: true }).catch(() => []);
  const mappings = names.filter((name) => /\.json5?$/.test(name));
  const secretFiles = new Set<string>();
  const literals: string[] = [];
  for (const file of [configFile, ...mappings.map((name) => join(mappingsDir, name))]) {
    const parsed = file === undefined ? undefined : readJson5(file);
    if (file === undefined || !parsed?.ok) continue;
    for (const secret of resolveReferences(parsed.value, { env, baseDir }).files)
      secretFiles.add(secret);
    const schema = file === configFile ? configSchema : mappingFileSchema;
    const found = findLiterals(parsed.value, mask(parsed.value, [schema]));
    literals.push(...found.map((path) => `${relative(baseDir, file)}: ${path}`));
  }
  if (literals.length > 0)
    throw usage(
      `--without-secrets: these secrets are written out: ${literals.join(", ")}. Write { file: "…" } or "\${NAME}" in their place, or encrypt the backup with --passphrase-file`,
    );
  return secretFiles;
}

/** What a backup takes. */
interface BackupFiles {
  /** Where the files and folders of the archive are, by their paths in it. */
  sources: Map<string, string>;
  /** Those of databases, which are copied first. */
  databases: Map<string, string>;
  /** Where the config, the state and the store are in the archive. */
  places: Pick<Manifest, "config" | "state" | "store" | "isStoreElsewhere">;
  leftOut: string[];
  /** What the config names outside of these folders, and folders behind links. */
  notTaken: string[];
}

/** Gathers what a backup takes of the config's folder and of the state folder. Leaves secrets out if their files are given. */
async function gatherFiles(
  loaded: LoadedConfig,
  secretFiles: ReadonlySet<string> | undefined,
): Promise<BackupFiles> {
  const { file, baseDir, stateDir, config, written } = loaded;
  const from = (folder: string, at: string): string => relative(folder, at).split(sep).join("/");
  const state = isInside(baseDir, stateDir) ? from(baseDir, stateDir) : ".rouse";
  const toPath = (at: string): string => {
    if (isInside(baseDir, at)) return from(baseDir, at);
    return posix.join(state, isInside(stateDir, at) ? from(stateDir, at) : basename(at));
  };
  const url = storeUrl(config.store.url, stateDir);
  const storeFile = url.startsWith(SQLITE) ? url.slice(SQLITE.length) : "";
  const files = [storeFile, join(stateDir, "knowledge.db")];
  const databases = new Map(files.filter((at) => existsSync(at)).map((at) => [toPath(at), at]));
  const live = [...databases.values()].flatMap((at) => [at, `${at}-wal`, `${at}-shm`]);

  const { mappingsDir, testsDir, transformsDir } = config.hooks;
  const parts = [mappingsDir, testsDir, transformsDir, stateDir, ...loaded.files];
  const named = new Set(["plugins", ...parts.map((at) => from(baseDir, at).split("/")[0])]);
  // A folder that is not the config's alone has much that is not the gateway's.
  const isOwn = file !== undefined && baseDir !== homedir() && dirname(baseDir) !== baseDir;

  const isNamed = member(member(written, "store"), "url") !== undefined;
  const gathered: BackupFiles = {
    sources: new Map(databases),
    databases,
    places: {
      config: file === undefined ? null : basename(file),
      state,
      store: existsSync(storeFile) ? toPath(storeFile) : null,
      isStoreElsewhere: isNamed && config.store.url?.startsWith(SQLITE) !== true,
    },
    leftOut: [],
    notTaken: [],
  };
  const isSkipped = (at: string, name: string): boolean =>
    SKIPPED.test(name) ||
    at === baseDir ||
    live.includes(at) ||
    (dirname(at) === stateDir && LOCK.test(name)) ||
    (!isOwn && dirname(at) === baseDir && !named.has(name));
  const isSecret = (at: string): boolean =>
    secretFiles !== undefined &&
    (secretFiles.has(at) ||
      SECRET_FILE.test(basename(at)) ||
      (isInside(stateDir, at) && at !== file));
  const walk = async (folder: string): Promise<void> => {
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      const at = join(folder, entry.name);
      const found = await stat(at).catch(() => undefined);
      if (!found || isSkipped(at, entry.name)) continue;
      const path = toPath(at);
      if (!fitsArchive(`${path}/`) || (entry.isSymbolicLink() && found.isDirectory()))
        gathered.notTaken.push(at);
      else if (found.isDirectory()) {
        gathered.sources.set(`${path}/`, at);
        await walk(at);
      } else if (isSecret(at)) gathered.leftOut.push(path);
      else if (found.isFile()) gathered.sources.set(path, at);
    }
  };
  await walk(baseDir);
  if (!isInside(baseDir, stateDir) && existsSync(stateDir)) {
    gathered.sources.set(`${state}/`, stateDir);
    await walk(stateDir);
  }
  // The config comes last: a restore that was interrupted has none.
  if (file !== undefined && gathered.sources.delete(basename(file)))
    gathered.sources.set(basename(file), file);
  const others = [...findStrings(written), ...loaded.files].map((text) => resolve(baseDir, text));
  const isTaken = (at: string): boolean => isInside(baseDir, at) || isInside(stateDir, at);
  for (const at of new Set(others))
    if (!isTaken(at) && !isInside(at, baseDir) && existsSync(at)) gathered.notTaken.push(at);
  return gathered;
}

/** Names the variables that the config refers to, and those with the keys of providers. */
function findVariables(
  { written }: LoadedConfig,
  env: Record<string, string | undefined>,
): string[] {
  const texts = [...findStrings(written)].join("\n");
  const named = [...texts.matchAll(/(?<!\$)\$\{([A-Za-z_]\w*)\}/g)].map(([, name = ""]) => name);
  const keys = readEnvironmentProviders(BUILTIN_PLUGINS).flatMap(({ variables }) => variables);
  return [...new Set([...named, ...keys.filter((name) => env[name])])];
}

const BACKUP_OPTIONS = {
  "--passphrase-file <file>": "encrypt with the passphrase in it; - reads standard input",
  "--without-secrets": "leave secrets out, and encrypt nothing",
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

/** The passphrase that encrypts a backup; undefined if secrets are left out. */
async function choosePassphrase(
  { passphraseFile, withoutSecrets }: Given<typeof BACKUP_OPTIONS>,
  io: CliIo,
): Promise<string | undefined> {
  if (withoutSecrets === true) {
    if (passphraseFile === undefined) return undefined;
    throw usage(
      "--without-secrets: a backup without secrets is not encrypted; leave --passphrase-file away",
    );
  }
  if (passphraseFile === undefined && !io.prompts)
    throw usage(
      "a backup has the secrets in it: add --passphrase-file <file> to encrypt it (- reads standard input), or --without-secrets to leave them out",
    );
  return readPassphrase(passphraseFile, io, { isNew: true });
}

/** Copies the databases into the folder `work`, and writes all into the file. What was written is removed if that fails or is interrupted. */
async function write(
  { file, passphrase, work }: { file: string; passphrase: string | undefined; work: string },
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
  if (options.passphraseFile !== undefined || options.withoutSecrets)
    throw usage("--store copies the database as it is: leave the other options away");
  return connected(options, io, ({ api }) => read(api.store.backup.$post({ json: { file } })));
}

/** `rouse backup`: all that another machine needs, in one file. */
export const backupCommand = answering({
  usage: "backup <file>",
  about:
    "the config's folder, the secrets, and the state with its store in one file, also while the gateway runs; `rouse restore` brings them back. It holds bodies and replies: keep it safe",
  examples: [
    "rouse backup /backups/rouse-$(date +%F).backup",
    "rouse backup --store /backups/rouse-$(date +%F).db",
  ],
  options: BACKUP_OPTIONS,
  async answer(io, options, name) {
    const began = io.now();
    const file = resolve(io.cwd, name);
    if (options.store) return copyStore(file, options, io);
    const result = await loadConfig({ ...toLoadOptions(options, io), withoutSecrets: true });
    const loaded = result.ok ? result : result.rest;
    if (!loaded) throw configInvalid(result.ok ? { issues: [] } : result);
    const { baseDir, stateDir } = loaded;
    if (existsSync(file)) throw usage(`${file} is there already; name a new file`);
    if (isInside(baseDir, file) || isInside(stateDir, file))
      throw usage(`${file} lies in a folder that it would be a backup of; name a file elsewhere`);
    const passphrase = await choosePassphrase(options, io);
    const isEncrypted = passphrase !== undefined;
    const secretFiles = isEncrypted ? undefined : await findSecretFiles(loaded, io.env);
    const files = await gatherFiles(loaded, secretFiles);
    const manifest: Manifest = {
      version: 1,
      program: VERSION,
      at: new Date(began).toISOString(),
      ...files.places,
      leftOut: files.leftOut,
      variables: findVariables(loaded, io.env),
    };
    const work = temporaryName(join(stateDir, "backup"));
    await write({ file, passphrase, work }, files, manifest, io);
    const { size } = await stat(file);
    const seconds = (io.now() - began) / 1000;
    const { notTaken } = files;
    return { file, bytes: size, seconds, isEncrypted, ...manifest, notTaken };
  },
  print(made, io) {
    const { file, bytes: size, seconds } = made;
    const isEncrypted = "isEncrypted" in made && made.isEncrypted;
    io.out(
      `${file}  ${bytes(size)} in ${seconds.toFixed(1)} s${isEncrypted ? ", encrypted" : ""}\n`,
    );
    if (!("notTaken" in made)) {
      const { knowledge } = made;
      if (knowledge) io.out(`${knowledge.database}  documents, ${bytes(knowledge.bytes)}\n`);
      return;
    }
    if (made.isStoreElsewhere)
      io.out(
        "without the store, which is in another database: pg_dump makes a copy of PostgreSQL\n",
      );
    printLines(io, "left out, with --without-secrets", made.leftOut);
    printLines(io, "not in a backup: these variables of the environment", made.variables);
    printLines(io, "not taken, outside of the config's folder", made.notTaken);
  },
});
