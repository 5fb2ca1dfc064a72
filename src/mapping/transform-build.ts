import { createHash } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";
import type { Loader, Plugin } from "esbuild";
import type { BuiltModule } from "./built-module.ts";
import { toCompileProblem, type ModuleProblem } from "./module-errors.ts";
import { mayRead, type TransformPermissions } from "./transform-permissions.ts";

/** A module that can be loaded. `built` is missing if it is JavaScript, which Node reads by itself. */
export type PreparedModule = { ok: true; version: string; built?: BuiltModule; files: readonly string[] } | ({ ok: false } & ModuleProblem);

const TARGET = "node24";
const isTypeScript = (path: string): boolean => /\.[cm]?tsx?$/.test(path);
const isPackage = (path: string): boolean => /[\\/]node_modules[\\/]/.test(path);
const isJson = (path: string): boolean => path.endsWith(".json");
/** What is compiled or sent along; of packages only what is TypeScript. */
const isOwn = (path: string): boolean => isTypeScript(path) || ((isJson(path) || /\.[cm]?jsx?$/.test(path)) && !isPackage(path));
const getLoader = (path: string): Loader => (path.endsWith("x") ? "tsx" : "ts");

/** Follows a module's imports. What is not its own (packages, Node's modules, what is missing) is left to Node. */
function followOwnFiles(): Plugin {
  const own = Symbol("asked by this plugin");
  return {
    name: "own-files",
    setup(build) {
      build.onResolve({ filter: /.*/ }, async ({ path, kind, importer, resolveDir, pluginData }) => {
        if (kind === "entry-point" || pluginData === own) return undefined;
        const found = await build.resolve(path, { kind, importer, resolveDir, pluginData: own });
        const isFile = found.errors.length === 0 && !found.external;
        return isFile && isOwn(found.path) ? { path: found.path } : { path, external: true };
      });
    },
  };
}

/** What is sent of a file: JavaScript for TypeScript, JSON as it is, nothing for what Node reads by itself. */
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
async function readImports(file: string, folder: string): Promise<Map<string, Record<string, string>>> {
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

async function buildTypeScript(file: string, permissions: TransformPermissions): Promise<PreparedModule> {
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

/** Compiles a TypeScript module and the TypeScript that it imports, each file by itself, with source maps. */
export async function prepareModule(file: string, permissions: TransformPermissions): Promise<PreparedModule> {
  if (!isTypeScript(file)) {
    const { mtimeMs, size } = statSync(file);
    return { ok: true, version: `${mtimeMs}-${size}`, files: [file] };
  }
  try {
    return await buildTypeScript(file, permissions);
  } catch (error) {
    const said = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    return { ok: false, ...(toCompileProblem(error) ?? { message: `cannot be loaded: ${said}` }) };
  }
}
