import { relative } from "node:path";
import { safeError, type Issue } from "../core/errors.ts";
import { pathToFileURL } from "node:url";
import { checkPlugin, type CheckedPlugin } from "./check.ts";
import type { Plugin } from "../contract/define.ts";
import type { PluginLocation } from "./locations.ts";
import { importUserModule, type UserModule } from "./resolve.ts";

/** Why a plugin could not be loaded or set up, without the message of the error, which may quote anything. */
export function explain(error: unknown, baseDir: string): string {
  const { name, code, frames = [] } = safeError(error);
  const message = error instanceof Error ? error.message : "";
  const missing =
    code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND"
      ? /^Cannot find (?:package|module) '([^'\s]{1,200})'/.exec(message)?.[1]
      : undefined;
  if (missing !== undefined)
    return `it imports "${relativeTo(baseDir, missing)}", which is not there`;
  // Where the compiler stopped; the rest of its message quotes the line.
  const syntax = code === undefined && /^(\S[^\n]{0,300}?:\d+):\d+: ERROR: /m.exec(message)?.[1];
  const place =
    syntax || frames.map((line) => framePlace(line)).find((found) => found?.startsWith(baseDir));
  return `${code ?? name}${place ? ` at ${relativeTo(baseDir, place)}` : ""}`;
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

/** Exports of `rouse/channel-kit` that had another name in `rouse/plugin`. */
const RENAMED: Record<string, string> = {
  alike: "sameRule",
  askSince: "pollSince",
  DRAWN: "BOX_DRAWING",
  failureOf: "classifyError",
  heard: "toIncomingMessage",
  holdLink: "withConnection",
  keepPlace: "checkpoint",
  keepsakes: "createKeyValueStore",
  listOf: "objectsIn",
  lookFor: "pollUntilFound",
  pause: "sleep",
  plainAnswer: "textResponse",
  postInDoubt: "retryIdempotent",
  postOrFind: "sendOrReconcile",
  readHook: "parseWebhook",
  remember: "once",
  sayWhen: "retryMessage",
  sent: "sentResult",
  sortAnswer: "classifyResponse",
  stayConnected: "reconnectLoop",
  Trouble: "ChannelError",
};

/** Says where an export of `rouse/plugin` is now, if an error is about one that has moved. */
async function explainMoved(error: unknown): Promise<string | undefined> {
  const message = error instanceof SyntaxError ? error.message : "";
  const name =
    /(?:#|rouse\/)plugin['"] (?:does not provide an export named|for import) ['"](\w+)['"]/.exec(
      message,
    )?.[1];
  if (name === undefined) return undefined;
  const moved = Object.hasOwn(RENAMED, name) ? (RENAMED[name] as string) : name;
  if (!(moved in (await import("../channel-kit/api.ts")))) return undefined;
  return `it imports "${name}" from rouse/plugin: import "${moved}" from rouse/channel-kit`;
}

/** Imports and checks a plugin. `files`: those of the user that it consists of. `warnings` gets its deprecated names. */
export async function importPlugin(
  location: PluginLocation,
  baseDir: string,
  warnings: Issue[] = [],
): Promise<CheckedPlugin<Plugin> & { files: string[] }> {
  const { module, files } = await importModule(location);
  if (module.ok) return { ...checkPlugin(module.exports, location.path, warnings), files };
  const message = `the plugin cannot be loaded: ${(await explainMoved(module.error)) ?? explain(module.error, baseDir)}`;
  return { ok: false, issues: [{ path: location.path, message }], files };
}
