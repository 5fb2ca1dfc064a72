import { BOX_DRAWING, escapeHtml, htmlText, renderMarkdown, type Dialect } from "#channel-kit";

/** Telegram leaves out all entities of a message after the first hundred: what they hid, as a link's address, is then written out. */
const MAX_ENTITIES = 100;
/** Addresses that Telegram makes a link of; of others, as of hosts without a dot, it would show the text alone. */
const LINKABLE = /^(?:tg:|https?:\/\/[^/?#]*[.[])/i;
const TAGS = { heading: "b", strong: "b", emphasis: "i", delete: "s" };

/** A markdown text in Telegram's HTML. */
export function toHtml(markdown: string): string {
  return renderMarkdown(markdown, dialect(MAX_ENTITIES));
}

/** A markdown text without any markup, for when Telegram does not take its HTML. Addresses of links are written out. */
export function toPlainText(markdown: string): string {
  return htmlText(renderMarkdown(markdown, dialect(0)));
}

/** The dialect of one text, with so many entities. */
function dialect(entities: number): Dialect {
  let left = entities;
  const tag = (open: string, inner: string, close = open): string =>
    inner.trim() === "" || left-- <= 0 ? inner : `<${open}>${inner}</${close}>`;
  return {
    ...BOX_DRAWING,
    escape: escapeHtml,
    address: escapeHtml,
    mark: (kind, text) => tag(TAGS[kind], text),
    code: (code) => tag("code", escapeHtml(code)),
    block: (code, lang) =>
      lang === ""
        ? tag("pre", escapeHtml(code))
        : tag(`pre><code class="language-${escapeHtml(lang)}"`, escapeHtml(code), "code></pre"),
    link(text, url, plain) {
      if (plain === url || `mailto:${plain}` === url || `http://${plain}` === url) return text;
      return LINKABLE.test(url) && plain.trim() !== "" && left > 0
        ? // Of a link that is code as a whole Telegram keeps the code alone.
          tag(`a href="${escapeHtml(url)}"`, text.replace(/<\/?code>/g, ""), "a")
        : undefined;
    },
    image: (alt, address) => `${alt} ${address}`,
    quote: (text) => tag("blockquote", text),
    nestedQuote: "&gt; ",
    flush: ["code", "table", "blockquote"],
  };
}
