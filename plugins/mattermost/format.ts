import { escapeMarks, escapeProducts, rewriteMarkdown } from "#channel-kit";

/** Invisible, and no white space: `@channel` with it behind the `@` calls nobody. */
const JOINER = "\u2060";
/** The server takes `_` at the edges off a word before it compares it. */
const EVERYBODY = /(?<![A-Za-z0-9])@(?=(?:all|channel|here)(?![A-Za-z0-9]))/gi;

const withoutCalls = (text: string): string => text.replace(EVERYBODY, `@${JOINER}`);

/** Text in which nothing is read as a reference or a call. */
const asItIs = (text: string): string => withoutCalls(text.replace(/&(?=#?\w+;)/g, `&${JOINER}`));

/**
 * Mattermost writes GitHub's markdown, so the text stays as it is but for three things: an image becomes its address, which
 * no client fetches, a text calls no whole channel, and HTML, whose tags Mattermost shows, is no markdown inside.
 */
export function toMattermost(text: string): string {
  if (!/!\[|@|<|&/.test(text)) return escapeProducts(text);
  return rewriteMarkdown(text, (node, { source, url }) => {
    // Characters of a call can stand as references (`&#64;all`).
    if (node.type === "text")
      return source.includes("&") && withoutCalls(node.value) !== node.value
        ? asItIs(escapeMarks(node.value))
        : withoutCalls(source);
    if (node.type === "html") return asItIs(escapeMarks(source));
    if (node.type !== "image" && node.type !== "imageReference") return undefined;
    const shown = /[\s()]/.test(url) ? `<${url}>` : url;
    // No call is read in what the server makes a link of.
    const address = /^https?:/i.test(url) ? shown : asItIs(shown);
    const alt = asItIs((node.alt ?? "").replace(/[\\`*_~[\]<]/g, "\\$&"));
    return alt === "" ? address : `${alt}: ${address}`;
  });
}
