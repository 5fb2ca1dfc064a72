/** Imports TypeScript that was built in another process: a sandboxed process can start no compiler. */
import { readFileSync } from "node:fs";
import { registerHooks, type LoadHookContext, type ResolveFnOutput } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";
import { registerOwnModules, MODULE_VERSION } from "../../plugin/resolve.ts";

interface BuiltFile {
  /** The JavaScript of a TypeScript file, the text of a JSON file. A JavaScript file has none: it is read from the disk. */
  code?: string;
  /** The files that its imports mean. */
  imports: Record<string, string>;
}

/** A TypeScript module's own files, by absolute path. */
export type BuiltModule = Record<string, BuiltFile>;

const modules = new Map<string, BuiltModule>();
let registered = false;

/** The version that a URL is marked with and the file of that version's module, if there is one. */
function findFile(
  url: string | undefined,
  version = getVersion(url),
): { version: string; file: BuiltFile } | undefined {
  if (url === undefined || version === undefined || !url.startsWith("file:")) return undefined;
  const file = modules.get(version)?.[fileURLToPath(url)];
  return file && { version, file };
}

function getVersion(url: string | undefined): string | undefined {
  return url?.startsWith("file:")
    ? (new URL(url).searchParams.get(MODULE_VERSION) ?? undefined)
    : undefined;
}

const isJson = (url: string): boolean => new URL(url).pathname.endsWith(".json");
const getModuleFormat = (url: string): "commonjs" | "module" =>
  new URL(url).pathname.endsWith(".cts") ? "commonjs" : "module";

/** Marks a file of a module with the version of the file that imports it. */
function mark(found: ResolveFnOutput, parent: string | undefined): ResolveFnOutput {
  const target = findFile(found.url, getVersion(parent));
  if (!target) return found;
  const url = new URL(found.url);
  url.searchParams.set(MODULE_VERSION, target.version);
  return {
    ...found,
    url: url.href,
    ...(target.file.code !== undefined &&
      !isJson(url.href) && { format: getModuleFormat(url.href) }),
  };
}

/** JSON as a module, with its members as names: TypeScript imports it without `with { type: "json" }`. */
function moduleFromJson(text: string): string {
  const value: unknown = JSON.parse(text);
  const names =
    typeof value === "object" && value !== null && !Array.isArray(value) ? Object.keys(value) : [];
  const members = names
    .filter((name) => name !== "default" && name.isWellFormed())
    .map(
      (name, index) =>
        `const m${index} = value[${JSON.stringify(name)}]; export { m${index} as ${JSON.stringify(name)} };`,
    );
  return [
    `const value = JSON.parse(${JSON.stringify(text)}); export default value;`,
    ...members,
  ].join("\n");
}

function loadJson(
  url: string,
  { importAttributes, conditions }: LoadHookContext,
): string | undefined {
  const version = getVersion(url);
  const asJson = conditions.includes("require") || importAttributes["type"] !== undefined;
  if (asJson || version === undefined || !modules.has(version)) return undefined;
  return moduleFromJson(findFile(url)?.file.code ?? readFileSync(fileURLToPath(url), "utf8"));
}

function registerBuiltModules(): void {
  if (registered) return;
  registered = true;
  registerOwnModules();
  registerHooks({
    resolve(specifier, context, next) {
      const path = findFile(context.parentURL)?.file.imports[specifier];
      return mark(
        next(path === undefined ? specifier : pathToFileURL(path).href, context),
        context.parentURL,
      );
    },
    load(url, context, next) {
      const json = url.startsWith("file:") && isJson(url);
      const code = json ? loadJson(url, context) : findFile(url)?.file.code;
      return code === undefined
        ? next(url, context)
        : { format: json ? "module" : getModuleFormat(url), source: code, shortCircuit: true };
    },
  });
}

/** Imports a built module. Another version of the same file is a module of its own. */
export async function importBuiltModule(
  file: string,
  version: string,
  module: BuiltModule,
): Promise<Record<string, unknown>> {
  registerBuiltModules();
  modules.set(version, module);
  const url = pathToFileURL(file);
  url.searchParams.set(MODULE_VERSION, version);
  return (await import(/* @vite-ignore */ url.href)) as Record<string, unknown>;
}
