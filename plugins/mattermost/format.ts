import { escapeMarks, rewriteMarkdown } from "#channel-kit";

/** Invisible, and no white space: `@channel` with it behind the `@` calls nobody. */
const JOINER = "\u2060";
const EVERYBODY = /(?<![\w])@(?=(?:all|channel|here)\b)/gi;

/**
 * Mattermost writes GitHub's markdown, so the text stays as it is but for three things: an image becomes its address, which
 * no client fetches, a text calls no whole channel, and HTML, whose tags Mattermost shows, is no markdown inside.
 */
export function toMattermost(text: string): string {
  if (!/!\[|@|</.test(text)) return text;
  return rewriteMarkdown(text, (node, { source, url }) => {
    if (node.type === "text") return source.replace(EVERYBODY, `@${JOINER}`);
    if (node.type === "html")
      return escapeMarks(source)
        .replace(/&(?=#?\w+;)/g, `&${JOINER}`)
        .replace(EVERYBODY, `@${JOINER}`);
    if (node.type !== "image" && node.type !== "imageReference") return undefined;
    const address = /[\s()]/.test(url) ? `<${url}>` : url;
    return node.alt ? `${node.alt.replace(/[\\`*_~[\]<]/g, "\\$&")}: ${address}` : address;
  });
}
