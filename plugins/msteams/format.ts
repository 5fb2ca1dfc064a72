import { rewriteMarkdown } from "#plugin";

/**
 * A markdown text as Teams shows it. The agent's own markdown stays as it is, escapes and all; only what Teams has no
 * form for is written anew: tables as aligned text in a code block, images as their address, HTML as visible text.
 */
export function toTeams(text: string): string {
  return rewriteMarkdown(text, (node, { source, start, url, table }) => {
    switch (node.type) {
      case "table": {
        // Each line stands behind the quote marks or the indentation that the table stood behind.
        const before = text.slice(text.lastIndexOf("\n", start - 1) + 1, start).replace(/[^>\s]/g, " ");
        const drawn = table({ between: "  ", rule: ["-", "  "] });
        const longest = Math.max(2, ...[...drawn.matchAll(/`+/g)].map(([ticks]) => ticks.length));
        const fence = "`".repeat(longest + 1);
        return `${fence}\n${drawn}\n${fence}`.replaceAll("\n", `\n${before}`);
      }
      case "image":
      case "imageReference":
        return [(node.alt ?? "").replace(/[\\`*_[\]<>~]/g, "\\$&"), url].filter((part) => part !== "").join(" ");
      // Teams obeys some HTML and drops the rest without a word.
      case "html":
        return source.replace(/[\\`*_[\]~]/g, "\\$&").replaceAll("<", "&lt;");
      // `<https://…>` looks like HTML to it; a bare address it makes a link of.
      case "link":
        return source.startsWith("<") ? source.slice(1, -1) : undefined;
      default:
        return undefined;
    }
  });
}
