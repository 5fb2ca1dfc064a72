import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join } from "node:path";
import type { Extractor } from "../contract/kinds.ts";
import type { ExtractFormat } from "./extract/types.ts";
import type { Format } from "./types.ts";

interface Spec {
  mimeType: string;
  extensions: readonly string[];
  packages: readonly string[];
  /** Loads what reads it. */
  load(): Promise<ExtractFormat>;
  /** The format that LibreOffice makes of it first, which is read then. */
  by?: "docx" | "xlsx" | "pptx";
}

/** The program of LibreOffice. */
export const PROGRAM = "soffice";
const OASIS = "application/vnd.oasis.opendocument";
const OOXML = "application/vnd.openxmlformats-officedocument";

const docx = {
  packages: ["mammoth", "linkedom", "fflate"],
  load: async () => (await import("./extract/office.ts")).extractDocx,
};
const xlsx = {
  packages: ["fflate", "saxes", "numfmt"],
  load: async () => (await import("./extract/xlsx.ts")).extractXlsx,
};
const pptx = {
  packages: ["fflate", "saxes"],
  load: async () => (await import("./extract/office.ts")).extractPptx,
};
const odf = {
  packages: ["fflate", "saxes"],
  load: async () => (await import("./extract/odf.ts")).extractOdf,
};

/** What each format is called, which optional packages read it, and which code. */
export const FORMATS = {
  pdf: {
    mimeType: "application/pdf",
    extensions: ["pdf"],
    packages: ["pdfjs-dist"],
    load: async () => (await import("./extract/pdf.ts")).extractPdf,
  },
  docx: { mimeType: `${OOXML}.wordprocessingml.document`, extensions: ["docx"], ...docx },
  xlsx: { mimeType: `${OOXML}.spreadsheetml.sheet`, extensions: ["xlsx"], ...xlsx },
  pptx: { mimeType: `${OOXML}.presentationml.presentation`, extensions: ["pptx"], ...pptx },
  odt: { mimeType: `${OASIS}.text`, extensions: ["odt"], ...odf },
  ods: { mimeType: `${OASIS}.spreadsheet`, extensions: ["ods"], ...odf },
  odp: { mimeType: `${OASIS}.presentation`, extensions: ["odp"], ...odf },
  epub: {
    mimeType: "application/epub+zip",
    extensions: ["epub"],
    packages: ["fflate", "saxes", "linkedom"],
    load: async () => (await import("./extract/office.ts")).extractEpub,
  },
  html: {
    mimeType: "text/html",
    extensions: ["html", "htm", "xhtml"],
    packages: ["linkedom", "@mozilla/readability"],
    load: async () => (await import("./extract/html.ts")).extractHtml,
  },
  eml: {
    mimeType: "message/rfc822",
    extensions: ["eml"],
    packages: ["postal-mime", "linkedom"],
    load: async () => (await import("./extract/eml.ts")).extractEml,
  },
  msg: {
    mimeType: "application/vnd.ms-outlook",
    extensions: ["msg"],
    packages: ["@kenjiuno/msgreader", "linkedom"],
    load: async () => (await import("./extract/eml.ts")).extractMsg,
  },
  doc: { mimeType: "application/msword", extensions: ["doc"], by: "docx", ...docx },
  xls: { mimeType: "application/vnd.ms-excel", extensions: ["xls"], by: "xlsx", ...xlsx },
  ppt: { mimeType: "application/vnd.ms-powerpoint", extensions: ["ppt"], by: "pptx", ...pptx },
  rtf: { mimeType: "application/rtf", extensions: ["rtf"], by: "docx", ...docx },
  xml: {
    mimeType: "application/xml",
    extensions: ["xml"],
    packages: ["saxes"],
    load: async () => (await import("./extract/xml.ts")).extractXml,
  },
  csv: {
    mimeType: "text/csv",
    extensions: ["csv", "tsv"],
    packages: ["csv-parse"],
    load: async () => (await import("./extract/text.ts")).extractCsv,
  },
  markdown: {
    mimeType: "text/markdown",
    extensions: ["md", "markdown"],
    packages: [],
    load: async () => (await import("./extract/text.ts")).extractMarkdown,
  },
  json: {
    mimeType: "application/json",
    extensions: ["json", "jsonl", "ndjson"],
    packages: [],
    load: async () => (await import("./extract/text.ts")).extractJson,
  },
  text: {
    mimeType: "text/plain",
    extensions: ["txt", "text", "log"],
    packages: [],
    load: async () => (await import("./extract/text.ts")).extractText,
  },
} satisfies Record<string, Spec>;

export type FormatId = keyof typeof FORMATS;

/** The entry of a format. */
export const getFormat = (id: FormatId): Spec => FORMATS[id];

const require = createRequire(import.meta.url);

/** Looks for a package without loading it. */
function isInstalled(name: string): boolean {
  return (require.resolve.paths(name) ?? []).some((folder) => {
    try {
      require.resolve(`${folder}/${name}/package.json`);
      return true;
    } catch {
      return false;
    }
  });
}

const hasProgram = (name: string, path: string): boolean =>
  path.split(delimiter).some((folder) => folder !== "" && existsSync(join(folder, name)));

/** A format of a plugin as it is listed. */
export const toFormat = ({ extensions, mediaTypes }: Extractor): Format => ({
  id: extensions[0] ?? "",
  mimeType: mediaTypes[0] ?? "application/octet-stream",
  extensions,
  packages: [],
  missing: [],
});

/** Lists every format, with the packages that are missing here. A plugin's format takes the place of a shipped one of the same id. `path`: the folders of programs, as in PATH. */
export function installedFormats(extractors: readonly Extractor[] = [], path = ""): Format[] {
  const added = extractors.map(toFormat);
  const shipped = Object.entries<Spec>(FORMATS).map(
    ([id, { mimeType, extensions, packages, by }]) => ({
      id,
      mimeType,
      extensions,
      packages,
      missing: [
        ...packages.filter((name) => !isInstalled(name)),
        ...(by === undefined || hasProgram(PROGRAM, path) ? [] : [`LibreOffice (${PROGRAM})`]),
      ],
    }),
  );
  return [...shipped.filter(({ id }) => !added.some((format) => format.id === id)), ...added];
}
