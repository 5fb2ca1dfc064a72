import type { FormatId } from "../types.ts";
import { extractEml } from "./eml.ts";
import { ExtractionError, broken } from "./failure.ts";
import { extractHtml } from "./html.ts";
import { extractDocx, extractEpub, extractPptx, extractXlsx } from "./office.ts";
import { extractOdf } from "./odf.ts";
import { extractPdf } from "./pdf.ts";
import { sniff } from "./sniff.ts";
import { extractCsv, extractJson, extractMarkdown, extractText } from "./text.ts";
import type { Extracted, Extractor, Source } from "./types.ts";

const EXTRACTORS: Record<FormatId, Extractor> = {
  pdf: extractPdf,
  docx: extractDocx,
  xlsx: extractXlsx,
  pptx: extractPptx,
  odt: extractOdf,
  ods: extractOdf,
  odp: extractOdf,
  epub: extractEpub,
  html: extractHtml,
  eml: extractEml,
  csv: extractCsv,
  markdown: extractMarkdown,
  json: extractJson,
  text: extractText,
};

/**
 * Reads a document of any format.
 * @throws ExtractionError, and nothing else.
 */
export async function readDocument(source: Source): Promise<Extracted> {
  const format = sniff(source.bytes, source.filename);
  try {
    return { format, ...(await EXTRACTORS[format](source)) };
  } catch (error) {
    if (error instanceof ExtractionError) throw error;
    throw broken("the document cannot be read; it may be damaged");
  }
}
