import { createRequire } from "node:module";
import type { Nodes, Root } from "mdast";
import type * as FromMarkdown from "mdast-util-from-markdown";
import type * as MdastGfm from "mdast-util-gfm";
import type * as ToMarkdown from "mdast-util-to-markdown";
import type * as CjkFriendly from "micromark-extension-cjk-friendly";
import type * as CjkStrikethrough from "micromark-extension-cjk-friendly-gfm-strikethrough";
import type * as MicromarkGfm from "micromark-extension-gfm";

type Parser = (text: string) => Root;

let parser: Parser | undefined;

/** Loads the parser on first use, since most gateways never need it; synchronously, since a channel's `lengthOf` cannot wait. */
function load(): Parser {
  const require = createRequire(import.meta.url);
  const { fromMarkdown } = require("mdast-util-from-markdown") as typeof FromMarkdown;
  const { gfmFromMarkdown } = require("mdast-util-gfm") as typeof MdastGfm;
  const { gfm } = require("micromark-extension-gfm") as typeof MicromarkGfm;
  const { cjkFriendlyExtension } =
    require("micromark-extension-cjk-friendly") as typeof CjkFriendly;
  const { gfmStrikethroughCjkFriendly } =
    require("micromark-extension-cjk-friendly-gfm-strikethrough") as typeof CjkStrikethrough;
  const extensions = [gfm(), cjkFriendlyExtension(), gfmStrikethroughCjkFriendly()];
  // Without its transforms, which replace text such as `[see https://…]` by nodes that have no position.
  const mdastExtensions = gfmFromMarkdown().map(({ transforms: _transforms, ...rest }) => rest);
  return (text) => fromMarkdown(text, { extensions, mdastExtensions });
}

/** Nested deeper than anybody writes: the parser would take seconds, or run out of its stack. */
const TOO_DEEP = /^[ \t]*(?:(?:>|[-*+]|\d{1,9}[.)])[ \t]*){50}/m;

/** More marks of emphasis in one block than anybody writes: the parser's time grows with their square. */
const MAX_MARKS = 1000;
const MARKS = /[*~]+|(?<![\p{L}\p{N}])_+|_+(?![\p{L}\p{N}])/gu;
const FENCED = /^[ \t>]*(`{3,}|~{3,})[^]*?(?:^[ \t>]*\1[`~]*[ \t]*$|$(?![^]))/gm;

function hasTooManyMarks(text: string): boolean {
  if (text.length <= MAX_MARKS) return false;
  const blocks = text.replace(FENCED, "\n\n").split(/\n[ \t>]*\n/);
  return blocks.some((block) => (block.match(MARKS)?.length ?? 0) > MAX_MARKS);
}

const asItIs = (text: string): Root => ({
  type: "root",
  children: [{ type: "paragraph", children: [{ type: "text", value: text }] }],
});

/**
 * The tree of a markdown text (CommonMark with tables, strikethrough, task lists and bare links), for channels that
 * write another dialect. Its nodes are those of the mdast specification. Emphasis in Chinese, Japanese and Korean holds
 * beside punctuation too (`**注意：**请`), since these scripts put no spaces between words. A text that is nested too deep to be read
 * (its parser goes a step down for each level), or has too many marks, is one paragraph of itself.
 */
export function parseMarkdown(text: string): Root {
  if (TOO_DEEP.test(text) || hasTooManyMarks(text)) return asItIs(text);
  parser ??= load();
  try {
    return parser(text);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return asItIs(text);
  }
}

let writer: ((node: Nodes) => string) | undefined;

function loadWriter(): (node: Nodes) => string {
  const require = createRequire(import.meta.url);
  const { toMarkdown } = require("mdast-util-to-markdown") as typeof ToMarkdown;
  const { gfmToMarkdown } = require("mdast-util-gfm") as typeof MdastGfm;
  const extensions = [gfmToMarkdown({ tablePipeAlign: false })];
  return (node) => toMarkdown(node, { extensions, bullet: "-", rule: "-" });
}

/** Writes a tree of `parseMarkdown` as markdown again, without a line break at its end. */
export function writeMarkdown(node: Nodes): string {
  writer ??= loadWriter();
  return writer(node).trimEnd();
}
