/** A tool's name of which no sentence can be made, in any script. Providers that take fewer characters get another name. */
export const TOOL_NAME = /^[\p{L}\p{M}\p{N}_./:@$+~-]{1,128}$/u;

/**
 * Lists of patterns, each of which has to cover a tool: an agent's own, then those that narrow it. A pattern is
 * `<server>.<tool>` with `*` for any characters of the tool's name; behind `!` it takes away what others name.
 */
export type ToolPatterns = readonly (readonly string[])[];

/** Rouse's own tools, as patterns name them: `rouse.schedule`. */
export const OWN_SOURCE = "rouse";
export const SCHEDULE_TOOL = "schedule";
export const SCHEDULE_TOOL_NAME = `${OWN_SOURCE}.${SCHEDULE_TOOL}`;
export const SEND_FILE_TOOL = "send_file";
export const SEND_FILE_TOOL_NAME = `${OWN_SOURCE}.${SEND_FILE_TOOL}`;
export const REMEMBER_TOOL = "remember";
export const REMEMBER_TOOL_NAME = `${OWN_SOURCE}.${REMEMBER_TOOL}`;
export const RECALL_TOOL = "recall";
export const RECALL_TOOL_NAME = `${OWN_SOURCE}.${RECALL_TOOL}`;
const OWN_TOOLS = [SCHEDULE_TOOL, SEND_FILE_TOOL, REMEMBER_TOOL, RECALL_TOOL];

/** Returns what is wrong with a pattern of Rouse's own tools, without the source. */
export const findOwnToolProblem = (pattern: string): string | undefined =>
  OWN_TOOLS.some((tool) => coversTool([pattern], tool))
    ? undefined
    : `Rouse itself has the tools ${OWN_TOOLS.map((tool) => `"${tool}"`).join(", ")}, and no "${pattern.slice(0, 60)}".`;

/** True if a pattern without its `!` fits a name. The name may be a server's word, of any length. */
function fits(pattern: string, name: string): boolean {
  const [first = "", ...rest] = pattern.split("*");
  const last = rest.pop();
  if (last === undefined) return pattern === name;
  if (!name.startsWith(first) || !name.endsWith(last)) return false;
  let place = first.length;
  for (const piece of rest) {
    const found = name.indexOf(piece, place);
    if (found < 0) return false;
    place = found + piece.length;
  }
  return place + last.length <= name.length;
}

/** True if one of the patterns covers a tool's name, and none takes it away. */
export function coversTool(patterns: readonly string[], name: string): boolean {
  const isNamed = patterns.some((pattern) => !pattern.startsWith("!") && fits(pattern, name));
  return (
    isNamed && !patterns.some((pattern) => pattern.startsWith("!") && fits(pattern.slice(1), name))
  );
}

/** True if all lists cover a tool's name. No list covers none. */
export const allCoverTool = (lists: ToolPatterns, name: string): boolean =>
  lists.length > 0 && lists.every((patterns) => coversTool(patterns, name));

/** True if all lists name tools of a server or of a plugin. */
export const allNameSource = (lists: ToolPatterns, source: string): boolean =>
  lists.length > 0 &&
  lists.every((patterns) => patterns.some((pattern) => pattern.startsWith(`${source}.`)));

/** Returns which of an agent's tools the other lists leave out: names, or the agent's patterns of which no tool is left. */
export function findLeftOut([own = [], ...rest]: ToolPatterns, known: readonly string[]): string[] {
  const named = [...OWN_TOOLS.map((tool) => `${OWN_SOURCE}.${tool}`), ...known];
  const found = own.flatMap((pattern) => {
    if (pattern.startsWith("!")) return [];
    const names = named.filter((name) => coversTool([pattern], name) && coversTool(own, name));
    const left = names.filter((name) => !rest.every((patterns) => coversTool(patterns, name)));
    if (left.length < names.length) return left;
    const mayMeet = rest.every((patterns) =>
      patterns.some((other) => patternsMeet(pattern, other)),
    );
    return names.length === 0 && mayMeet ? [] : pattern;
  });
  return [...new Set(found)];
}

/** True if there may be a name that both patterns fit. */
export function patternsMeet(a: string, b: string): boolean {
  if (a === "" || b === "") return /^\**$/.test(a + b);
  if (a.startsWith("*")) return patternsMeet(a.slice(1), b) || patternsMeet(a, b.slice(1));
  if (b.startsWith("*")) return patternsMeet(b, a);
  return a[0] === b[0] && patternsMeet(a.slice(1), b.slice(1));
}
