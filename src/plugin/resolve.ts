import { statSync } from "node:fs";
import { registerHooks, type ResolveFnOutput } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";

const extension = import.meta.url.endsWith(".ts") ? ".ts" : ".js";
const FILES = { plugin: "./api", "channel-kit": "../channel-kit/api", "store-kit": "../store/api", transform: "../mapping/api" };

/** What a user's module may import by name wherever it lies, and the file of ours that it means. */
const OWN = new Map(
  Object.entries(FILES).flatMap(([name, path]) => {
    const { href } = new URL(path + extension, import.meta.url);
    return [`rouse/${name}`, `#${name}`].map((specifier) => [specifier, href] as const);
  }),
);

const OWN_FILES = new Set(OWN.values());

/** Marks the modules of one import, so that a changed file is read again: ours for JavaScript, `tsx`'s for TypeScript. */
export const MODULE_VERSION = "rouse-version";
const TSX_NAMESPACE = "tsx-namespace";

const isTypeScript = (path: string): boolean => /\.[cm]?tsx?$/.test(path);
const isPackage = (path: string): boolean => path.includes("/node_modules/");

/** Whether a module is one of a user's modules that were imported here. */
const isMarked = (url: string | undefined): boolean =>
  url !== undefined && (url.includes(`${MODULE_VERSION}=`) || url.includes(TSX_NAMESPACE));

let registered = false;
let versions = 0;
/** Files of imports under way, by version. */
const followed = new Map<string, Set<string>>();
/** Entries that `tsx` is about to load: it asks for them without a mark. */
const entries = new Set<string>();

/** Gives the modules that a user's module imports from its own files the mark of that import. */
function follow(found: ResolveFnOutput, specifier: string, parent: string | undefined): ResolveFnOutput {
  if (!found.url.startsWith("file:") || isPackage(found.url)) return found;
  const url = new URL(found.url);
  // Without a package.json that says otherwise `tsx` would take TypeScript for CommonJS, which is never read again.
  if (isTypeScript(url.pathname)) {
    const ours = entries.has(url.pathname) || parent?.includes(TSX_NAMESPACE);
    return ours && !url.pathname.endsWith(".cts") ? { ...found, format: "module" } : found;
  }
  const version = parent === undefined ? undefined : (new URL(parent).searchParams.get(MODULE_VERSION) ?? undefined);
  if (version === undefined || !/^\.{0,2}\//.test(specifier)) return found;
  followed.get(version)?.add(fileURLToPath(`file://${url.pathname}`));
  url.searchParams.set(MODULE_VERSION, version);
  return { ...found, url: url.href };
}

/** Lets users' modules import `rouse/plugin`, `rouse/channel-kit`, `rouse/store-kit`, `rouse/transform` and, where they have none, our `zod`. Once a process. */
export function registerOwnModules(): void {
  if (registered) return;
  registered = true;
  registerHooks({
    resolve(specifier, context, next) {
      const own = OWN.get(specifier);
      // `#plugin` of other modules of this process is a name of their own package.
      if (own !== undefined && (!specifier.startsWith("#") || isMarked(context.parentURL))) return { url: own, shortCircuit: true };
      try {
        return follow(next(specifier, context), specifier, context.parentURL);
      } catch (error) {
        if (specifier !== "zod" || !isMarked(context.parentURL)) throw error;
        return { url: import.meta.resolve("zod"), shortCircuit: true };
      }
    },
  });
}

export type UserModule = { ok: true; exports: Record<string, unknown> } | { ok: false; error: unknown };

async function importAnew(file: string, files: Set<string>): Promise<UserModule> {
  const url = pathToFileURL(file);
  const version = String(++versions);
  try {
    if (!isTypeScript(file) || isPackage(url.pathname)) {
      followed.set(version, files);
      return {
        ok: true,
        exports: (await import(/* @vite-ignore */ `${url.href}?${MODULE_VERSION}=${version}`)) as Record<string, unknown>,
      };
    }
    entries.add(url.pathname);
    const { tsImport } = await import("tsx/esm/api");
    const onImport = (imported: string): void => {
      if (imported.startsWith("file:") && !isPackage(imported) && !OWN_FILES.has(imported)) files.add(fileURLToPath(imported));
    };
    return {
      ok: true,
      exports: (await tsImport(url.href, { parentURL: import.meta.url, tsconfig: false, onImport })) as Record<string, unknown>,
    };
  } catch (error) {
    return { ok: false, error };
  } finally {
    followed.delete(version);
  }
}

function stamp(file: string): string {
  const found = statSync(file, { throwIfNoEntry: false });
  return found ? `${found.mtimeMs}-${found.size}` : "";
}

const loaded = new Map<string, { module: UserModule; stamps: Map<string, string> }>();

/**
 * Imports a user's module, all of TypeScript included, and says which files of the user's it consists of. While none
 * of them has changed, the module is the one of before; else all of them are read again.
 */
export async function importUserModule(file: string): Promise<{ module: UserModule; files: string[] }> {
  registerOwnModules();
  const known = loaded.get(file);
  if (known?.module.ok && [...known.stamps].every(([path, before]) => stamp(path) === before))
    return { module: known.module, files: [...known.stamps.keys()] };
  const files = new Set([file, ...(known?.stamps.keys() ?? [])]);
  const module = await importAnew(file, files);
  loaded.set(file, { module, stamps: new Map([...files].map((path) => [path, stamp(path)])) });
  return { module, files: [...files] };
}
