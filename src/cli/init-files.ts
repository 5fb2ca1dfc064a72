import { existsSync, readFileSync } from "node:fs";
import { appendFile, mkdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, isAbsolute, join, relative } from "node:path";
import { PACKAGE_ROOT } from "../gateway/snapshot.ts";
import { schemaDocument } from "./config.ts";
import type { InitFolders } from "./init-config.ts";

const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;

/** Whether a module in the folder finds Rouse as a package. */
function isInstalled(folder: string): boolean {
  try {
    createRequire(join(folder, "rouse.json5")).resolve("rouse/package.json");
    return true;
  } catch {
    return false;
  }
}

/** The manifest of a package that Rouse itself finds, and the folder that it is in. */
function ownPackage(name: string): { folder: string; types: string } | undefined {
  try {
    const file = createRequire(join(PACKAGE_ROOT, "package.json")).resolve(`${name}/package.json`);
    const { types = "index.d.ts" } = JSON.parse(readFileSync(file, "utf8")) as { types?: string };
    return { folder: dirname(file), types: join(dirname(file), types) };
  } catch {
    return undefined;
  }
}

/**
 * Compiler options for transforms and plugins in an editor. Modules find Rouse by its package if it is installed in the
 * folder; else the paths say where it is, as the gateway does when it runs them.
 */
function typescriptConfig(folder: string): object {
  const options = {
    target: "es2024",
    module: "nodenext",
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    allowImportingTsExtensions: true,
    types: ["node"],
  };
  const include = ["transforms", "plugins"];
  if (isInstalled(folder)) return { compilerOptions: options, include };
  const source = existsSync(join(PACKAGE_ROOT, "src"));
  const api = (path: string): string[] => [join(PACKAGE_ROOT, source ? `src/${path}.ts` : `dist/src/${path}.d.ts`)];
  const zod = ownPackage("zod");
  const types = ownPackage("@types/node");
  const paths = {
    "rouse/plugin": api("plugin/api"),
    "rouse/channel-kit": api("channel-kit/api"),
    "rouse/transform": api("mapping/api"),
    ...(zod === undefined ? {} : { zod: [zod.types] }),
  };
  return {
    compilerOptions: {
      ...options,
      ...(source
        ? { customConditions: ["rouse-source"], exactOptionalPropertyTypes: true, lib: ["es2024", "esnext.disposable", "esnext.iterator"] }
        : {}),
      ...(types === undefined ? {} : { typeRoots: [dirname(types.folder)] }),
      paths,
    },
    include,
  };
}

function manifest(folder: string): object {
  const { version, devDependencies = {} } = JSON.parse(readFileSync(join(PACKAGE_ROOT, "package.json"), "utf8")) as {
    version: string;
    devDependencies?: Record<string, string>;
  };
  const { typescript, "@types/node": node } = devDependencies;
  const own = { private: true, type: "module" };
  if (!isInstalled(folder)) return own;
  return {
    ...own,
    scripts: { start: "rouse start" },
    dependencies: { rouse: version },
    devDependencies: { "@types/node": node, typescript },
  };
}

/** Adds the lines that a file does not have. */
async function addLines(file: string, lines: readonly string[]): Promise<boolean> {
  const text = existsSync(file) ? readFileSync(file, "utf8") : "";
  const missing = lines.filter((line) => !text.split(/\r?\n/).includes(line));
  if (missing.length === 0) return false;
  await appendFile(file, `${text === "" || text.endsWith("\n") ? "" : "\n"}${missing.join("\n")}\n`);
  return true;
}

/** Writes the files beside the config that are not there yet; returns the names of what it wrote. */
export async function writeFiles({ folder, stateDir }: InitFolders): Promise<string[]> {
  const written: string[] = [];
  for (const name of ["mappings", "transforms", "plugins"]) await mkdir(join(folder, name), { recursive: true });
  const state = relative(folder, stateDir);
  const isInside = state !== "" && !state.startsWith("..") && !isAbsolute(state);
  if (await addLines(join(folder, ".gitignore"), [...(isInside ? [`${state}/`] : []), "node_modules/"])) written.push(".gitignore");
  const files: [string, () => object | Promise<object>][] = [
    ["package.json", () => manifest(folder)],
    ["tsconfig.json", () => typescriptConfig(folder)],
    ["rouse.schema.json", () => schemaDocument(false)],
  ];
  for (const [name, make] of files) {
    const file = join(folder, name);
    if (existsSync(file)) continue;
    await writeFile(file, json(await make()));
    written.push(name);
  }
  return written;
}
