import { markLines, NARROW, renderMarkdown, type Dialect } from "#channel-kit";

const INVISIBLE = "\u200B";
const MARKS = { heading: "*", strong: "*", emphasis: "_", delete: "~" };

/** Code cannot hold the fence that ends it: an invisible character parts its backticks. */
const parted = (code: string): string => code.replaceAll("```", `\`\`${INVISIBLE}\``);

/**
 * Letters and digits beside which WhatsApp obeys no mark. What its apps make of a mark beside a Chinese, Japanese or Korean
 * letter is not documented; people there write no spaces, so that such a mark counts as obeyed.
 */
const LETTER = /(?![\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Hang}])[\p{L}\p{N}]/u;
/** An address, or the first of two marks that WhatsApp would obey. */
const PAIR = new RegExp(
  `https?://\\S+|(?<!${LETTER.source})([*_~\`])(?=\\S)(?=.*?\\S\\1(?!${LETTER.source}))`,
  "gu",
);

/** WhatsApp's own marks. What has no form there, as links, is written out. */
const DIALECT: Dialect = {
  // There is no escape: an invisible character behind a mark keeps a pair of them from being obeyed.
  escape: (text) =>
    text.replace(PAIR, (part) => (part.startsWith("http") ? part : `${part}${INVISIBLE}`)),
  paragraph: (text) => text.replace(/^>/gm, `${INVISIBLE}>`),
  mark: (kind, text) => markLines(MARKS[kind], text),
  once: true,
  apart: LETTER,
  // Invisible characters keep a backtick at the edge from running into the marks.
  code: (code) =>
    code.includes("`")
      ? `\`\`\`${parted(code.replace(/^(?=`)|(?<=`)$/g, INVISIBLE))}\`\`\``.replaceAll("\n", "")
      : `\`${code}\``,
  block: (code) => `\`\`\`\n${parted(code)}\n\`\`\``,
  bullet: "- ",
  boxes: ["[ ] ", "[x] "],
  rule: "---",
  columns: { between: "  ", rule: ["-", "  "] },
  widestTable: NARROW,
  note: (label, defined) => `[${label}]${defined ? ": " : ""}`,
};

/** A markdown text in WhatsApp's dialect. */
export function toWhatsApp(text: string): string {
  return renderMarkdown(text, DIALECT);
}
