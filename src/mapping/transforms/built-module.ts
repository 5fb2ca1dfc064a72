/** Imports TypeScript that was built in another process: a sandboxed process can start no compiler. */
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
      const format = built.file.endsWith(".cts") ? "commonjs" : "module";
      return { format, source: built.text, shortCircuit: true };
    },
  });
}

/** Imports a built module. Another version of the same file is a module of its own. */
export async function importBuiltModule(
  file: string,
  version: string,
  text: string,
): Promise<Record<string, unknown>> {
  registerBuiltModules();
  const url = pathToFileURL(file);
  url.searchParams.set(MODULE_VERSION, version);
  modules.set(url.href, { file, text });
  return (await import(/* @vite-ignore */ url.href)) as Record<string, unknown>;
}
