import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { PinnedPackage } from "../config/schema/plugin-entry.ts";

/** The record of an installed package. */
export interface InstalledPackage {
  version: string | undefined;
  /** The checksum that npm recorded at the installation; undefined for a folder that is linked, and without npm. */
  integrity: string | undefined;
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return undefined;
  }
}

/** The `node_modules` folder that holds a package for modules in `baseDir`, as Node finds it. */
const findModules = (name: string, baseDir: string): string | undefined =>
  createRequire(join(baseDir, "rouse.json"))
    .resolve.paths(name)
    ?.find((modules) => existsSync(join(modules, name, "package.json")));

/** Returns the version in a package's `package.json` and the integrity that npm recorded; undefined if it is not installed. */
export function readInstalled(name: string, baseDir: string): InstalledPackage | undefined {
  const modules = findModules(name, baseDir);
  if (modules === undefined) return undefined;
  const manifest = readJson(join(modules, name, "package.json")) as
    | { version?: string }
    | undefined;
  const lock = readJson(join(modules, ".package-lock.json")) as
    | { packages?: Record<string, { integrity?: string }> }
    | undefined;
  return {
    version: manifest?.version,
    integrity: lock?.packages?.[`node_modules/${name}`]?.integrity,
  };
}

/** Says what about an installed package is not as the config pins it, and how to accept it; undefined if all is. */
export function findPinProblem(pinned: PinnedPackage, baseDir: string): string | undefined {
  const { package: name, version, integrity } = pinned;
  const installed = readInstalled(name, baseDir);
  const install = `install it with \`npm install --save-exact ${name}@${version}\` in the config's folder`;
  if (!installed) return `the package "${name}" is not installed: ${install}`;
  const accept = `${install}, or accept what is there with \`rouse plugins add ${name}@${installed.version ?? "<version>"}\``;
  if (installed.version !== version)
    return `the version of "${name}" is ${installed.version ?? "unknown"}, and the config pins ${version}: ${accept}`;
  if (installed.integrity === undefined)
    return `npm has recorded no integrity of "${name}" in node_modules/.package-lock.json: ${install}`;
  if (installed.integrity !== integrity)
    return `the content of "${name}" ${version} is not what the config pins (npm recorded the integrity ${installed.integrity}): ${accept}`;
  return undefined;
}
