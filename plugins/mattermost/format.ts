import { escapeMarks, rewriteMarkdown } from "#channel-kit";

/** Invisible, and no white space: `@channel` with it behind the `@` calls nobody. */
const JOINER = "\u2060";
/** The server takes `_` at the edges off a word before it compares it. */
const EVERYBODY = /(?<![A-Za-z0-9])@(?=(?:all|channel|here)(?![A-Za-z0-9]))/gi;

const withoutCalls = (text: string): string => text.replace(EVERYBODY, `@${JOINER}`);
const countCalls = (text: string): number => text.match(EVERYBODY)?.length ?? 0;

/** Text as Mattermost shows it unchanged. */
const escape = (text: string): string =>
  withoutCalls(escapeMarks(text).replace(/&(?=#?\w+;)/g, `&${JOINER}`));

/**
 * Mattermost writes GitHub's markdown, so the text stays as it is but for three things: an image becomes its address, which
 * no client fetches, a text calls no whole channel, and HTML, whose tags Mattermost shows, is no markdown inside.
 */
export function toMattermost(text: string): string {
  if (!/!\[|@|<|&/.test(text)) return text;
  return rewriteMarkdown(text, (node, { source, url }) => {
    // Characters of a call can stand as references (`&#64;all`).
    if (node.type === "text")
      return countCalls(node.value) > countCalls(source)
        ? escape(node.value)
        : withoutCalls(source);
    if (node.type === "html") return escape(source);
    if (node.type !== "image" && node.type !== "imageReference") return undefined;
    const address = /[\s()]/.test(url) ? `<${url}>` : url;
    return node.alt ? `${node.alt.replace(/[\\`*_~[\]<]/g, "\\$&")}: ${address}` : address;
  });
}
