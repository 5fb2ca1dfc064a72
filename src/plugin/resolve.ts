import { registerHooks } from "node:module";
import { fileURLToPath } from "node:url";

/** What a user's module may import by name wherever it lies, and the file of ours that it means. */
const extension = import.meta.url.endsWith(".ts") ? ".ts" : ".js";
const OWN = new Map(
  Object.entries({
    "rouse/plugin": new URL(`./api${extension}`, import.meta.url).href,
    "#plugin": new URL(`./api${extension}`, import.meta.url).href,
    "rouse/transform": new URL(`../mapping/api${extension}`, import.meta.url).href,
    "#transform": new URL(`../mapping/api${extension}`, import.meta.url).href,
  }),
);

let registered = false;

/** Lets users' modules import `rouse/plugin` and `rouse/transform` without having them installed. Once a process. */
export function registerOwnModules(): void {
  if (registered) return;
  registered = true;
  registerHooks({
    resolve(specifier, context, next) {
      const own = OWN.get(specifier);
      return own === undefined ? next(specifier, context) : { url: own, shortCircuit: true };
    },
  });
}

/** Imports a user's module: all of TypeScript through `tsx`, anew when `version` differs. */
export async function importUserModule(file: URL, version: string): Promise<Record<string, unknown>> {
  registerOwnModules();
  const url = `${file.href}?v=${encodeURIComponent(version)}`;
  if (!/\.[cm]?tsx?$/.test(file.pathname)) return (await import(url)) as Record<string, unknown>;
  const { tsImport } = await import("tsx/esm/api");
  return (await tsImport(fileURLToPath(file), { parentURL: import.meta.url })) as Record<string, unknown>;
}
