import type { TextBlock } from "../chunk.ts";
import { readXml } from "./archive.ts";
import { decodeDocument } from "./charset.ts";
import { broken, type ExtractFormat } from "./types.ts";
import { tidy } from "./xml-tree.ts";

interface Element {
  name: string;
  /** The attributes, as `name value`. */
  attributes: string;
  text: string;
  /** Whether it has text of its own, so that elements in it are parts of its sentence. */
  isMixed: boolean;
}

const MAX_DEPTH = 1000;
/** Addresses of namespaces and schemas say nothing about the content. */
const isContent = (name: string): boolean => !/^xmlns\b|:schemaLocation$|^xml:/.test(name);

function toText({ name, attributes, text }: Element): string {
  const own = tidy(text);
  if (own === "" && attributes === "") return "";
  return `${[name.replace(/^.*:/, ""), attributes].filter(Boolean).join(" ")}: ${own}`.replace(
    /: $/,
    "",
  );
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
  const stack: Element[] = [];
  const blocks: TextBlock[] = [];
  let title: string | null = null;
  await readXml(source, {
    open(name, attributes) {
      if (stack.length >= MAX_DEPTH)
        throw broken("the elements of the document are nested too deeply");
      const pairs = Object.entries(attributes).filter(
        ([key, value]) => isContent(key) && value.trim() !== "",
      );
      stack.push({
        name,
        attributes: pairs.map(([key, value]) => `${key}=${tidy(value)}`).join(" "),
        text: "",
        isMixed: false,
      });
    },
    text(text) {
      const element = stack.at(-1);
      if (!element) return;
      element.text += text;
      element.isMixed ||= text.trim() !== "";
    },
    close() {
      const element = stack.pop();
      const parent = stack.at(-1);
      if (!element) return;
      if (parent?.isMixed) {
        parent.text += element.text;
        return;
      }
      const text = toText(element);
      if (text === "") return;
      if (title === null && /(?:^|:)title$/i.test(element.name)) title = tidy(element.text) || null;
      blocks.push({ kind: "row", text });
    },
  });
  return { title, pages: null, blocks };
};
