import {
  RECALL_TOOL,
  RECALL_TOOL_NAME,
  REMEMBER_TOOL,
  REMEMBER_TOOL_NAME,
} from "../core/tool-names.ts";

/** How results of `recall` begin: with notes of trusted words alone, with any others, and without notes. No note can change that. */
export const TRUSTED_NOTES = "Notes:\n";
export const OTHER_NOTES = "Notes, some of words of others:\n";
export const NO_NOTES = "There are no such notes.";

const RECALLS: readonly string[] = [RECALL_TOOL, RECALL_TOOL_NAME];
const REMEMBERS: readonly string[] = [REMEMBER_TOOL, REMEMBER_TOOL_NAME];

/** Whether a result of Rouse's own tools for notes has no text from outside. `tool`: the name in the config, or the model's. */
export const isTrustedMemory = (tool: string, text: string): boolean =>
  REMEMBERS.includes(tool) ||
  (RECALLS.includes(tool) && (text.startsWith(TRUSTED_NOTES) || text === NO_NOTES));
