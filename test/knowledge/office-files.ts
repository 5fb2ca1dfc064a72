import { zipSync } from "fflate";

/**
 * Office files as programs write them, made by hand: a merged cell, a hidden part, a formula that nothing has calculated,
 * numbers in formats.
 */
const zip = (entries: Record<string, string>, mimetype?: string): Uint8Array => {
  const files = Object.entries(entries).map(([name, text]) => [name, Buffer.from(text)] as const);
  const type = Buffer.from(mimetype ?? "");
  return zipSync({
    ...(mimetype !== undefined && { mimetype: [type, { level: 0 }] }),
    ...Object.fromEntries(files),
  });
};

const XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>';
const MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"';
const REL = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"';
const RELS = 'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"';

interface Sheet {
  name: string;
  /** The XML of `sheetData`'s rows. */
  rows: string;
  state?: "hidden" | "veryHidden";
  merges?: readonly string[];
  /** The XML behind the merges. */
  rest?: string;
}

/** A workbook. `formats`: number formats by their ids; the style of a cell is the place of its format's id in `styles`. */
export function xlsx(
  sheets: readonly Sheet[],
  {
    formats = {},
    styles = [0],
    texts = [],
    is1904 = false,
  }: {
    formats?: Record<number, string>;
    styles?: readonly number[];
    texts?: readonly string[];
    is1904?: boolean;
  } = {},
): Uint8Array {
  const escape = (text: string): string =>
    text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/"/g, "&quot;");
  const merged = (merges: readonly string[] = []): string =>
    merges.length === 0
      ? ""
      : `<mergeCells count="${merges.length}">${merges.map((ref) => `<mergeCell ref="${ref}"/>`).join("")}</mergeCells>`;
  return zip({
    "[Content_Types].xml": `${XML}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>`,
    "xl/workbook.xml": `${XML}<workbook ${MAIN} ${REL}><workbookPr${is1904 ? ' date1904="1"' : ""}/><sheets>${sheets
      .map(
        ({ name, state }, index) =>
          `<sheet name="${escape(name)}" sheetId="${index + 1}"${state ? ` state="${state}"` : ""} r:id="rId${index + 1}"/>`,
      )
      .join("")}</sheets></workbook>`,
    "xl/_rels/workbook.xml.rels": `${XML}<Relationships ${RELS}>${sheets
      .map(
        (_, index) =>
          `<Relationship Id="rId${index + 1}" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet${index + 1}.xml"/>`,
      )
      .join("")}</Relationships>`,
    "xl/styles.xml": `${XML}<styleSheet ${MAIN}><numFmts>${Object.entries(formats)
      .map(([id, code]) => `<numFmt numFmtId="${id}" formatCode="${escape(code)}"/>`)
      .join(
        "",
      )}</numFmts><cellStyleXfs><xf numFmtId="9"/></cellStyleXfs><cellXfs>${styles.map((id) => `<xf numFmtId="${id}"/>`).join("")}</cellXfs></styleSheet>`,
    "xl/sharedStrings.xml": `${XML}<sst ${MAIN}>${texts.map((text) => `<si>${text}</si>`).join("")}</sst>`,
    ...Object.fromEntries(
      sheets.map(({ rows, merges, rest = "" }, index) => [
        `xl/worksheets/sheet${index + 1}.xml`,
        `${XML}<worksheet ${MAIN}><sheetData>${rows}</sheetData>${merged(merges)}${rest}</worksheet>`,
      ]),
    ),
  });
}

/** A row of a workbook from texts; an empty one has no cell. */
export const textRow = (number: number, ...texts: string[]): string =>
  `<row r="${number}">${texts
    .map((text, column) =>
      text === ""
        ? ""
        : `<c r="${String.fromCharCode(65 + column)}${number}" t="inlineStr"><is><t>${text}</t></is></c>`,
    )
    .join("")}</row>`;

const ODF = ["office:1.0", "style:1.0", "text:1.0", "table:1.0", "presentation:1.0", "drawing:1.0"]
  .map((part) => {
    const [name] = part.split(":");
    return `xmlns:${name === "drawing" ? "draw" : name}="urn:oasis:names:tc:opendocument:xmlns:${part}"`;
  })
  .join(" ");

/** An OpenDocument file. `body`: the XML inside of `office:body`; `automatic`: its automatic styles; `master`: of its pages. */
export const odf = (
  kind: "text" | "spreadsheet",
  body: string,
  { automatic = "", master = "" }: { automatic?: string; master?: string } = {},
): Uint8Array =>
  zip(
    {
      "content.xml": `${XML}<office:document-content ${ODF}><office:automatic-styles>${automatic}</office:automatic-styles><office:body><office:${kind}>${body}</office:${kind}></office:body></office:document-content>`,
      "styles.xml": `${XML}<office:document-styles ${ODF}><office:master-styles>${master}</office:master-styles></office:document-styles>`,
      "META-INF/manifest.xml": `${XML}<manifest/>`,
    },
    `application/vnd.oasis.opendocument.${kind}`,
  );

const W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"';

/** A Word file from the XML of its body. */
export const docx = (body: string): Uint8Array =>
  zip({
    "[Content_Types].xml": `${XML}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>`,
    "_rels/.rels": `${XML}<Relationships ${RELS}><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>`,
    "word/document.xml": `${XML}<w:document ${W}><w:body>${body}</w:body></w:document>`,
  });

const P =
  'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"';

/** A presentation from the XML of the shapes of each slide. */
export const pptx = (...slides: readonly { shapes: string; isHidden?: boolean }[]): Uint8Array =>
  zip({
    "ppt/presentation.xml": `${XML}<p:presentation ${P} ${REL}><p:sldIdLst>${slides.map((_, index) => `<p:sldId id="${256 + index}" r:id="rId${index + 1}"/>`).join("")}</p:sldIdLst></p:presentation>`,
    "ppt/_rels/presentation.xml.rels": `${XML}<Relationships ${RELS}>${slides.map((_, index) => `<Relationship Id="rId${index + 1}" Target="slides/slide${index + 1}.xml"/>`).join("")}</Relationships>`,
    ...Object.fromEntries(
      slides.map(({ shapes, isHidden }, index) => [
        `ppt/slides/slide${index + 1}.xml`,
        `${XML}<p:sld ${P}${isHidden ? ' show="0"' : ""}><p:cSld><p:spTree>${shapes}</p:spTree></p:cSld></p:sld>`,
      ]),
    ),
  });

/** A PDF. `contents`: the drawing operators of each page; `annotations`: those of the first page. */
export function pdf(contents: readonly string[], annotations: readonly string[] = []): Uint8Array {
  const listed = annotations.map((_, index) => `${index + 4} 0 R`).join(" ");
  const first = annotations.length + 4;
  const kids = contents.map((_, index) => `${first + 2 * index} 0 R`).join(" ");
  const all = [
    `<< /Type /DocumentCatalog /Pages 2 0 R /AcroForm << /Fields [${listed}] /DA (/F1 10 Tf 0 g) /DR << /Font << /F1 3 0 R >> >> >> >>`,
    `<< /Type /Pages /Kids [${kids}] /Count ${contents.length} >>`,
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ...annotations,
    ...contents.flatMap((content, index) => [
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents ${first + 2 * index + 1} 0 R /Resources << /Font << /F1 3 0 R >> >> /Annots [${index === 0 ? listed : ""}] >>`,
      `<< /Length ${content.length} >>\nstream\n${content}\nendstream`,
    ]),
  ];
  let file = "%PDF-1.7\n";
  const places: number[] = [];
  for (const [index, object] of all.entries()) {
    places.push(file.length);
    file += `${index + 1} 0 obj\n${object}\nendobj\n`;
  }
  const start = file.length;
  file += `xref\n0 ${all.length + 1}\n0000000000 65535 f \n${places.map((place) => `${String(place).padStart(10, "0")} 00000 n \n`).join("")}`;
  file += `trailer\n<< /Size ${all.length + 1} /Root 1 0 R >>\nstartxref\n${start}\n%%EOF\n`;
  return Buffer.from(file, "latin1");
}
