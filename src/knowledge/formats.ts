import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join } from "node:path";
import type { Extractor } from "../contract/kinds.ts";
import type { Format } from "./types.ts";

interface Spec {
  mimeType: string;
  extensions: readonly string[];
  packages: readonly string[];
  /** The format that LibreOffice makes of it first, which is read then. */
  by?: "docx" | "xlsx" | "pptx";
}

/** The program of LibreOffice. */
export const PROGRAM = "soffice";
const OASIS = "application/vnd.oasis.opendocument";
const OOXML = "application/vnd.openxmlformats-officedocument";

const ZIPPED = ["fflate", "saxes"];
const XLSX = [...ZIPPED, "numfmt"];
const BOOK = [...ZIPPED, "linkedom"];
const WEB = ["linkedom", "@mozilla/readability"];
const MAIL = ["postal-mime", "linkedom"];
const OUTLOOK = ["@kenjiuno/msgreader", "linkedom"];

/** The names of each format, and the optional packages that read it. */
export const FORMATS = {
  pdf: { mimeType: "application/pdf", extensions: ["pdf"], packages: ["pdfjs-dist"] },
  docx: { mimeType: `${OOXML}.wordprocessingml.document`, extensions: ["docx"], packages: ZIPPED },
  xlsx: { mimeType: `${OOXML}.spreadsheetml.sheet`, extensions: ["xlsx"], packages: XLSX },
  pptx: {
    mimeType: `${OOXML}.presentationml.presentation`,
    extensions: ["pptx"],
    packages: ZIPPED,
  },
  odt: { mimeType: `${OASIS}.text`, extensions: ["odt"], packages: ZIPPED },
  ods: { mimeType: `${OASIS}.spreadsheet`, extensions: ["ods"], packages: ZIPPED },
  odp: { mimeType: `${OASIS}.presentation`, extensions: ["odp"], packages: ZIPPED },
  epub: { mimeType: "application/epub+zip", extensions: ["epub"], packages: BOOK },
  html: { mimeType: "text/html", extensions: ["html", "htm", "xhtml"], packages: WEB },
  eml: { mimeType: "message/rfc822", extensions: ["eml"], packages: MAIL },
  mbox: { mimeType: "application/mbox", extensions: ["mbox"], packages: MAIL },
  msg: { mimeType: "application/vnd.ms-outlook", extensions: ["msg"], packages: OUTLOOK },
  doc: { mimeType: "application/msword", extensions: ["doc"], by: "docx", packages: ZIPPED },
  xls: { mimeType: "application/vnd.ms-excel", extensions: ["xls"], by: "xlsx", packages: XLSX },
  ppt: {
    mimeType: "application/vnd.ms-powerpoint",
    extensions: ["ppt"],
    by: "pptx",
    packages: ZIPPED,
  },
  rtf: { mimeType: "application/rtf", extensions: ["rtf"], packages: [] },
  xml: { mimeType: "application/xml", extensions: ["xml"], packages: ["saxes"] },
  csv: { mimeType: "text/csv", extensions: ["csv", "tsv"], packages: ["csv-parse"] },
  markdown: { mimeType: "text/markdown", extensions: ["md", "markdown"], packages: [] },
  json: { mimeType: "application/json", extensions: ["json", "jsonl", "ndjson"], packages: [] },
  text: { mimeType: "text/plain", extensions: ["txt", "text", "log"], packages: [] },
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
