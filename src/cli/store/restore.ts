import { createWriteStream, existsSync, readdirSync } from "node:fs";
import { chmod, mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { buffer } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { renderIssue } from "../../config/issues.ts";
import { findConfig } from "../../config/load.ts";
import { RouseError } from "../../core/errors.ts";
import { isInside } from "../../core/files.ts";
import { checkSnapshot } from "../../gateway/validate-config.ts";
import { acquireLock } from "../../store/lock.ts";
import { storeUrl } from "../../store/open.ts";
import {
  MANIFEST,
  openArchive,
  readPassphrase,
  type ArchiveEntry,
  type Manifest,
} from "./archive.ts";
import { answering } from "../command.ts";
import { usage } from "../failure.ts";
import type { CliIo } from "../io.ts";
import { printLines } from "../print.ts";
import { createProgress } from "../progress.ts";
import { findStore, toSnapshotOptions } from "../settings.ts";
import { bytes, localTime, shellWord } from "../text.ts";

/** Is there for as long as a restore has not ended. */
const UNFINISHED = ".rouse-restore";

/**
 * Reads an archive to its end, before anything is written.
 * @throws RouseError `usage` if it is damaged, no backup, or has a path that leads out of its folder.
 */
async function check(file: string, entries: AsyncIterable<ArchiveEntry>) {
  let manifest: Manifest | undefined;
  const paths: string[] = [];
  let total = 0;
  try {
    for await (const { path, size, content } of entries) {
      if (manifest === undefined) {
        if (path !== MANIFEST) throw usage(`${file} is no backup of \`rouse backup\``);
        manifest = JSON.parse((await buffer(content)).toString()) as Manifest;
        continue;
      }
      paths.push(path);
      total += size;
    }
  } catch (error) {
    if (error instanceof RouseError) throw error;
    throw usage(`${file} is damaged or not complete; nothing was written`);
  }
  if (manifest?.version !== 1) throw usage(`${file} is a backup of a newer program: update Rouse`);
  const { config, state, store } = manifest;
  for (const path of [...paths, config ?? "", state, store ?? ""])
    if (!isInside("/-", resolve("/-", path)) || path.includes("\\"))
      throw usage(`${file} has a path that leads out of its folder: ${path}`);
  return { manifest, paths, bytes: total };
}

/** @throws RouseError `usage` if a folder has what a restore would replace. What an unfinished restore has left may be replaced. */
function checkFolder(folder: string, { manifest, paths }: Awaited<ReturnType<typeof check>>): void {
  const named = manifest.config === null ? undefined : join(folder, manifest.config);
  const config = findConfig({ cwd: folder, env: {} }) ?? named;
  if (config !== undefined && existsSync(config))
    throw usage(`${config} is there already: restore into another folder`);
  if (existsSync(join(folder, UNFINISHED))) return;
  const stateDir = join(folder, manifest.state);
  if (stateDir !== folder && existsSync(stateDir) && readdirSync(stateDir).length > 0)
    throw usage(`${stateDir} has the state of a gateway already: restore into another folder`);
  const there = paths.find((path) => !path.endsWith("/") && existsSync(join(folder, path)));
  if (there !== undefined)
    throw usage(`${join(folder, there)} is there already: restore into another folder`);
}

async function write(
  folder: string,
  entries: AsyncIterable<ArchiveEntry>,
  onWritten: (size: number) => void,
): Promise<void> {
  for await (const { path, mode, size, content } of entries) {
    if (path === MANIFEST) continue;
    const at = join(folder, path);
    if (path.endsWith("/")) await mkdir(at, { recursive: true });
    else {
      await mkdir(dirname(at), { recursive: true });
      await pipeline(content, createWriteStream(at, { mode: 0o600, flush: true }));
    }
    await chmod(at, path.endsWith("/") ? mode | 0o700 : mode);
    onWritten(size);
  }
}

/** Says what has to be moved, since the config has its place elsewhere than in the folder. */
async function findMoves(folder: string, manifest: Manifest, io: CliIo): Promise<string[]> {
  const config = manifest.config === null ? {} : { config: manifest.config };
  const now = await findStore(config, { ...io, cwd: folder }).catch(() => undefined);
  if (!now) return [];
  const stateDir = join(folder, manifest.state);
  const moves = now.stateDir === stateDir ? [] : [`${stateDir} → ${now.stateDir}`];
  const store = manifest.store === null ? undefined : join(folder, manifest.store);
  // That of the state folder moves with it.
  const isUsual = now.url === storeUrl(undefined, now.stateDir);
  if (store !== undefined && !isUsual && now.url !== `sqlite:${store}`)
    moves.push(`${store} → ${now.url.replace("sqlite:", "")}`);
  return moves;
}

/** `rouse restore`: what `rouse backup` has kept, on this machine. */
export const restoreCommand = answering({
  usage: "restore <file> [folder]",
  about:
    "bring a backup back in a folder that has no config and no state (default: this one); its file is checked before anything is written. Run it again if it was interrupted",
  examples: ["rouse restore /backups/rouse.backup /etc/rouse"],
  options: { "--passphrase-file <file>": "the passphrase in it; - reads standard input" },
  config: false,
  async answer(io, options, name, into) {
    const file = resolve(io.cwd, name);
    const folder = resolve(io.cwd, into ?? ".");
    const readEntries = await openArchive(file, () =>
      readPassphrase(options.passphraseFile, io, { isNew: false }),
    );
    const checked = await check(file, readEntries());
    checkFolder(folder, checked);
    const { manifest, paths } = checked;
    await mkdir(folder, { recursive: true });
    const progress = createProgress(io, "restoring");
    const lock = await acquireLock(join(folder, manifest.state));
    try {
      await writeFile(join(folder, UNFINISHED), "");
      let done = 0;
      await write(folder, readEntries(), (size) =>
        progress.update((done += size), `${bytes(done)} of ${bytes(checked.bytes)}`),
      );
      await rm(join(folder, UNFINISHED));
    } finally {
      progress.end();
      lock.release();
    }
    const config = manifest.config === null ? undefined : join(folder, manifest.config);
    const snapshot = await checkSnapshot(toSnapshotOptions({ config }, { ...io, cwd: folder }));
    const issues = snapshot.ok ? [] : snapshot.issues.map((issue) => renderIssue(issue, folder));
    const moves = await findMoves(folder, manifest, io);
    const unset = manifest.variables.filter((variable) => !io.env[variable]);
    const files = paths.filter((path) => !path.endsWith("/")).length;
    return { folder, files, bytes: checked.bytes, ...manifest, unset, moves, issues };
  },
  print(restored, io) {
    const { folder, files, at, config: name } = restored;
    io.out(
      `${folder}  ${files} files, ${bytes(restored.bytes)}, as they were at ${localTime(at)}\n`,
    );
    if (restored.isStoreElsewhere)
      io.out("without the store, which is in another database: restore it with that one's tools\n");
    printLines(io, "not in a backup: set these variables of the environment", restored.unset);
    printLines(io, "move, since the config has it elsewhere", restored.moves);
    printLines(io, "a gateway would not start here before this is right", restored.issues);
    const config = name === null ? undefined : join(folder, name);
    const isFound = config === undefined || config === findConfig({ cwd: io.cwd, env: {} });
    const start = `${io.program ?? "rouse"} start${isFound ? "" : ` -c ${shellWord(config)}`}`;
    io.out(
      `\nStop the gateway that this is a backup of: two would do the same work, and send its replies twice.\nThen start this one:\n  ${start}\n`,
    );
  },
});
