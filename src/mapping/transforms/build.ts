import { basename, dirname, isAbsolute, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { BuildFailure, Message, Loader, Plugin } from "esbuild";
import type { Issue } from "../../core/errors.ts";
import { sha256Hex } from "../../core/secret.ts";
import { renderExcerpt } from "../excerpt.ts";
import { readFileSync } from "node:fs";
import { isTypeScript } from "../../plugin/own-modules.ts";
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

/** Says in full what the compiler found: each error with its place and its line. */
function toCompileProblem(error: unknown): ModuleProblem {
  const errors = ((error as Partial<BuildFailure>).errors ?? [])
    .slice(0, MAX_ERRORS)
    .map(renderError);
  const [first, ...others] = errors;
  if (!first) return { message: `cannot be loaded: ${String(error)}` };
  const detail = [first.excerpt, ...others.flatMap(({ message, excerpt }) => [message, excerpt])]
    .filter(Boolean)
    .join("\n");
  return { message: `cannot be loaded: ${first.message}`, ...(detail === "" ? {} : { detail }) };
}

/** A module as one text that can be loaded, and its files. */
export type PreparedModule =
  | { ok: true; version: string; built: string; files: readonly string[] }
  | ({ ok: false } & ModuleProblem);

const isPackage = (path: string): boolean => /[\\/]node_modules[\\/]/.test(path);
/** Returns whether a file becomes part of the text of a module; of packages only TypeScript does. */
const isOwn = (path: string): boolean =>
  isTypeScript(path) || (/\.(?:[cm]?jsx?|json)$/.test(path) && !isPackage(path));

const USES_META = /import\.meta|__(?:file|dir)name/;
/** The name by which each file reaches what Node gives to it alone. */
const META = "__rouse_meta";

/** Names of the module as a whole. CommonJS that is part of it asks for its packages by `require`. */
const BANNER = `import { createRequire as __rouse_require } from "node:module"; const require = __rouse_require(import.meta.url), __rouse_resolve = import.meta.resolve;`;

/** Writes a file with what it needs to know where it lies, since all files of a module become one. */
function withMeta(path: string, text: string): string {
  const url = pathToFileURL(path).href;
  const meta = JSON.stringify({ url, filename: path, dirname: dirname(path) });
  return `const ${META} = ${meta}; ${text.replace(/^#!.*/, "")}`;
}

/**
 * Follows a module's imports. What is not its own (packages, Node's modules) is left to Node. A file of its own that is
 * missing is an error of the compiler, which names the place.
 */
function followOwnFiles(): Plugin {
  const own = Symbol("asked by this plugin");
  return {
    name: "own-files",
    setup(build) {
      build.onResolve(
        { filter: /.*/ },
        async ({ path, kind, importer, resolveDir, pluginData, with: attributes }) => {
          if (kind === "entry-point" || pluginData === own) return undefined;
          const asked = { kind, importer, resolveDir, with: attributes, pluginData: own };
          const found = await build.resolve(path, asked);
          const isFile = found.errors.length === 0 && !found.external;
          if (isFile && isOwn(found.path)) return { path: found.path };
          if (!/^\.{0,2}\//.test(path)) return { path, external: true };
          return isFile ? { path: found.path, external: true } : undefined;
        },
      );
      build.onLoad({ filter: /\.[cm]?[jt]sx?$/ }, ({ path }) => {
        const text = readFileSync(path, "utf8");
        if (!USES_META.test(text)) return undefined;
        const loader = /[jt]sx?$/.exec(path)?.[0] as Loader;
        return { contents: withMeta(path, text), loader };
      });
    },
  };
}

/** Makes one text of a module and of its own files, and says which these are. */
async function bundle(
  file: string,
  folder: string,
): Promise<{ text: string; files: readonly string[] }> {
  const { build } = await import("esbuild");
  const isCommonJs = /\.c[jt]s$/.test(file);
  const { outputFiles, metafile } = await build({
    entryPoints: [file],
    absWorkingDir: folder,
    outfile: `${file}.js`,
    bundle: true,
    write: false,
    metafile: true,
    platform: "node",
    format: isCommonJs ? "cjs" : "esm",
    target: "node24",
    sourcemap: "inline",
    sourcesContent: false,
    logLevel: "silent",
    tsconfigRaw: {},
    define: {
      "import.meta.resolve": "__rouse_resolve",
      "import.meta": META,
      __filename: `${META}.filename`,
      __dirname: `${META}.dirname`,
    },
    ...(!isCommonJs && { banner: { js: BANNER } }),
    plugins: [followOwnFiles()],
  });
  const files = Object.keys(metafile.inputs).map((path) => resolve(folder, path));
  return { text: outputFiles[0]?.text ?? "", files };
}

/** Returns a hash of a module's files that is the same wherever they lie. */
export function hashModule(files: readonly string[]): string {
  const digests = [...new Set(files)].map(
    (file) => `${basename(file)} ${sha256Hex(readFileSync(file))}`,
  );
  return sha256Hex(digests.toSorted().join("\n"));
}

/** Compiles a module with the files that it imports to one text, with a source map. */
export async function prepareModule(
  file: string,
  permissions: TransformPermissions,
): Promise<PreparedModule> {
  try {
    const { text: built, files } = await bundle(file, permissions.folder);
    const outside = files.find((path) => !mayRead(permissions, path));
    if (outside === undefined) return { ok: true, version: sha256Hex(built), built, files };
    return {
      ok: false,
      message: `cannot be loaded: transforms may not read ${outside}, which it imports: hooks.transformPermissions.read grants it`,
    };
  } catch (error) {
    return { ok: false, ...toCompileProblem(error) };
  }
}
