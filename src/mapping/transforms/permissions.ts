import { readdirSync, readlinkSync, realpathSync, type Dirent } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { z } from "zod";
import type { transformPermissionsSchema } from "../../config/schema/hooks.ts";
import type { Config } from "../../config/schema/index.ts";
import type { Issue } from "../../core/errors.ts";
import { isInside } from "../../core/files.ts";

/** The grants of `hooks.transformPermissions`; paths are absolute. */
export type GrantedPermissions = z.output<typeof transformPermissionsSchema>;

/** The permissions of a process that runs modules. */
export interface TransformPermissions extends GrantedPermissions {
  /** The folder of the modules, by its real path. */
  folder: string;
  /** Two with the same id are equal. */
  id: string;
}

/** Rouse's compiled files, or its source in a clone. */
const OWN_FILES = fileURLToPath(new URL("../..", import.meta.url));

/** The real path of what is there; a path through links as far as it is there. */
export function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(realPath(parent), relative(parent, path));
  }
}

/** The `node_modules` folders in which Node looks for the packages that a file of a folder imports. */
function packageFolders(folder: string): string[] {
  const parent = dirname(folder);
  return [join(folder, "node_modules"), ...(parent === folder ? [] : packageFolders(parent))];
}

/** The permissions of modules: to read their own folder, packages and Rouse's files, and what the config grants besides. */
export function createPermissions(
  transformsDir: string,
  granted: GrantedPermissions,
): TransformPermissions {
  const folder = realPath(transformsDir);
  const folders = [...new Set([transformsDir, folder])];
  const read = [
    ...folders,
    OWN_FILES,
    ...[...folders, OWN_FILES].flatMap(packageFolders),
    ...granted.read,
  ];
  const permissions = {
    ...granted,
    folder,
    read: [...new Set(read.flatMap((path) => [path, realPath(path)]))],
  };
  return { ...permissions, id: JSON.stringify(permissions) };
}

/** Those of a process that evaluates expressions alone: Rouse's own files. */
export const NO_MODULES = createPermissions(OWN_FILES, {
  read: [],
  write: [],
  childProcess: false,
  worker: false,
  addons: false,
});

/** Returns whether modules may read a file, links followed. */
export function mayRead({ read }: TransformPermissions, path: string): boolean {
  const real = realPath(path);
  return read.some((folder) => isInside(folder, real));
}

/** Reads the entries of a folder. A folder that this process cannot list, a module cannot read either. */
function readEntries(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    return [];
  }
}

/** Node follows links wherever they lead, so that one in a readable folder would open what it points to. */
function* linksIn(folder: string): Generator<string> {
  for (const entry of readEntries(folder)) {
    const path = join(folder, entry.name);
    if (entry.isSymbolicLink()) yield path;
    else if (entry.isDirectory() && entry.name !== "node_modules") yield* linksIn(path);
  }
}

/** Returns the target of a link, also if nothing is there yet. */
const readLinkTarget = (link: string): string =>
  realPath(resolve(dirname(link), readlinkSync(link)));

const FOLDER = "hooks.transformsDir";

/** Returns the reason that modules cannot be confined to their folder. */
function findOpening(
  { folder, read, write, ...rest }: TransformPermissions,
  secrets: readonly SecretPlace[],
): string | undefined {
  const exposed = secrets.find(({ path }) => isInside(folder, realPath(path)));
  if (exposed)
    return `contains ${exposed.what} (${exposed.path}), which modules could then read: use a folder that holds modules alone`;
  const wildcard = [...read, ...write].find((path) => path.includes("*"));
  if (wildcard !== undefined)
    return `modules cannot be confined to ${wildcard}: Node takes the * in its name for any text; rename it`;
  const open = [...linksIn(folder)].find(
    (link) => !mayRead({ folder, read, write, ...rest }, readLinkTarget(link)),
  );
  if (open === undefined) return undefined;
  return `contains the link ${relative(folder, open)}, which leads to ${readLinkTarget(open)}: put a copy there, or grant the place with hooks.transformPermissions.read`;
}

/** A place that transform modules must not see: the config file, the state folder and the like. */
export interface SecretPlace {
  what: string;
  path: string;
}

/** Returns the places of a gateway's secrets. */
export function getSecretPlaces(
  { stateDir, store }: Config,
  file: string | undefined,
): SecretPlace[] {
  const database = store.url?.startsWith("sqlite:") ? store.url.slice("sqlite:".length) : undefined;
  return [
    ...(file === undefined ? [] : [{ what: "the config file", path: file }]),
    ...(stateDir === undefined ? [] : [{ what: "the state folder", path: stateDir }]),
    ...(database === undefined ? [] : [{ what: "the database", path: database }]),
  ];
}

/** Checks that modules are kept apart from secrets. What the config grants on purpose is only a warning. */
export function checkPlaces(
  permissions: TransformPermissions,
  secrets: readonly SecretPlace[],
): { issues: Issue[]; warnings: Issue[] } {
  const opening = findOpening(permissions, secrets);
  const granted = secrets.filter(({ path }) => mayRead(permissions, path));
  return {
    issues: opening === undefined ? [] : [{ path: FOLDER, message: opening }],
    warnings: granted.map(({ what, path }) => ({
      path: "hooks.transformPermissions.read",
      message: `lets transform modules read ${what} (${path}): name only what they need`,
    })),
  };
}
