/** Whether one of the patterns, `<server>.<tool>` or `<server>.*`, covers a tool's name or another pattern. */
export function coversTool(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => pattern === name || (pattern.endsWith(".*") && name.startsWith(pattern.slice(0, -1))));
}

/** Returns patterns for the tools that both lists name. */
export function narrowTools(own: readonly string[], wanted: readonly string[]): string[] {
  return [...new Set([...wanted.filter((name) => coversTool(own, name)), ...own.filter((name) => coversTool(wanted, name))])];
}
