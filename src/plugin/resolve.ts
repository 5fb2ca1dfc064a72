import { registerHooks, type ResolveFnOutput } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";
import { fileStamp } from "../core/files.ts";
import { isPackage, isTypeScript, OWN_MODULES } from "./own-modules.ts";

/** Marks the modules of one import, so that a changed file is read again. */
export const MODULE_VERSION = "rouse-version";

/** True if a module is one of a user's modules that were imported here. */
const isMarked = (url: string | undefined): boolean =>
  url !== undefined && url.includes(`${MODULE_VERSION}=`);

let registered = false;
let versions = 0;
/** Files of imports under way, by version. */
const followed = new Map<string, Set<string>>();

/** Gives the modules that a user's module imports from its own files the mark of that import. */
function follow(
  found: ResolveFnOutput,
  specifier: string,
  parent: string | undefined,
): ResolveFnOutput {
  if (!found.url.startsWith("file:") || isPackage(found.url)) return found;
  const version =
    parent === undefined
      ? undefined
      : (new URL(parent).searchParams.get(MODULE_VERSION) ?? undefined);
  // A linked package of the user's own is shared with what else imports it.
  if (version === undefined || !/^(?:\.{0,2}\/|#|file:)/.test(specifier)) return found;
  const url = new URL(found.url);
  followed.get(version)?.add(fileURLToPath(`file://${url.pathname}`));
  url.searchParams.set(MODULE_VERSION, version);
  return { ...found, url: url.href };
}

/** Lets users' modules import `rouse/plugin`, `rouse/channel-kit`, `rouse/transform` and, where they have none, our `zod`. Once a process. */
export function registerOwnModules(): void {
  if (registered) return;
  registered = true;
  registerHooks({
    resolve(specifier, context, next) {
      const own = OWN_MODULES.get(specifier);
      // `#plugin` of other modules of this process is a name of their own package.
      if (own !== undefined && (!specifier.startsWith("#") || isMarked(context.parentURL)))
        return { url: own, shortCircuit: true };
      try {
        return follow(next(specifier, context), specifier, context.parentURL);
      } catch (error) {
        if (specifier !== "zod" || !isMarked(context.parentURL)) throw error;
        return { url: import.meta.resolve("zod"), shortCircuit: true };
      }
    },
  });
}

export type UserModule =
  | { ok: true; exports: Record<string, unknown> }
  | { ok: false; error: unknown };

async function importAnew(file: string, files: Set<string>): Promise<UserModule> {
  const { href, pathname } = pathToFileURL(file);
  const version = String(++versions);
  followed.set(version, files);
  try {
    const url = `${href}?${MODULE_VERSION}=${version}`;
    if (!isTypeScript(file) || isPackage(pathname))
      return {
        ok: true,
        exports: (await import(/* @vite-ignore */ url)) as Record<string, unknown>,
      };
    const { runTypeScript } = await import("./typescript.ts");
    return { ok: true, exports: await runTypeScript(file, files) };
  } catch (error) {
    return { ok: false, error };
  } finally {
    followed.delete(version);
  }
}

/** Modules that were imported, with the stamps of their files. */
const loaded = new Map<string, { module: UserModule; stamps: Map<string, string | undefined> }>();

/**
 * Imports a user's module, all of TypeScript included, and says which files of the user's it consists of. While none
 * of them has changed, the module is the one of before; else all of them are read again.
 */
export async function importUserModule(
  file: string,
): Promise<{ module: UserModule; files: string[] }> {
  registerOwnModules();
  const known = loaded.get(file);
  if (known?.module.ok && [...known.stamps].every(([path, before]) => fileStamp(path) === before))
    return { module: known.module, files: [...known.stamps.keys()] };
  const files = new Set([file, ...(known?.stamps.keys() ?? [])]);
  const module = await importAnew(file, files);
  loaded.set(file, { module, stamps: new Map([...files].map((path) => [path, fileStamp(path)])) });
  return { module, files: [...files] };
}
