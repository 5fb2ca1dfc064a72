import JSON5 from "json5";

/** Comments, strings, punctuation, and whatever else stands between spaces. */
const TOKEN =
  /\/\/.*|\/\*[^]*?\*\/|"[^"\\]*(?:\\[^][^"\\]*)*"|'[^'\\]*(?:\\[^][^'\\]*)*'|[{}[\]:,]|[^\s{}[\]:,"'/]+/g;

/** A value as it stands in a text. Positions count from 0; `end` is behind its last character. */
export interface TextNode {
  start: number;
  end: number;
  /** The members of an object or the elements of a list, in order; undefined for any other value. */
  items?: TextItem[];
  isObject?: boolean;
  /** The positions of the commas: each is behind the item of the same index. */
  commas: number[];
}

/** A member of an object, or an element of a list. */
interface TextItem {
  /** The position of its key, or of its value if it has none. */
  start: number;
  /** Undefined in a list. */
  key?: string;
  value: TextNode;
}

function readKey(token: string): string {
  if (token.includes("\\")) return Object.keys(JSON5.parse<object>(`{${token}: 0}`))[0] ?? token;
  return token.replace(/^["']|["']$/g, "");
}

/** Reads where the values of a valid JSON5 text stand. Of any other text it gives what it can. */
export function readTree(text: string): TextNode | undefined {
  let root: TextNode | undefined;
  const open: TextNode[] = [];
  let [last, key] = [
    { token: "", index: 0 },
    undefined as Pick<TextItem, "key" | "start"> | undefined,
  ];
  const add = (node: TextNode): void => {
    const around = open.at(-1);
    root ??= node;
    if (around?.isObject) around.items?.push({ start: node.start, ...key, value: node });
    else around?.items?.push({ start: node.start, value: node });
    key = undefined;
  };
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    if (token.startsWith("/")) continue;
    const around = open.at(-1);
    if (token === "{" || token === "[") {
      const node: TextNode = {
        start: index,
        end: index + 1,
        items: [],
        isObject: token === "{",
        commas: [],
      };
      add(node);
      open.push(node);
    } else if (token === "}" || token === "]") {
      const closed = open.pop();
      if (closed) closed.end = index + 1;
    } else if (token === ",") around?.commas.push(index);
    else if (token === ":") key = { key: readKey(last.token), start: last.index };
    else if (!around?.isObject || key) add({ start: index, end: index + token.length, commas: [] });
    last = { token, index };
  }
  return root;
}

/** Finds the value of a member; of a key that is there twice the last one, as the parser does. */
export const getMember = (node: TextNode | undefined, key: string): TextItem | undefined =>
  node?.isObject ? node.items?.findLast((item) => item.key === key) : undefined;
