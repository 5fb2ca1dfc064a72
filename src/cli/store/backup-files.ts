import { existsSync } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, dirname, join, posix, relative, resolve, sep } from "node:path";
import type { LoadedConfig } from "../../config/load.ts";
import { readEnvironmentProviders } from "../../config/providers.ts";
import { isInside } from "../../core/files.ts";
import { BUILTIN_PLUGINS } from "../../plugin/locations.ts";
import { storeUrl } from "../../store/open.ts";
import { member } from "../settings.ts";

/** Packages and histories come from elsewhere; `..data` are the folders behind the links of a Kubernetes volume. */
const SKIPPED = /^(?:node_modules|\.git|\.\..*)$|\.rouse-[\da-f-]{36}\.tmp$/;
/** In the state folder: of the process that uses it, and what is made again where it is missing. */
const LOCK = /^gateway(?:-\d+)?\.(?:lock(?:-journal)?|json)$|^knowledge-index\.db/;
const SQLITE = "sqlite:";

function* findStrings(value: unknown): Generator<string> {
  if (typeof value === "string") yield value;
  else if (typeof value === "object" && value !== null)
    for (const member of Object.values(value)) yield* findStrings(member);
}

/** The files of a backup. */
export type BackupFiles = Awaited<ReturnType<typeof gatherFiles>>;

/** Gathers what a backup takes of the config's folder and of the state folder. */
export async function gatherFiles(loaded: LoadedConfig) {
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
  const sources = new Map(databases);
  const notTaken: string[] = [];
  const isSkipped = (at: string, name: string): boolean =>
    SKIPPED.test(name) ||
    at === baseDir ||
    live.includes(at) ||
    (dirname(at) === stateDir && LOCK.test(name)) ||
    (!isOwn && dirname(at) === baseDir && !named.has(name));
  const walk = async (folder: string): Promise<void> => {
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      const at = join(folder, entry.name);
      const found = await stat(at).catch(() => undefined);
      if (!found || isSkipped(at, entry.name)) continue;
      const path = toPath(at);
      if (entry.isSymbolicLink() && found.isDirectory()) notTaken.push(at);
      else if (found.isDirectory()) {
        sources.set(`${path}/`, at);
        await walk(at);
      } else if (found.isFile()) sources.set(path, at);
    }
  };
  await walk(baseDir);
  if (!isInside(baseDir, stateDir) && existsSync(stateDir)) {
    sources.set(`${state}/`, stateDir);
    await walk(stateDir);
  }
  // The config comes last: a restore that was interrupted has none.
  if (file !== undefined && sources.delete(basename(file))) sources.set(basename(file), file);
  const others = [...findStrings(written), ...loaded.files].map((text) => resolve(baseDir, text));
  const isTaken = (at: string): boolean => isInside(baseDir, at) || isInside(stateDir, at);
  for (const at of new Set(others))
    if (!isTaken(at) && !isInside(at, baseDir) && existsSync(at)) notTaken.push(at);
  return {
    /** The paths of files and folders on this machine, by their paths in the archive. */
    sources,
    /** Those of databases, which are copied first. */
    databases,
    /** The paths of the config, the state and the store in the archive. */
    places: {
      config: file === undefined ? null : basename(file),
      state,
      store: existsSync(storeFile) ? toPath(storeFile) : null,
      isStoreElsewhere: isNamed && config.store.url?.startsWith(SQLITE) !== true,
    },
    /** Paths that the config names outside of these folders, and folders behind links. */
    notTaken,
  };
}

/** Names the variables that the config refers to, and those with the keys of providers. */
export function findVariables(
  { written }: LoadedConfig,
  env: Record<string, string | undefined>,
): string[] {
  const texts = [...findStrings(written)].join("\n");
  const named = [...texts.matchAll(/(?<!\$)\$\{([A-Za-z_]\w*)\}/g)].map(([, name = ""]) => name);
  const keys = readEnvironmentProviders(BUILTIN_PLUGINS).flatMap(({ variables }) => variables);
  return [...new Set([...named, ...keys.filter((name) => env[name])])];
}
