import { getPhrases, LANGUAGES } from "../core/phrases.ts";
import { HELPED } from "../core/phrases/types.ts";

/** A command as vendors show it in their apps. */
export interface NativeCommand {
  name: string;
  /** At most 100 characters. */
  description: string;
  /** The name of the word behind it, and whether it has to be there. */
  argument?: { name: string; required: boolean };
}

/** The languages of `nativeCommands`, as two letters. */
export const commandLanguages: readonly string[] = LANGUAGES;

const ARGUMENTS: Partial<Record<string, NativeCommand["argument"]>> = {
  agent: { name: "id", required: false },
  approve: { name: "code", required: true },
  deny: { name: "code", required: true },
  link: { name: "code", required: false },
};

/** The commands of the gateway, for vendors that list commands in their apps. */
export function nativeCommands(language?: string): NativeCommand[] {
  const { help } = getPhrases(language);
  return HELPED.map((name) => ({
    name,
    description: help[name],
    ...(ARGUMENTS[name] && { argument: ARGUMENTS[name] }),
  }));
}
