import {
  escapeMarks,
  escapeProducts,
  MARKED,
  markLines,
  renderMarkdown,
  rewriteMarkdown,
} from "#channel-kit";

/** Invisible, and no white space: keeps a sign from being read as a mark. */
const JOINER = "\u2060";
/** Slack obeys marks behind it, wherever they stand. */
const ZERO_WIDTH_SPACE = "\u200b";
const MARKS = { heading: "*", strong: "*", emphasis: "_", delete: "~" };

/** Parts marks from what is not ASCII: Slack shows marks beside Chinese, Japanese or Korean letters and punctuation. */
function partMarks(text: string): string {
  if (!/\P{ASCII}[*_~`]|[*_~`]\P{ASCII}/u.test(text)) return text;
  const edits: [from: number, to: number, written: string][] = [];
  rewriteMarkdown(text, ({ type, position }, { source }) => {
    const [start = 0, end = 0] = [position?.start.offset, position?.end.offset];
    const before = /\P{ASCII}/u.test(text.charAt(start - 1)) ? ZERO_WIDTH_SPACE : "";
    const behind = /\P{ASCII}/u.test(text.charAt(end)) ? ZERO_WIDTH_SPACE : "";
    if (!MARKED.has(type) || before + behind === "") return undefined;
    // A `_` beside the space would be a part of a word.
    const [mark = ""] = source.includes("*") ? [] : (/^__?/.exec(source) ?? []);
    const asterisks = "*".repeat(mark.length);
    edits.push([start, start + mark.length, before + asterisks]);
    edits.push([end - mark.length, end, asterisks + behind]);
    return undefined;
  });
  let parted = "";
  let done = 0;
  for (const [from, to, written] of edits.toSorted(([a], [b]) => a - b)) {
    parted += text.slice(done, from) + written;
    done = to;
  }
  return parted + text.slice(done);
}

/**
 * Markdown for `markdown_text`, which takes it as it is but for marks beside other scripts and two more things: `<` begins
 * mentions, of everybody too, as well as HTML, which is shown as it was written, and an image is to be its address.
 */
export function toMarkdown(markdown: string): string {
  const text = partMarks(escapeProducts(markdown));
  if (!/<|!\[/.test(text)) return text;
  const shown = (part: string): string =>
    part.replace(/\\.|</gs, (sign) => (sign.endsWith("<") ? "&lt;" : sign));
  return rewriteMarkdown(text, (node, { source }) => {
    if (node.type === "text") return shown(source);
    const isLink = node.type === "link" || node.type === "definition";
    if (node.type === "html" || (isLink && hasCall(source, node)))
      return shown(escapeMarks(source).replaceAll("&", "&amp;"));
    return node.type === "image"
      ? shown(imageText(node.alt ?? "", node.url).replace(/[\\`*_[\]<]/g, "\\$&"))
      : undefined;
  });
}

/** Returns whether the address or the title of a link is written as a mention. */
const hasCall = (
  source: string,
  { url, title }: { url: string; title?: string | null | undefined },
) => /<[!@#]/.test([url, title].join(" ")) || (/^[!@#]/.test(url) && source.includes(`<${url}`));

function imageText(alt: string, url: string): string {
  return alt === "" ? url : `${alt}: ${url}`;
}

/** The three signs that mrkdwn reads. */
function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

const codeText = (code: string): string => escape(code).replace(/`(?=``)/g, `\`${JOINER}`);

/** The same text in mrkdwn, for servers that do not know `markdown_text`. */
export function toMrkdwn(text: string): string {
  return renderMarkdown(text, {
    // Text whose own signs open no mark and no quote. Addresses stay.
    escape: (part) =>
      escape(part)
        .replace(/https?:\/\/\S+|(?<![\p{L}\p{N}])[*_~`](?=\S)/gu, (sign) =>
          sign.startsWith("http") ? sign : `${sign}${JOINER}`,
        )
        .replace(/^&gt;/gm, `${JOINER}$&`),
    address: escape,
    mark: (kind, part) => markLines(MARKS[kind], part),
    once: true,
    // Slack shows a mark beside a letter of whatever script, or beside punctuation that is not ASCII.
    apart: /[A-Za-z0-9]|[^\p{ASCII}\u200b]/u,
    between: ZERO_WIDTH_SPACE,
    // One backtick cannot hold another; three can, but for one at the edge.
    code: (code) =>
      code.includes("`")
        ? `\`\`\`${codeText(code).replace(/^(?=`)|(?<=`)$/g, JOINER)}\`\`\``
        : `\`${escape(code)}\``,
    block: (code) => `\`\`\`\n${codeText(code)}\n\`\`\``,
    link(_, url, plain) {
      // `<!channel>` would call everybody, and `<./a.md|a>` is no link.
      if (!/^[a-z][\w+.-]*:/i.test(url)) return undefined;
      const address = url
        .replace(/[\s<>|]/g, (sign) => encodeURIComponent(sign))
        .replaceAll("&", "&amp;");
      return plain === "" || plain === url ? `<${address}>` : `<${address}|${escape(plain)}>`;
    },
    image: imageText,
    quote: (part) => part.replace(/^/gm, "> "),
    indent: 4,
    columns: { between: " | " },
    note: (label, defined) => `[^${label}]${defined ? ": " : ""}`,
  });
}
