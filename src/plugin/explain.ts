import { relative } from "node:path";
import { safeError } from "../core/errors.ts";

/** Why a plugin could not be loaded or set up, without the message of the error, which may quote anything. */
export function explain(error: unknown, baseDir: string): string {
  const { name, code, frames = [] } = safeError(error);
  const message = error instanceof Error ? error.message : "";
  const missing =
    code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND"
      ? /^Cannot find (?:package|module) '([^'\s]{1,200})'/.exec(message)?.[1]
      : undefined;
  if (missing !== undefined) return `it imports "${relativeTo(baseDir, missing)}", which is not there`;
  // Where the compiler stopped; the rest of its message quotes the line.
  const syntax = code === undefined && /^(\S[^\n]{0,300}?:\d+):\d+: ERROR: /m.exec(message)?.[1];
  const place = syntax || frames.map((line) => framePlace(line)).find((found) => found?.startsWith(baseDir));
  return `${code ?? name}${place ? ` at ${relativeTo(baseDir, place)}` : ""}`;
}

/** The file of a stack's frame, with its line for JavaScript: `tsx` puts all of a TypeScript file on one line. */
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
