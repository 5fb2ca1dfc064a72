import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join } from "node:path";
import type { Extractor } from "../contract/kinds.ts";
import type { Format } from "./types.ts";

interface Spec {
  mimeType: string;
  extensions: readonly string[];
  packages: readonly string[];
  /** A program that has to be installed too. */
  program?: string;
}

const ZIPPED = ["fflate", "saxes"];
const OASIS = "application/vnd.oasis.opendocument";
const OOXML = "application/vnd.openxmlformats-officedocument";

/** What each format is called, and which optional packages read it. */
export const FORMATS = {
  pdf: { mimeType: "application/pdf", extensions: ["pdf"], packages: ["pdfjs-dist"] },
  docx: {
    mimeType: `${OOXML}.wordprocessingml.document`,
    extensions: ["docx"],
    packages: ["mammoth", "linkedom", "fflate"],
  },
  xlsx: {
    mimeType: `${OOXML}.spreadsheetml.sheet`,
    extensions: ["xlsx"],
    packages: [...ZIPPED, "numfmt"],
  },
  pptx: {
    mimeType: `${OOXML}.presentationml.presentation`,
    extensions: ["pptx"],
    packages: ZIPPED,
  },
  odt: { mimeType: `${OASIS}.text`, extensions: ["odt"], packages: ZIPPED },
  ods: { mimeType: `${OASIS}.spreadsheet`, extensions: ["ods"], packages: ZIPPED },
  odp: { mimeType: `${OASIS}.presentation`, extensions: ["odp"], packages: ZIPPED },
  epub: {
    mimeType: "application/epub+zip",
    extensions: ["epub"],
    packages: [...ZIPPED, "linkedom"],
  },
  html: {
    mimeType: "text/html",
    extensions: ["html", "htm", "xhtml"],
    packages: ["linkedom", "@mozilla/readability"],
  },
  eml: { mimeType: "message/rfc822", extensions: ["eml"], packages: ["postal-mime", "linkedom"] },
  msg: {
    mimeType: "application/vnd.ms-outlook",
    extensions: ["msg"],
    packages: ["@kenjiuno/msgreader", "linkedom"],
  },
  doc: {
    mimeType: "application/msword",
    extensions: ["doc"],
    packages: ["mammoth", "linkedom", "fflate"],
    program: "soffice",
  },
  xls: {
    mimeType: "application/vnd.ms-excel",
    extensions: ["xls"],
    packages: [...ZIPPED, "numfmt"],
    program: "soffice",
  },
  ppt: {
    mimeType: "application/vnd.ms-powerpoint",
    extensions: ["ppt"],
    packages: ZIPPED,
    program: "soffice",
  },
  rtf: { mimeType: "application/rtf", extensions: ["rtf"], packages: [] },
  xml: { mimeType: "application/xml", extensions: ["xml"], packages: ["saxes"] },
  csv: { mimeType: "text/csv", extensions: ["csv", "tsv"], packages: ["csv-parse"] },
  markdown: { mimeType: "text/markdown", extensions: ["md", "markdown"], packages: [] },
  json: { mimeType: "application/json", extensions: ["json", "jsonl", "ndjson"], packages: [] },
  text: { mimeType: "text/plain", extensions: ["txt", "text", "log"], packages: [] },
} satisfies Record<string, Spec>;

export type FormatId = keyof typeof FORMATS;

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
  const shipped = Object.entries<Spec>(FORMATS).map(([id, { program, ...spec }]) => ({
    id,
    ...spec,
    missing: [
      ...spec.packages.filter((name) => !isInstalled(name)),
      ...(program === undefined || hasProgram(program, path) ? [] : [`LibreOffice (${program})`]),
    ],
  }));
  return [...shipped.filter(({ id }) => !added.some((format) => format.id === id)), ...added];
}
