import { relative } from "node:path";
import { safeError } from "../core/errors.ts";
import { pathToFileURL } from "node:url";
import { checkPlugin, refusePlugin, type CheckedPlugin } from "./check.ts";
import type { Plugin } from "../contract/define.ts";
import type { PluginLocation } from "./locations.ts";
import { importUserModule, type UserModule } from "./resolve.ts";

/** Explains why a plugin could not be loaded or set up, without the message of the error, which may quote anything. */
export function explain(error: unknown, baseDir: string): string {
  const { name, code, frames = [] } = safeError(error);
  const message = error instanceof Error ? error.message : "";
  const missing =
    code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND"
      ? /^Cannot find (?:package|module) '([^'\s]{1,200})'/.exec(message)?.[1]
      : undefined;
  if (missing !== undefined)
    return `it imports "${relativeTo(baseDir, missing)}", which is not there`;
  // The place at which the compiler stopped; the rest of its message quotes the line.
  const syntax = code === undefined && /^(\S[^\n]{0,300}?:\d+):\d+: ERROR: /m.exec(message)?.[1];
  const place =
    syntax || frames.map((line) => framePlace(line)).find((found) => found?.startsWith(baseDir));
  const unknown = / (?:does not provide an export named|for import) ['"](\w{1,100})['"]/.exec(
    message,
  )?.[1];
  const what =
    unknown === undefined ? (code ?? name) : `it imports "${unknown}", which is not exported,`;
  return `${what}${place ? ` at ${relativeTo(baseDir, place)}` : ""}`;
}

/** The file of a stack's frame, with its line for JavaScript: that of TypeScript is one of what was built from it, unless Node maps stacks. */
function framePlace(frame: string): string | undefined {
  const [, file, line] = /((?:file:\/\/)?[/\\A-Z][^()]*?):(\d+)(?::\d+)?\)?$/.exec(frame) ?? [];
  if (file === undefined || line === undefined) return undefined;
  const path = file.replace("file://", "").replace(/\?.*$/, "");
  return /\.[cm]?tsx?$/.test(path) ? path : `${path}:${line}`;
}

function relativeTo(baseDir: string, path: string): string {
  const inside = path.startsWith("/") ? relative(baseDir, path) : path;
  return inside.startsWith("..") ? path : inside;
}

async function importModule({
  file,
  builtin,
}: PluginLocation): Promise<{ module: UserModule; files: string[] }> {
  if (builtin === undefined) return importUserModule(file);
  try {
    return {
      module: {
        ok: true,
        exports: (await import(pathToFileURL(file).href)) as Record<string, unknown>,
      },
      files: [],
    };
  } catch (error) {
    return { module: { ok: false, error }, files: [] };
  }
}

/** Imports and checks a plugin. `files`: those of the user that it consists of. */
export async function importPlugin(
  location: PluginLocation,
  baseDir: string,
): Promise<CheckedPlugin<Plugin> & { files: string[] }> {
  const { module, files } = await importModule(location);
  if (module.ok) return { ...checkPlugin(module.exports, location.path), files };
  const message = `the plugin cannot be loaded: ${explain(module.error, baseDir)}`;
  return { ...refusePlugin(location.path, message), files };
}
