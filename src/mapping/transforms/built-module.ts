/** Imports modules that were built in another process: a sandboxed process can start no compiler. */
import { registerHooks } from "node:module";
import { pathToFileURL } from "node:url";
import { registerOwnModules, MODULE_VERSION } from "../../plugin/resolve.ts";

/** The texts of modules, by URL. */
const modules = new Map<string, { file: string; text: string }>();
let registered = false;

function registerBuiltModules(): void {
  if (registered) return;
  registered = true;
  registerOwnModules();
  registerHooks({
    load(url, context, next) {
      const built = modules.get(url);
      if (!built) return next(url, context);
      const format = /\.c[jt]s$/.test(built.file) ? "commonjs" : "module";
      return { format, source: built.text, shortCircuit: true };
    },
  });
}

/**
 * Imports a built module. Another version of the same file is a module of its own. `text` may be left out if the module
 * was imported before.
 */
export async function importBuiltModule(
  file: string,
  version: string,
  text: string | undefined,
): Promise<Record<string, unknown>> {
  registerBuiltModules();
  const url = pathToFileURL(file);
  url.searchParams.set(MODULE_VERSION, version);
  if (text !== undefined) modules.set(url.href, { file, text });
  return (await import(/* @vite-ignore */ url.href)) as Record<string, unknown>;
}
