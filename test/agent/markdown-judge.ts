import MarkdownIt from "markdown-it";
import { micromark } from "micromark";
import { gfm, gfmHtml } from "micromark-extension-gfm";
import { parse, type DefaultTreeAdapterTypes } from "parse5";

const PARSERS = [
  new MarkdownIt({ html: true, linkify: false }),
  new MarkdownIt("commonmark", { html: true }),
  new MarkdownIt({ html: false, linkify: false }),
];
const dangerous = { allowDangerousHtml: true, allowDangerousProtocol: true };
const DIALECTS = [
  { ...dangerous, extensions: [gfm()], htmlExtensions: [gfmHtml()] },
  dangerous,
  { extensions: [gfm()], htmlExtensions: [gfmHtml()], allowDangerousProtocol: true },
];

/** The address of the page that shows a reply. */
const PAGE = "https://page.example/app/";
/** Elements whose `href` does not wait for a click. */
const USERS = /^(?:link|base|use|image|feImage|script|pattern|filter|\w+Gradient)$/;
/** Elements that fetch what other attributes name. */
const LOADERS =
  /^(?:i?frame|img|image|embed|object|applet|video|audio|source|track|script|input|bgsound|set|animate\w*)$/;
const ADDRESSES =
  /^(?:src|poster|data|lowsrc|dynsrc|code|codebase|archive|classid|to|from|values)$/;

function leadsOutside(address: string): boolean {
  if (/^\s*data:/i.test(address)) return false;
  try {
    return new URL(address, PAGE).host !== new URL(PAGE).host;
  } catch {
    return false;
  }
}

const cssAddresses = (css: string): string[] =>
  [...css.matchAll(/(?:url\(|@import|image-set\()\s*["']?([^"')\s]*)/gi)].map(([, at]) => at ?? "");

function addressesOf(element: string, name: string, value: string): string[] {
  if (name === "srcset" || name === "imagesrcset") return value.split(/\s+/);
  if (name === "srcdoc") return findInHtml(value);
  if (name === "style" || name === "fill") return cssAddresses(value);
  if (element === "meta" && name === "content") return [/url=(\S+)/i.exec(value)?.[1] ?? ""];
  if (/^(?:xlink:)?href$/.test(name)) return USERS.test(element) ? [value] : [];
  return name === "background" || (ADDRESSES.test(name) && LOADERS.test(element)) ? [value] : [];
}

function findInNode(node: DefaultTreeAdapterTypes.Node): string[] {
  if (node.nodeName === "#text" && "value" in node)
    return node.parentNode?.nodeName === "style" ? cssAddresses(node.value) : [];
  const own =
    "attrs" in node
      ? node.attrs.flatMap(({ name, prefix, value }) =>
          addressesOf(node.tagName, prefix ? `${prefix}:${name}` : name, value),
        )
      : [];
  const inside = "childNodes" in node ? node.childNodes : [];
  const hidden = "content" in node ? [node.content] : [];
  return [...own, ...[...inside, ...hidden].flatMap(findInNode)];
}

/** The addresses of other sites that a page loads by itself. The elements around the reply close a tag that it leaves open. */
const findInHtml = (html: string): string[] =>
  findInNode(parse(`<main>${html}></p></main>`)).filter(leadsOutside);

/** The addresses that readers of a markdown text would load: two parsers, each of CommonMark and of GFM, with HTML and without. */
export const findLive = (text: string): string[] =>
  [
    ...PARSERS.map((parser) => parser.render(text)),
    ...DIALECTS.map((dialect) => micromark(text, dialect)),
  ].flatMap(findInHtml);
