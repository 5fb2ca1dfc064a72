import { resolve } from "node:path";
import type { LoadedConfig } from "./load.ts";
import { secretFile } from "./state.ts";

type Written = { hooks?: { token?: { file?: string } } } | undefined;

/**
 * Renders how a shell reads the hook token without printing it: the file that has it, or the variable. Undefined if the config
 * has it as plain text.
 */
export function tokenInShell({
  config,
  written,
  variables,
  baseDir,
  stateDir,
}: Pick<LoadedConfig, "config" | "written" | "variables" | "baseDir" | "stateDir">):
  | string
  | undefined {
  const variable = variables.get("hooks.token") ?? variables.get("hooks.token[0]");
  if (variable !== undefined) return `\${${variable}:?set it to the token of hooks.token}`;
  const [token] = [(written as Written)?.hooks?.token].flat();
  const file =
    config.hooks.token === undefined
      ? secretFile(stateDir, "hook-token")
      : token?.file && resolve(baseDir, token.file);
  return file && `$(cat '${file.replaceAll("'", String.raw`'\''`)}')`;
}
