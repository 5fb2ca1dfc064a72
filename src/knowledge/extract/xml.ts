import { decodeHTML } from "entities/decode";
import { decodeDocument } from "./charset.ts";
import type { ExtractFormat } from "./types.ts";
import {
  findElements,
  readXmlTree,
  tidy,
  toInnerText,
  toLocal,
  type XmlElement,
} from "./xml-tree.ts";

/** Addresses of namespaces and schemas say nothing about the content. */
const isContent = (name: string): boolean => !/^xmlns\b|:schemaLocation$|^xml:/.test(name);

/** The lines of an element: those of the elements in it first. After text of its own, they are parts of its sentence. */
function* toLines({ name, attributes, children }: XmlElement): Generator<string> {
  let text = "";
  for (const child of children)
    if (typeof child === "string") text += child;
    else if (text.trim() === "") yield* toLines(child);
    else text += toInnerText(child);
  const facts = Object.entries(attributes)
    .filter(([key, value]) => isContent(key) && value.trim() !== "")
    .map(([key, value]) => `${key}=${tidy(value)}`);
  const own = tidy(text);
  if (own === "" && facts.length === 0) return;
  const named = [toLocal(name), ...facts].join(" ");
  yield own === "" ? named : `${named}: ${own}`;
}

/**
 * Reads any XML by its elements: each that has text or attributes is a block `name: text`; elements inside a sentence stay in
 * it. Entities that a document declares are not resolved, and nothing is fetched.
 */
export const extractXml: ExtractFormat = async ({ bytes }) => {
  const declared = /^[^>]{0,200}?encoding\s*=\s*["']([\w-]+)["']/.exec(
    bytes.toString("latin1", 0, 300),
  )?.[1];
  const source = (await decodeDocument(bytes, declared)).replace(/^\ufeff/, "");
  // Feeds have names of characters that only HTML knows.
  const known = source.replace(/&(?!(?:amp|lt|gt|quot|apos);)[a-z]\w{1,9};/gi, (name) =>
    decodeHTML(name),
  );
  const tree = await readXmlTree(known);
  const [title] = findElements(tree, "title");
  return {
    title: (title && tidy(toInnerText(title))) || null,
    blocks: [...toLines(tree)].map((text) => ({ kind: "row", text })),
  };
};
