import { BOX_DRAWING, renderMarkdown, type Dialect, type Mark } from "#channel-kit";

/** Addresses that Discord makes a link of; of others it would show the markup. */
const LINKABLE = /^https?:\/\//i;
/** Matches an address, in which Discord would show escapes, or a mark. */
const SPECIAL =
  /https?:\/\/[^\s<]+[^<.,:;"')\]\s]|[\\*`~|[]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|<(?=[@#:/]|a:|t:|id:|https?:)/g;
const MARKS: Record<Mark, string> = { heading: "**", strong: "**", emphasis: "*", delete: "~~" };

/**
 * Text as Discord shows it unchanged. What looks like a mention, an emoji or a time (`<@1>`, `<:a:1>`, `<t:1>`) is no
 * such thing in a reply. `_` inside a word is no mark for Discord either.
 */
function escape(text: string, before: string): string {
  const links = text.includes("](");
  // Discord takes signs right behind a bare address for a part of it.
  const [address = ""] = /(?<!\]\()https?:\/\/[^\s<]+$/.exec(before.slice(-2000)) ?? [];
  return (address + text)
    .replace(SPECIAL, (part) =>
      part.startsWith("http") || (part === "[" && !links) ? part : `\\${part}`,
    )
    .slice(address.length);
}

/** Marks that mean a block only at the start of a line. */
function escapeStarts(text: string): string {
  return text
    .replace(/^([^\S\n]*)(?=(?:#{1,3}|-#|[-+>]|>>>)\s)/gm, "$1\\")
    .replace(/^([^\S\n]*\d+)(?=\.\s)/gm, "$1\\");
}

/** Discord knows one and two backticks around code; more of them inside are parted. */
function code(text: string): string {
  if (!text.includes("`")) return `\`${text}\``;
  return `\`\` ${/``/.test(text) ? text.replaceAll("`", "`\u200b") : text} \`\``;
}

/** Discord's own markdown: no tables, no images, three levels of headings, no quote in a quote. */
const DIALECT: Dialect = {
  ...BOX_DRAWING,
  escape,
  paragraph: escapeStarts,
  mark(kind, text, depth) {
    if (kind === "heading" && depth <= 3)
      return `${"#".repeat(depth)} ${text.replaceAll("\n", " ")}`;
    // Nothing in it begins a block, and no escaped mark runs into the closing one.
    const apart = kind === "delete" && text.endsWith("~") ? "\u200b" : "";
    return (
      MARKS[kind] +
      escapeStarts(kind === "heading" ? text.replaceAll("\n", " ") : text) +
      apart +
      MARKS[kind]
    );
  },
  // `**a **b** c**` ends where the inner mark begins.
  once: true,
  code,
  // Discord ends code at the first three backticks: a zero-width space parts those.
  block: (text, lang) =>
    `\`\`\`${/^[\w+#.-]+$/.test(lang) ? lang : ""}\n${text.replaceAll("```", "`\u200b`\u200b`")}\n\`\`\``,
  link(text, url, plain) {
    // A bare address stands as it is: Discord makes a link of it, and would show escapes.
    if (plain === url || `mailto:${plain}` === url || `http://${plain}` === url) return plain;
    // Discord makes no link of a text that is an address itself, so that none poses as another, and shows escapes in it.
    if (!LINKABLE.test(url) || plain.trim() === "" || /https?:\/\/|\w\.\w/.test(plain))
      return undefined;
    if (text.includes("\\")) return undefined;
    // An address ends where it should: parentheses and white space would end it sooner.
    const address = url.replace(
      /[()\s<>\\]/g,
      (char) => `%${char.charCodeAt(0).toString(16).padStart(2, "0")}`,
    );
    return `[${text.replaceAll("\n", " ")}](${address})`;
  },
  image: (alt, address) => `${alt} ${address}`,
  quote: (text) => text.replace(/^/gm, "> "),
  nestedQuote: "» ",
  flush: ["code", "table"],
  bullet: "- ",
};

/** A markdown text in Discord's own. */
export function toDiscord(markdown: string): string {
  return renderMarkdown(markdown, DIALECT);
}
