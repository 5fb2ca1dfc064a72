import { markLines, renderMarkdown, type Dialect } from "#channel-kit";

const INVISIBLE = "\u200B";
const MARKS = { heading: "*", strong: "*", emphasis: "_", delete: "~" };

/** Code cannot hold the fence that ends it: an invisible character parts its backticks. */
const parted = (code: string): string => code.replaceAll("```", `\`\`${INVISIBLE}\``);

/** WhatsApp's own marks. What has no form there, as links, is written out. */
const DIALECT: Dialect = {
  // There is no escape: an invisible character behind a mark keeps a pair of them from being obeyed.
  escape: (text) =>
    text.replace(/(?<![\p{L}\p{N}])([*_~`])(?=\S)(?=.*?\S\1(?![\p{L}\p{N}]))/gu, `$1${INVISIBLE}`),
  paragraph: (text) => text.replace(/^>/gm, `${INVISIBLE}>`),
  mark: (kind, text) => markLines(MARKS[kind], text),
  once: true,
  apart: true,
  // Invisible characters keep a backtick at the edge from running into the marks.
  code: (code) =>
    code.includes("`")
      ? `\`\`\`${parted(code.replace(/^`/, `${INVISIBLE}\``).replace(/`$/, `\`${INVISIBLE}`))}\`\`\``.replaceAll(
          "\n",
          "",
        )
      : `\`${code}\``,
  block: (code) => `\`\`\`\n${parted(code)}\n\`\`\``,
  bullet: "- ",
  boxes: ["[ ] ", "[x] "],
  rule: "---",
  columns: { between: "  ", rule: ["-", "  "] },
  note: (label, defined) => `[${label}]${defined ? ": " : ""}`,
  definitions: "all",
};

/** A markdown text in WhatsApp's dialect. */
export function toWhatsApp(text: string): string {
  return renderMarkdown(text, DIALECT);
}
