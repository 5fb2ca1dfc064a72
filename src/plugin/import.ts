import { pathToFileURL } from "node:url";
import type { Issue } from "../core/errors.ts";
import { checkPlugin, type CheckedPlugin } from "./check.ts";
import type { Plugin } from "../contract/define.ts";
import { explain } from "./explain.ts";
import type { PluginLocation } from "./locations.ts";
import { importUserModule, type UserModule } from "./resolve.ts";

async function importModule({ file, builtin }: PluginLocation): Promise<{ module: UserModule; files: string[] }> {
  if (builtin === undefined) return importUserModule(file);
  try {
    return { module: { ok: true, exports: (await import(pathToFileURL(file).href)) as Record<string, unknown> }, files: [] };
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
  const name = /'(?:#|rouse\/)plugin' does not provide an export named '(\w+)'/.exec(message)?.[1];
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
