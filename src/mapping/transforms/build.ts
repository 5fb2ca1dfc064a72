import { basename, isAbsolute, resolve } from "node:path";
import type { BuildFailure, Message, Loader, Plugin } from "esbuild";
import type { Issue } from "../../core/errors.ts";
import { fileStamp } from "../../core/files.ts";
import { sha256Hex } from "../../core/secret.ts";
import { renderExcerpt } from "../excerpt.ts";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { isTypeScript } from "../../plugin/own-modules.ts";
import type { BuiltModule } from "./built-module.ts";
import { mayRead, type TransformPermissions } from "./permissions.ts";

/** A problem of a module, without the path of the mapping that names it. */
export type ModuleProblem = Omit<Issue, "path">;

const MAX_ERRORS = 5;

/** `shop.ts:3:9`, as the compiler names a place below its working folder, counted from 1; then what it says, and the line. */
function renderError({ text, location }: Message): { message: string; excerpt: string } {
  if (!location) return { message: text, excerpt: "" };
  const { file, line, column, lineText } = location;
  // No line of a file outside the folder is shown: it may hold anything.
  if (file.startsWith("..") || isAbsolute(file))
    return { message: `${file}:${line}: it cannot be compiled`, excerpt: "" };
  // esbuild counts a column in bytes of UTF-8.
  const at = Buffer.from(lineText).subarray(0, column).toString("utf8").length;
  return { message: `${file}:${line}:${at + 1}: ${text}`, excerpt: renderExcerpt(lineText, at) };
}

/** Says in full what the compiler found: each error with its place and its line. Undefined if it is no error of the compiler. */
export function toCompileProblem(error: unknown): ModuleProblem | undefined {
  const errors = ((error as Partial<BuildFailure>).errors ?? [])
    .slice(0, MAX_ERRORS)
    .map(renderError);
  const [first, ...others] = errors;
  if (!first) return undefined;
  const detail = [first.excerpt, ...others.flatMap(({ message, excerpt }) => [message, excerpt])]
    .filter(Boolean)
    .join("\n");
  return { message: `cannot be loaded: ${first.message}`, ...(detail === "" ? {} : { detail }) };
}

/**
 * Finds what does not compile in a JavaScript module or in a file of the user's that it imports: Node says of many such
 * errors neither where they are nor more than the first. Undefined if all of it compiles.
 */
export async function findCompileProblem(
  file: string,
  folder: string,
): Promise<ModuleProblem | undefined> {
  const { build } = await import("esbuild");
  try {
    await build({
      entryPoints: [file],
      absWorkingDir: folder,
      bundle: true,
      write: false,
      platform: "node",
      format: "esm",
      packages: "external",
      // Rouse's own names, which are no packages.
      external: ["#plugin", "#channel-kit", "#transform"],
      tsconfigRaw: {},
      logLevel: "silent",
    });
    return undefined;
  } catch (error) {
    return toCompileProblem(error);
  }
}

/** A module that can be loaded. `built` is missing if it is JavaScript, which Node reads by itself. */
export type PreparedModule =
  | { ok: true; version: string; built?: BuiltModule; files: readonly string[] }
  | ({ ok: false } & ModuleProblem);

const TARGET = "node24";
const isPackage = (path: string): boolean => /[\\/]node_modules[\\/]/.test(path);
const isJson = (path: string): boolean => path.endsWith(".json");
/** Returns whether a file is compiled or sent along; of packages only TypeScript is. */
const isOwn = (path: string): boolean =>
  isTypeScript(path) || ((isJson(path) || /\.[cm]?jsx?$/.test(path)) && !isPackage(path));
const getLoader = (path: string): Loader => (path.endsWith("x") ? "tsx" : "ts");

/** Follows a module's imports. What is not its own (packages, Node's modules, what is missing) is left to Node. */
function followOwnFiles(): Plugin {
  const own = Symbol("asked by this plugin");
  return {
    name: "own-files",
    setup(build) {
      build.onResolve(
        { filter: /.*/ },
        async ({ path, kind, importer, resolveDir, pluginData }) => {
          if (kind === "entry-point" || pluginData === own) return undefined;
          const found = await build.resolve(path, { kind, importer, resolveDir, pluginData: own });
          const isFile = found.errors.length === 0 && !found.external;
          return isFile && isOwn(found.path) ? { path: found.path } : { path, external: true };
        },
      );
    },
  };
}

/**
 * Returns the text that is sent of a file: JavaScript for TypeScript, JSON as it is, nothing for files that Node reads
 * by itself.
 */
async function compileFile(path: string): Promise<string | undefined> {
  if (isJson(path)) return readFileSync(path, "utf8");
  if (!isTypeScript(path)) return undefined;
  const { transform } = await import("esbuild");
  const { code } = await transform(readFileSync(path, "utf8"), {
    loader: getLoader(path),
    sourcefile: path,
    sourcemap: "inline",
    sourcesContent: false,
    target: TARGET,
    format: path.endsWith(".cts") ? "cjs" : "esm",
    tsconfigRaw: {},
  });
  return code;
}

/** Reads which files a module consists of, and what their imports mean. */
async function readImports(
  file: string,
  folder: string,
): Promise<Map<string, Record<string, string>>> {
  const { build } = await import("esbuild");
  const { metafile } = await build({
    entryPoints: [file],
    absWorkingDir: folder,
    bundle: true,
    write: false,
    metafile: true,
    platform: "node",
    format: "esm",
    target: TARGET,
    logLevel: "silent",
    tsconfigRaw: {},
    plugins: [followOwnFiles()],
  });
  return new Map(
    Object.entries(metafile.inputs).map(([path, { imports }]) => [
      resolve(folder, path),
      Object.fromEntries(
        imports.flatMap(({ path: target, original, external }) =>
          external || original === undefined ? [] : [[original, resolve(folder, target)]],
        ),
      ),
    ]),
  );
}

async function buildTypeScript(
  file: string,
  permissions: TransformPermissions,
): Promise<PreparedModule> {
  const imports = await readImports(file, permissions.folder);
  const files = [...imports.keys()];
  const outside = files.find((path) => !mayRead(permissions, path));
  if (outside !== undefined)
    return {
      ok: false,
      message: `cannot be loaded: transforms may not read ${outside}, which it imports: hooks.transformPermissions.read grants it`,
    };
  const built: BuiltModule = {};
  for (const path of files) {
    const code = await compileFile(path);
    built[path] = { imports: imports.get(path) ?? {}, ...(code !== undefined && { code }) };
  }
  const version = createHash("sha256").update(JSON.stringify(built)).digest("hex").slice(0, 32);
  return { ok: true, version, built, files };
}

/** Returns a hash of a module's files that is the same wherever they lie. */
export function hashModule(files: readonly string[]): string {
  const digests = [...new Set(files)].map(
    (file) => `${basename(file)} ${sha256Hex(readFileSync(file))}`,
  );
  return sha256Hex(digests.toSorted().join("\n"));
}

/** Finds the files of a JavaScript module, which Node reads by itself: a change of any of them is another version. */
async function findJavaScript(file: string, folder: string): Promise<PreparedModule> {
  // Node reports the problems of a file when it loads the module.
  const imports = await readImports(file, folder).catch(() => undefined);
  const files = imports ? [...imports.keys()] : [file];
  return { ok: true, version: sha256Hex(files.map((path) => fileStamp(path)).join("\n")), files };
}

/** Compiles a TypeScript module and the TypeScript that it imports, each file by itself, with source maps. */
export async function prepareModule(
  file: string,
  permissions: TransformPermissions,
): Promise<PreparedModule> {
  if (!isTypeScript(file)) return findJavaScript(file, permissions.folder);
  try {
    return await buildTypeScript(file, permissions);
  } catch (error) {
    const said = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    return { ok: false, ...(toCompileProblem(error) ?? { message: `cannot be loaded: ${said}` }) };
  }
}
