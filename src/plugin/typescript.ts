/**
 * Runs a user's TypeScript as a function: a version that nothing uses any more leaves the memory. Node keeps every module
 * that it imports until the process ends (docs/adr/0013-plugins-as-functions.md).
 */
import { readFileSync, realpathSync } from "node:fs";
import { createRequire, isBuiltin, registerHooks, setSourceMapsSupport } from "node:module";
import { dirname, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type {
  BuildFailure,
  Loader,
  OnResolveArgs,
  OnResolveResult,
  Plugin,
  PluginBuild,
} from "esbuild";
import { isPackage, isTypeScript, OWN_MODULES } from "./own-modules.ts";

/** The name by which built code reaches what it is given. */
const GIVEN = "__rouse";
/** The namespace of the modules that Node imports: packages, Node's own and Rouse's. */
const OUTSIDE = "outside";
const USES_META = /import\.meta|__(?:file|dir)name/;

type Exports = Record<string, unknown>;

interface Given {
  /** An export of a module from outside. */
  get(url: string, name: string): unknown;
  /** The value that a file has as `import.meta`. */
  meta(file: string): object;
  exports: Exports;
}

function createMeta(file: string): object {
  const { href: url } = pathToFileURL(file);
  const find = (name: string): string =>
    isBuiltin(name) ? name : pathToFileURL(createRequire(url).resolve(name)).href;
  return {
    url,
    filename: file,
    dirname: dirname(file),
    resolve: (name: string) =>
      /^(?:\.{0,2}\/|\w+:)/.test(name) ? new URL(name, url).href : find(name),
  };
}

/** The files that are built: the user's own code, and what Node does not load from packages: TypeScript, and JSON without an attribute. */
const isBuilt = (path: string): boolean =>
  isTypeScript(path) || path.endsWith(".json") || (/\.[cm]?jsx?$/.test(path) && !isPackage(path));

function leaveToNode(name: string, kind: OnResolveArgs["kind"]): OnResolveResult {
  if (kind === "import-statement") return { path: name, namespace: OUTSIDE };
  const url = OWN_MODULES.get(name) ?? name;
  return {
    path: kind !== "dynamic-import" && url.startsWith("file:") ? fileURLToPath(url) : url,
    external: true,
  };
}

/** Finds what an import means, as Node would. */
function resolveImports(build: PluginBuild, files: Set<string>): void {
  const asked = Symbol("asked here");
  build.onResolve({ filter: /.*/ }, async ({ path, pluginData, ...from }) => {
    const { kind, resolveDir } = from;
    if (kind === "entry-point" || pluginData === asked) return undefined;
    if (OWN_MODULES.has(path)) return leaveToNode(path, kind);
    const found = await build.resolve(path, { ...from, pluginData: asked });
    if (found.external) return leaveToNode(path, kind);
    if (found.errors.length === 0) {
      if (!isBuilt(found.path)) return leaveToNode(pathToFileURL(found.path).href, kind);
      if (!isPackage(found.path)) files.add(found.path);
      return { path: found.path };
    }
    if (path === "zod") return leaveToNode(import.meta.resolve("zod"), kind);
    if (kind !== "import-statement") return { path, external: true };
    const missing = path.startsWith(".") ? resolve(resolveDir, path) : path;
    throw Object.assign(
      new Error(`Cannot find module '${missing}' imported from ${from.importer}`),
      { code: "ERR_MODULE_NOT_FOUND" },
    );
  });
}

/** Imports a module from outside, and writes one that has its exports. */
async function loadOutside(path: string, outside: Map<string, Exports>): Promise<string> {
  const exports = (await import(/* @vite-ignore */ OWN_MODULES.get(path) ?? path)) as Exports;
  outside.set(path, exports);
  const url = JSON.stringify(path);
  return Object.keys(exports)
    .map((name, index) => ({ name: JSON.stringify(name), local: `e${index}` }))
    .map(
      ({ name, local }) =>
        `const ${local} = /* @__PURE__ */ ${GIVEN}.get(${url}, ${name}); export { ${local} as ${name} };`,
    )
    .join("\n");
}

function followImports(files: Set<string>, outside: Map<string, Exports>): Plugin {
  return {
    name: "imports",
    setup(build) {
      resolveImports(build, files);
      build.onLoad({ filter: /.*/, namespace: OUTSIDE }, async ({ path }) => ({
        contents: await loadOutside(path, outside),
      }));
      build.onLoad({ filter: /\.[cm]?[jt]sx?$/ }, ({ path }) => {
        const text = readFileSync(path, "utf8");
        if (!USES_META.test(text)) return undefined;
        const loader = /[jt]sx?$/.exec(path)?.[0] as Loader;
        return {
          contents: `const ${GIVEN}_meta = ${GIVEN}.meta(${JSON.stringify(path)}); ${text.replace(/^#!.*/, "")}`,
          loader,
        };
      });
    },
  };
}

/** Says where the compiler stopped, or what an import threw. */
function toError(error: unknown, folder: string): unknown {
  const [first] = (error as Partial<BuildFailure>).errors ?? [];
  if (!first) return error;
  if (first.detail instanceof Error) return first.detail;
  const { file = "", line = 0, column = 0 } = first.location ?? {};
  return new SyntaxError(`${resolve(folder, file)}:${line}:${column}: ERROR: ${first.text}`);
}

async function buildFunction(file: string, plugin: Plugin): Promise<string> {
  const { build } = await import("esbuild");
  const folder = dirname(file);
  const { outputFiles } = await build({
    stdin: {
      contents: `import * as exports from ${JSON.stringify(file)}; ${GIVEN}.exports = exports;`,
      resolveDir: folder,
    },
    absWorkingDir: folder,
    outdir: folder,
    bundle: true,
    write: false,
    platform: "node",
    format: "esm",
    target: "node24",
    conditions: [],
    keepNames: true,
    sourcemap: "inline",
    sourcesContent: false,
    logLevel: "silent",
    tsconfigRaw: {},
    define: {
      "import.meta": `${GIVEN}_meta`,
      __filename: `${GIVEN}_meta.filename`,
      __dirname: `${GIVEN}_meta.dirname`,
    },
    banner: { js: `"use strict"; (async (${GIVEN}) => {` },
    footer: { js: `})\n//# sourceURL=${pathToFileURL(file).href}` },
    plugins: [plugin],
  }).catch((error: unknown) => {
    throw toError(error, folder);
  });
  return outputFiles[0]?.text ?? "";
}

/** The scope of a CommonJS module. V8 caches for long what a module is compiled from, so that the code of a version comes as text. */
const SCOPE = "module.exports = (text) => eval(text);";

/** Evaluates a text as if it were in a file, so that `require`, and imports whose path is computed, begin there. */
function evaluate(file: string, text: string): unknown {
  const path = `${realpathSync(file)}.cjs`;
  const url = pathToFileURL(path).href;
  const require = createRequire(url);
  const hooks = registerHooks({
    resolve: (name, context, next) =>
      name === path ? { url, format: "commonjs", shortCircuit: true } : next(name, context),
    load: (found, context, next) =>
      found === url
        ? { format: "commonjs", source: SCOPE, shortCircuit: true }
        : next(found, context),
  });
  try {
    return (require(path) as (text: string) => unknown)(text);
  } finally {
    hooks.deregister();
    delete require.cache[path];
  }
}

/** Runs a TypeScript module with all that it imports of the user's files, which `files` gets. */
export async function runTypeScript(file: string, files: Set<string>): Promise<Exports> {
  const outside = new Map<string, Exports>();
  const text = await buildFunction(file, followImports(files, outside));
  setSourceMapsSupport(true, { nodeModules: false, generatedCode: true });
  const run = evaluate(file, text) as (given: Given) => Promise<void>;
  const given: Given = {
    get: (url, name) => outside.get(url)?.[name],
    meta: createMeta,
    exports: {},
  };
  await run(given);
  return given.exports;
}
