import type { Issue } from "../core/errors.ts";
import { sessionKeyProblem } from "../core/session-key.ts";
import type { CompiledMapping } from "./compiled.ts";
import type { Template } from "./template.ts";

/** Whether a prefix allows some key of a template: what follows its first expression is not known before an event comes. */
function canStart({ literal, source, start }: Template, prefix: string): boolean {
  return literal ? source.startsWith(prefix) : prefix.startsWith(start) || start.startsWith(prefix);
}

/**
 * Finds mappings whose session key no event could ever use. The mappings of one preset usually share their prefix: each
 * preset and prefix is one issue.
 * @param prefixes `hooks.allowedSessionKeyPrefixes`
 */
export function sessionKeyIssues(mappings: readonly CompiledMapping[], prefixes: readonly string[] | undefined): Issue[] {
  const issues = new Map<string, Issue>();
  for (const { at, info, fields } of mappings) {
    const key = fields.find(({ field }) => field === "sessionKey")?.template;
    if (!key) continue;
    const path = `${at}.sessionKey`;
    // More text follows the start of a template.
    const problem = sessionKeyProblem(key.literal ? key.source : `${key.start}…`, undefined);
    if (problem !== undefined) {
      issues.set(path, { path, message: problem });
      continue;
    }
    if (!prefixes || prefixes.some((prefix) => canStart(key, prefix))) continue;
    const isPreset = info.origin.startsWith("preset:");
    const id = isPreset ? `${info.origin} ${key.start}` : path;
    const other = isPreset ? "change a copy of the preset in hooks.mappingsDir" : "change the key";
    const message = `starts with "${key.start}", which hooks.allowedSessionKeyPrefixes does not allow: add it there, or ${other}`;
    if (!issues.has(id)) issues.set(id, { path, message });
  }
  return [...issues.values()];
}
