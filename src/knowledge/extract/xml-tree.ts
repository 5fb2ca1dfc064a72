import { readXml } from "./archive.ts";
import { broken } from "./types.ts";

/** An element of a small part of a document, which is read as a whole. Names have their prefixes. */
export interface XmlElement {
  name: string;
  attributes: Record<string, string>;
  children: (XmlElement | string)[];
}

export const tidy = (text: string): string => text.replace(/\s+/g, " ").trim();

/** Programs prefix the elements of a workbook, or do not. */
export const toLocal = (name: string): string => name.slice(name.indexOf(":") + 1);

const MAX_DEPTH = 1000;

/** Reads XML as a tree; returns an empty one for no bytes. */
export async function readXmlTree(bytes: Buffer | undefined): Promise<XmlElement> {
  const root: XmlElement = { name: "", attributes: {}, children: [] };
  const open = [root];
  if (bytes)
    await readXml(bytes, {
      open(name, attributes) {
        if (open.length > MAX_DEPTH)
          throw broken("the elements of the document are nested too deeply");
        const element: XmlElement = { name, attributes, children: [] };
        open.at(-1)?.children.push(element);
        open.push(element);
      },
      text: (text) => void open.at(-1)?.children.push(text),
      close: () => void open.pop(),
    });
  return root;
}

/** The elements inside of another one, in the order of the text. */
export function* listElements({ children }: XmlElement): Generator<XmlElement> {
  for (const child of children)
    if (typeof child !== "string") {
      yield child;
      yield* listElements(child);
    }
}

/** Those with a name, with its prefix or without it. */
export const findElements = (element: XmlElement, wanted: string): XmlElement[] =>
  [...listElements(element)].filter(({ name }) => name === wanted || toLocal(name) === wanted);

/** The text of an element. `render` says what is in the place of one inside of it; undefined for its own text. */
export function toInnerText(
  { children }: XmlElement,
  render: (element: XmlElement) => string | undefined = () => undefined,
): string {
  return children
    .map((child) =>
      typeof child === "string" ? child : (render(child) ?? toInnerText(child, render)),
    )
    .join("");
}

/** The title that a document gives itself in its metadata. */
export async function readTitle(metadata: Buffer | undefined): Promise<string | null> {
  const [title] = findElements(await readXmlTree(metadata), "dc:title");
  return (title && tidy(toInnerText(title))) || null;
}

/** The parts that a part of an Office file names, by their ids. `folder` has the part. */
export async function readTargets(relations: Buffer, folder: string): Promise<Map<string, string>> {
  const found = findElements(await readXmlTree(relations), "Relationship");
  return new Map(
    found.map(({ attributes: { Id = "", Target = "" } }) => [
      Id,
      Target.startsWith("/") ? Target.slice(1) : `${folder}/${Target}`,
    ]),
  );
}

const LONG_WORD = /\p{L}{4,}/gu;
const MIN_LONG_WORDS = 2;

/** Whether a header or footer that has a field tells something without it: "Page … of …" does not. */
export const isTelling = (text: string): boolean =>
  (text.match(LONG_WORD)?.length ?? 0) >= MIN_LONG_WORDS;
