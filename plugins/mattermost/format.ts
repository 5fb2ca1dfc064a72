import { rewriteMarkdown } from "#channel-kit";

/** Invisible, and no white space: `@channel` with it behind the `@` calls nobody. */
const JOINER = "\u2060";
const EVERYBODY = /(?<![\w])@(?=(?:all|channel|here)\b)/gi;

/**
 * Mattermost writes GitHub's markdown, so the text stays as it is but for two things: an image becomes its address, which
 * no client fetches, and a text calls no whole channel.
 */
export function toMattermost(text: string): string {
  if (!/!\[|@/.test(text)) return text;
  return rewriteMarkdown(text, (node, { source, url }) => {
    if (node.type === "text" || node.type === "html")
      return source.replace(EVERYBODY, `@${JOINER}`);
    if (node.type !== "image" && node.type !== "imageReference") return undefined;
    const address = /[\s()]/.test(url) ? `<${url}>` : url;
    return node.alt ? `${node.alt.replace(/[\\`*_~[\]<]/g, "\\$&")}: ${address}` : address;
  });
}
