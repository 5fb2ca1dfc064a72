import MarkdownIt from "markdown-it";
import type { Nodes } from "mdast";
import { fromMarkdown } from "mdast-util-from-markdown";
import { gfmFromMarkdown } from "mdast-util-gfm";
import { gfm } from "micromark-extension-gfm";

const PARSERS = [
  new MarkdownIt({ html: true, linkify: false }),
  new MarkdownIt("commonmark", { html: true }),
];
const DIALECTS = [{ extensions: [gfm()], mdastExtensions: [gfmFromMarkdown()] }, {}];
const IS_LIVE = /^(?:html|image)/;

function liveNodes(node: Nodes): string[] {
  const own = IS_LIVE.test(node.type) ? [`${node.type} ${"value" in node ? node.value : ""}`] : [];
  return "children" in node ? [...own, ...node.children.flatMap(liveNodes)] : own;
}

/** The images and the HTML that any of four readers finds in a markdown text: two parsers, each of CommonMark and of GFM. */
export function findLive(text: string): string[] {
  const tokens = PARSERS.flatMap((parser) =>
    parser.parse(text, {}).flatMap((token) => [token, ...(token.children ?? [])]),
  );
  return [
    ...tokens
      .filter(({ type }) => IS_LIVE.test(type))
      .map(({ type, content }) => `${type} ${content}`),
    ...DIALECTS.flatMap((dialect) => liveNodes(fromMarkdown(text, dialect))),
  ];
}
