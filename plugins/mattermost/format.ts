import { parseMarkdown } from "#plugin";

type Root = ReturnType<typeof parseMarkdown>;
type Node = Root | Root["children"][number];

/** Invisible, and no white space: `@channel` with it behind the `@` calls nobody. */
const JOINER = "\u2060";
const EVERYBODY = /(?<![\w])@(?=(?:all|channel|here)\b)/gi;

/**
 * Mattermost writes GitHub's markdown, so the text stays as it is but for two things: an image becomes its address, which
 * no client fetches, and a text calls no whole channel.
 */
export function toMattermost(text: string): string {
  if (!/!\[|@/.test(text)) return text;
  const root = parseMarkdown(text);
  const addresses = new Map<string, string>();
  let result = "";
  let done = 0;
  const replace = ({ position }: Node, patch: (source: string) => string): void => {
    const start = position?.start.offset ?? 0;
    const end = position?.end.offset ?? 0;
    result += text.slice(done, start) + patch(text.slice(start, end));
    done = end;
  };
  const visit = (node: Node, act: (node: Node) => void): void => {
    act(node);
    if ("children" in node) for (const child of node.children) visit(child, act);
  };
  visit(root, (node) => {
    if (node.type === "definition") addresses.set(node.identifier, node.url);
  });
  visit(root, (node) => {
    if (node.type === "image") replace(node, () => imageText(node.alt, node.url));
    else if (node.type === "imageReference") replace(node, () => imageText(node.alt, addresses.get(node.identifier) ?? ""));
    else if (node.type === "text" || node.type === "html") replace(node, (source) => source.replace(EVERYBODY, `@${JOINER}`));
  });
  return result + text.slice(done);
}

function imageText(alt: string | null | undefined, url: string): string {
  const address = /[\s()]/.test(url) ? `<${url}>` : url;
  return alt ? `${alt.replace(/[\\`*_~[\]<]/g, "\\$&")}: ${address}` : address;
}
