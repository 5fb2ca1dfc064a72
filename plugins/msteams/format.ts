import { escapeMarks, rewriteMarkdown } from "#channel-kit";

/**
 * A markdown text as Teams shows it. The agent's own markdown stays as it is, escapes and all; only what Teams has no
 * form for is written anew: tables as aligned text in a code block, images as their address, HTML as visible text.
 */
export function toTeams(text: string): string {
  return rewriteMarkdown(text, (node, { source, url, table }) => {
    switch (node.type) {
      case "table":
        return table({ between: "  ", rule: ["-", "  "] });
      case "image":
      case "imageReference":
        return [(node.alt ?? "").replace(/[\\`*_[\]<>~]/g, "\\$&"), url]
          .filter((part) => part !== "")
          .join(" ");
      // Teams obeys some HTML and drops the rest without a word, and takes more for HTML than markdown does (`Map<K,V>`).
      case "text":
        return source.replace(/\\.|</gs, (sign) => (sign.endsWith("<") ? "&lt;" : sign));
      case "html":
        return escapeMarks(source).replaceAll("&", "&amp;").replaceAll("<", "&lt;");
      // `<https://…>` looks like HTML to it; a bare address it makes a link of.
      case "link":
        return source.startsWith("<") ? source.slice(1, -1) : undefined;
      default:
        return undefined;
    }
  });
}
