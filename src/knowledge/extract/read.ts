import type { Extract, Extractor as PluginExtractor } from "../../contract/kinds.ts";
import type { TextBlock } from "../chunk.ts";
import { getFormat, toFormat, type FormatId } from "../formats.ts";
import {
  ExtractionError,
  broken,
  type AttachedDocument,
  type Extracted,
  type ExtractFormat,
  type ExtractSource,
} from "./types.ts";
import { convert } from "./libreoffice.ts";
import { getEnding, sniff } from "./sniff.ts";

/**
 * The reader of each format, loaded when a document has it. A format that LibreOffice converts is read as its result.
 */
const EXTRACTORS: Partial<Record<FormatId, () => Promise<ExtractFormat>>> = {
  pdf: async () => (await import("./pdf.ts")).extractPdf,
  docx: async () => (await import("./office.ts")).extractDocx,
  xlsx: async () => (await import("./xlsx.ts")).extractXlsx,
  pptx: async () => (await import("./office.ts")).extractPptx,
  odt: async () => (await import("./odf.ts")).extractOdf,
  ods: async () => (await import("./odf.ts")).extractOdf,
  odp: async () => (await import("./odf.ts")).extractOdf,
  epub: async () => (await import("./office.ts")).extractEpub,
  html: async () => (await import("./html.ts")).extractHtml,
  eml: async () => (await import("./eml.ts")).extractEml,
  mbox: async () => (await import("./eml.ts")).extractMbox,
  msg: async () => (await import("./eml.ts")).extractMsg,
  rtf: async () => (await import("./rtf.ts")).extractRtf,
  xml: async () => (await import("./xml.ts")).extractXml,
  csv: async () => (await import("./text.ts")).extractCsv,
  markdown: async () => (await import("./text.ts")).extractMarkdown,
  json: async () => (await import("./text.ts")).extractJson,
  text: async () => (await import("./text.ts")).extractText,
};

/** Checks what a plugin's module has read. */
function* toBlocks(
  blocks: Iterable<{ text: unknown; heading?: boolean; page?: number }>,
): Generator<TextBlock> {
  for (const { text, heading, page } of blocks) {
    if (typeof text !== "string")
      throw broken("the plugin that reads this format returned something else than text");
    yield {
      text,
      ...(heading ? { kind: "heading", level: 1 } : { kind: "text" }),
      ...(page === undefined ? {} : { page }),
    };
  }
}

/** Makes an extractor of a plugin's module. */
const fromPlugin =
  ({ module, extensions }: PluginExtractor): ExtractFormat =>
  async ({ bytes, filename }) => {
    const loaded = (await import(module).catch(() => {
      throw new ExtractionError(
        "missing_extractor",
        `the plugin's module that reads .${extensions[0]} files cannot be loaded`,
      );
    })) as { default: Extract };
    const { title = null, blocks } = await loaded.default({ bytes, filename });
    const read = [...toBlocks(blocks)];
    return {
      title,
      pages: read.reduce((most, { page = 0 }) => Math.max(most, page), 0) || null,
      blocks: read,
    };
  };

/** Finds what reads a document: a plugin that claims the ending of its name, else a shipped extractor by its bytes. */
async function findExtractor(
  { bytes, filename }: AttachedDocument,
  plugins: readonly PluginExtractor[],
): Promise<{ mimeType: string; extract: ExtractFormat }> {
  const ending = getEnding(filename);
  const plugin = plugins.find(({ extensions }) => extensions.includes(ending));
  if (plugin) return { mimeType: toFormat(plugin).mimeType, extract: fromPlugin(plugin) };
  const format = await sniff(bytes, filename);
  const { mimeType, by } = getFormat(format);
  const extract: ExtractFormat = async (source) => {
    const read = await EXTRACTORS[by ?? format]?.();
    if (!read) throw broken(`nothing reads ${format}`);
    return read(by ? { ...source, bytes: await convert(source, format, by) } : source);
  };
  return { mimeType, extract };
}

/**
 * Reads a document of any format.
 * @throws ExtractionError, and nothing else.
 */
export async function readDocument(
  source: Omit<ExtractSource, "readAttached">,
  plugins: readonly PluginExtractor[] = [],
): Promise<Extracted> {
  const { mimeType, extract } = await findExtractor(source, plugins);
  try {
    const readAttached = (inner: AttachedDocument): Promise<Extracted> =>
      readDocument(
        { ...source, ...inner, depth: source.depth + 1, progress: () => undefined },
        plugins,
      );
    return { mimeType, title: null, pages: null, ...(await extract({ ...source, readAttached })) };
  } catch (error) {
    if (error instanceof ExtractionError) throw error;
    throw broken("the document cannot be read; it may be damaged");
  }
}
