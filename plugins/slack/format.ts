import { parseMarkdown } from "#plugin";

type Root = ReturnType<typeof parseMarkdown>;
type Node = Root | Root["children"][number];
type Kind<T extends Node["type"]> = Extract<Node, { type: T }>;

/** Invisible, and no white space: keeps a sign from being read as a mark. */
const JOINER = "\u2060";

/**
 * Markdown for `markdown_text`, which takes it as it is but for two things: `<` begins mentions, of everybody too, and
 * an image is to be its address.
 */
export function toMarkdown(text: string): string {
  if (!/<|!\[/.test(text)) return text;
  let result = "";
  let done = 0;
  const visit = (node: Node): void => {
    const start = node.position?.start.offset ?? 0;
    const end = node.position?.end.offset ?? 0;
    const source = text.slice(start, end);
    let patched: string | undefined;
    if (node.type === "image") patched = imageText(node).replace(/[\\`*_[\]<]/g, "\\$&");
    else if (node.type === "text" || node.type === "html") patched = source;
    else if ("children" in node) for (const child of node.children) visit(child);
    if (patched === undefined) return;
    result += text.slice(done, start) + patched.replace(/\\?</g, "&lt;");
    done = end;
  };
  visit(parseMarkdown(text));
  return result + text.slice(done);
}

/** The same text in mrkdwn, for servers that do not know `markdown_text`. */
export function toMrkdwn(text: string): string {
  const root = parseMarkdown(text);
  const addresses = new Map<string, string>();
  const collect = (node: Node): void => {
    if (node.type === "definition") addresses.set(node.identifier, node.url);
    if ("children" in node) for (const child of node.children) collect(child);
  };
  collect(root);

  /** `open` holds the marks around the text: none nests in its own kind. */
  const inline = (nodes: readonly Node[], open = ""): string => nodes.map((node) => write(node, open)).join("");
  const blocks = (nodes: readonly Node[], between = "\n\n"): string =>
    nodes
      .map((node) => write(node, ""))
      .filter((part) => part !== "")
      .join(between);
  const marked = (mark: string, nodes: readonly Node[], open: string): string =>
    open.includes(mark)
      ? inline(nodes, open)
      : inline(nodes, open + mark).replace(/^([^\S\n]*)(\S.*?)([^\S\n]*)$/gm, `$1${mark}$2${mark}$3`);
  const list = ({ children, ordered, start }: Kind<"list">): string =>
    children
      .map(({ checked, children: parts }, index) => {
        const box = typeof checked === "boolean" ? (checked ? "☑ " : "☐ ") : "";
        return `${ordered ? `${(start ?? 1) + index}.` : "•"} ${box}${blocks(parts, "\n").replaceAll("\n", "\n    ")}`;
      })
      .join("\n");
  const write = (node: Node, open: string): string => {
    switch (node.type) {
      case "text":
        return literal(node.value);
      case "html":
        return escape(node.value);
      case "heading":
      case "strong":
        return marked("*", node.children, open);
      case "emphasis":
        return marked("_", node.children, open);
      case "delete":
        return marked("~", node.children, open);
      case "inlineCode":
        // One backtick cannot hold another; three can.
        return node.value.includes("`") ? `\`\`\`${codeText(node.value)}\`\`\`` : `\`${escape(node.value)}\``;
      case "code":
        return `\`\`\`\n${codeText(node.value)}\n\`\`\``;
      case "table":
        return `\`\`\`\n${codeText(columns(node))}\n\`\`\``;
      case "link":
        return link(node.url, plain(node, false));
      case "linkReference":
        return link(addresses.get(node.identifier) ?? "", plain(node, false));
      case "image":
        return escape(imageText(node));
      case "imageReference":
        return escape(imageText({ alt: node.alt, url: addresses.get(node.identifier) ?? "" }));
      case "footnoteReference":
        return escape(`[^${node.identifier}]`);
      case "footnoteDefinition":
        return `${escape(`[^${node.identifier}]: `)}${blocks(node.children)}`;
      case "blockquote":
        return blocks(node.children).replace(/^/gm, "> ");
      case "list":
        return list(node);
      case "break":
        return "\n";
      case "thematicBreak":
        return "———";
      case "paragraph":
        return inline(node.children, open);
      default:
        return "children" in node ? blocks(node.children) : "";
    }
  };
  return write(root, "");
}

function imageText({ alt, url }: { alt?: string | null | undefined; url: string }): string {
  return alt ? `${alt}: ${url}` : url;
}

/** The three signs that mrkdwn reads. */
function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** Text whose own signs open no mark and no quote. */
function literal(text: string): string {
  return escape(text)
    .replace(/(?<![\p{L}\p{N}])[*_~`](?=\S)/gu, `$&${JOINER}`)
    .replace(/^&gt;/gm, `${JOINER}$&`);
}

function codeText(code: string): string {
  return escape(code).replace(/`(?=``)/g, `\`${JOINER}`);
}

function link(url: string, label: string): string {
  const address = url.replace(/[\s<>|]/g, (sign) => encodeURIComponent(sign)).replaceAll("&", "&amp;");
  return label === "" || label === url ? `<${address}>` : `<${address}|${escape(label)}>`;
}

/** The text alone; a link keeps its address where nothing else says it. */
function plain(node: Node, addresses = true): string {
  if (node.type === "image") return imageText(node);
  if ("value" in node) return node.value;
  if (!("children" in node)) return "";
  const inner = node.children.map((child) => plain(child, addresses)).join("");
  return addresses && node.type === "link" && inner !== node.url ? `${inner} (${node.url})` : inner;
}

/** Columns of equal width, to stand in code. */
function columns({ children }: Kind<"table">): string {
  const cells = children.map((row) => row.children.map((cell) => plain(cell)));
  const widths: number[] = [];
  for (const row of cells) for (const [index, { length }] of row.entries()) widths[index] = Math.max(widths[index] ?? 0, length);
  return cells
    .map((row) =>
      row
        .map((cell, index) => cell.padEnd(widths[index] ?? 0))
        .join(" | ")
        .trimEnd(),
    )
    .join("\n");
}
