import type { TextBlock } from "../chunk.ts";
import { ExtractionError, broken, encrypted, optional, type ExtractFormat } from "./types.ts";
import { domBlocks, parseDom } from "./html.ts";
import { readXml, unzip } from "./archive.ts";
import { tableBlocks, toSpan, type TableCell } from "./table.ts";

const tidy = (text: string): string => text.replace(/\s+/g, " ").trim();

/** The first element of a name in an XML file: its text. */
async function textIn(bytes: Buffer | undefined, element: string): Promise<string | null> {
  if (!bytes) return null;
  let inside = false;
  let text = "";
  await readXml(bytes, {
    open: (name) => void (inside ||= name === element && text === ""),
    text: (piece) => void (inside && (text += piece)),
    close: (name) => void (inside &&= name !== element),
  });
  return tidy(text) || null;
}

/** The paragraphs of the headers or footers of a document, each once: sections repeat them. */
async function readMargins(
  parts: ReadonlyMap<string, Buffer>,
  kind: "header" | "footer",
): Promise<TextBlock[]> {
  const found = new Set<string>();
  for (const [name, bytes] of parts) {
    if (!name.startsWith(`word/${kind}`)) continue;
    let text = "";
    let isText = false;
    await readXml(bytes, {
      open: (element) => void (isText = element === "w:t"),
      text: (piece) => void (isText && (text += piece)),
      close(element) {
        isText = false;
        if (element === "w:tab" || element === "w:br") text += " ";
        if (element !== "w:p") return;
        found.add(tidy(text));
        text = "";
      },
    });
  }
  found.delete("");
  return [...found].map((text) => ({ kind: "text", text }));
}

const MARGINS = /^word\/(?:header|footer)\d*\.xml$/;

export const extractDocx: ExtractFormat = async ({ bytes, limits }) => {
  // Counted before mammoth unpacks it without looking.
  const parts = await unzip(
    bytes,
    limits,
    (name) => name === "docProps/core.xml" || MARGINS.test(name),
  );
  const mammoth = await optional("mammoth", () => import("mammoth"));
  const { value } = await mammoth.default
    .convertToHtml(
      { buffer: bytes },
      {
        convertImage: mammoth.default.images.imgElement(async () => ({ src: "" })),
        ignoreEmptyParagraphs: true,
      },
    )
    .catch(() => {
      throw broken("the document cannot be read; its XML is damaged");
    });
  const { body } = await parseDom(value);
  const title = await textIn(parts.get("docProps/core.xml"), "dc:title").catch(() => null);
  const blocks = body ? [...domBlocks(body)] : [];
  return {
    title,
    pages: null,
    blocks: [
      ...(await readMargins(parts, "header")),
      ...blocks,
      ...(await readMargins(parts, "footer")),
    ],
  };
};

/** The slides of a presentation in the order in which they are shown. */
async function slideNames(parts: Map<string, Buffer>): Promise<string[]> {
  const targets = new Map<string, string>();
  const order: string[] = [];
  const relations = parts.get("ppt/_rels/presentation.xml.rels");
  const presentation = parts.get("ppt/presentation.xml");
  if (!relations || !presentation) throw broken("the presentation has no list of slides");
  await readXml(relations, {
    open: (_name, { Id, Target }) =>
      void (Id !== undefined && Target !== undefined && targets.set(Id, Target)),
  });
  await readXml(presentation, {
    open: (name, attributes) =>
      void (name === "p:sldId" && order.push(targets.get(attributes["r:id"] ?? "") ?? "")),
  });
  return order
    .map((target) => (target.startsWith("/") ? target.slice(1) : `ppt/${target}`))
    .filter((name) => parts.has(name));
}

async function slideBlocks(bytes: Buffer, page: number): Promise<TextBlock[]> {
  const blocks: TextBlock[] = [];
  let isTitle = false;
  let paragraph = "";
  let inText = false;
  const rows: TableCell[][] = [];
  let cell: TableCell | undefined;
  let isHidden = false;
  const endParagraph = (): void => {
    const text = tidy(paragraph);
    paragraph = "";
    if (text === "") return;
    if (cell) cell.text = tidy(`${cell.text} ${text}`);
    else
      blocks.push(
        isTitle ? { kind: "heading", text, level: 1, page } : { kind: "text", text, page },
      );
  };
  await readXml(bytes, {
    open(name, attributes) {
      if (name === "p:sld") isHidden = attributes["show"] === "0" || attributes["show"] === "false";
      else if (name === "p:sp") isTitle = false;
      else if (name === "p:ph")
        isTitle = attributes["type"] === "title" || attributes["type"] === "ctrTitle";
      else if (name === "a:tr") rows.push([]);
      else if (name === "a:tc") {
        cell = {
          text: "",
          columns: toSpan(attributes["gridSpan"]),
          rows: toSpan(attributes["rowSpan"]),
        };
        // The merged cell itself says how far it goes.
        const isCovered = [attributes["hMerge"], attributes["vMerge"]].some(
          (value) => value === "1" || value === "true",
        );
        if (!isCovered) rows.at(-1)?.push(cell);
      } else if (name === "a:br") paragraph += " ";
      inText = name === "a:t" || (inText && name !== "a:p");
    },
    text: (text) => void (inText && (paragraph += text)),
    close(name) {
      if (name === "a:t") inText = false;
      else if (name === "a:p") endParagraph();
      else if (name === "a:tc") cell = undefined;
      else if (name === "a:tbl") blocks.push(...tableBlocks(rows.splice(0), page));
    },
  });
  return isHidden ? [] : blocks;
}

export const extractPptx: ExtractFormat = async ({ bytes, limits, progress }) => {
  const parts = await unzip(bytes, limits, (name) =>
    /^ppt\/(?:slides\/slide|presentation|_rels\/presentation)|^docProps\/core/.test(name),
  );
  const names = await slideNames(parts);
  if (names.length > limits.pages)
    throw new ExtractionError("too_large", `the presentation has more than ${limits.pages} slides`);
  const blocks: TextBlock[] = [];
  for (const [index, name] of names.entries()) {
    blocks.push(...(await slideBlocks(parts.get(name) as Buffer, index + 1)));
    progress((index + 1) / names.length);
  }
  return {
    title: await textIn(parts.get("docProps/core.xml"), "dc:title").catch(() => null),
    pages: names.length,
    blocks,
  };
};

const opfPath = async (container: Buffer | undefined): Promise<string> => {
  let path = "";
  if (container)
    await readXml(container, {
      open: (name, { "full-path": full }) => void (name === "rootfile" && (path ||= full ?? "")),
    });
  if (path === "") throw broken("the book does not say where its contents are");
  return path;
};

/** The chapters of a book in reading order. */
async function chapters(
  opf: Buffer,
  path: string,
): Promise<{ names: string[]; title: string | null }> {
  const items = new Map<string, string>();
  const order: string[] = [];
  await readXml(opf, {
    open(name, attributes) {
      const local = name.replace(/^.*:/, "");
      if (local === "item" && /html/.test(attributes["media-type"] ?? ""))
        items.set(attributes["id"] ?? "", attributes["href"] ?? "");
      else if (local === "itemref") order.push(attributes["idref"] ?? "");
    },
  });
  const base = path.includes("/") ? path.slice(0, path.lastIndexOf("/") + 1) : "";
  const names = order.flatMap((id) =>
    items.has(id) ? [base + decodeURIComponent(items.get(id) as string)] : [],
  );
  return { names, title: await textIn(opf, "dc:title") };
}

export const extractEpub: ExtractFormat = async ({ bytes, limits, progress }) => {
  const parts = await unzip(bytes, limits, (name) => /\.(?:x?html?|opf|xml)$/i.test(name));
  const path = await opfPath(parts.get("META-INF/container.xml"));
  const opf = parts.get(path);
  if (!opf) throw broken("the book has no list of contents");
  const { names, title } = await chapters(opf, path);
  const locked = parts.get("META-INF/encryption.xml")?.toString("utf8") ?? "";
  if (names.some((name) => locked.includes(`"${name}"`))) throw encrypted();
  if (names.length > limits.pages)
    throw new ExtractionError("too_large", `the book has more than ${limits.pages} chapters`);
  const blocks: TextBlock[] = [];
  for (const [index, name] of names.entries()) {
    const { body } = await parseDom(parts.get(name)?.toString("utf8") ?? "");
    if (body) blocks.push(...domBlocks(body));
    progress((index + 1) / names.length);
  }
  return { title, pages: null, blocks };
};
