import { unzipSync, zipSync } from "fflate";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { docx, pptx, xlsx } from "../knowledge/office-files.ts";
import { documentsWorld, type DocumentsWorld } from "./documents.ts";

let world: DocumentsWorld;
beforeAll(async () => {
  world = await documentsWorld({ agents: [{ id: "ops" }, { id: "sales" }] });
});
afterAll(() => world.close());

interface Passage {
  text: string;
  headings: string[];
  page: number | null;
}

/** Uploads a file, and returns its format and its passages. */
async function read(
  filename: string,
  content: string | Uint8Array,
): Promise<{ mimeType: string; passages: Passage[]; lines: string[] }> {
  const { body } = await world.index(filename, content, { external_id: filename });
  expect(body).toMatchObject({ status: "ready", error: null });
  const passages: Passage[] = [];
  for (let n = 0; n < body.chunk_count; n++)
    passages.push((await world.get(`documents/${body.id}/passages/${n}`)).body);
  const lines = passages.flatMap(({ text }) => text.split("\n")).filter(Boolean);
  return { mimeType: body.mime_type, passages, lines };
}

/** The same archive with other entries, or with entries under other names. */
function change(archive: Uint8Array, edit: (entries: Record<string, string>) => void): Uint8Array {
  const entries = Object.fromEntries(
    Object.entries(unzipSync(archive)).map(([name, bytes]) => [
      name,
      Buffer.from(bytes).toString(),
    ]),
  );
  edit(entries);
  return zipSync(
    Object.fromEntries(Object.entries(entries).map(([name, text]) => [name, Buffer.from(text)])),
  );
}

const run = (text: string): string => `<w:r><w:t>${text}</w:t></w:r>`;
const paragraph = (inner: string): string => `<w:p>${inner}</w:p>`;
const textBox = (text: string): string =>
  `<w:drawing><wp:anchor><a:graphic><a:graphicData><wps:wsp><wps:txbx><w:txbxContent>${paragraph(run(text))}</w:txbxContent></wps:txbx></wps:wsp></a:graphicData></a:graphic></wp:anchor></w:drawing>`;
const NAMESPACES =
  'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:v="urn:schemas-microsoft-com:vml" xmlns:w16se="http://schemas.microsoft.com/office/word/2015/wordml/symex"';
const withNamespaces = (body: string): Uint8Array =>
  change(docx(body), (entries) => {
    entries["word/document.xml"] = (entries["word/document.xml"] ?? "").replace(
      "<w:document ",
      `<w:document ${NAMESPACES} `,
    );
  });

describe("a Word file", () => {
  it.each([
    ["a field", `<w:fldSimple w:instr="DOCPROPERTY Client">${run("walrus")}</w:fldSimple>`],
    ["a run from right to left", `<w:bdo w:val="rtl">${run("walrus")}</w:bdo>`],
    ["an embedded direction", `<w:dir w:val="rtl">${run("walrus")}</w:dir>`],
    [
      "a formula",
      `<m:oMathPara><m:oMath><m:f><m:fPr/><m:num><m:r><m:t>walrus</m:t></m:r></m:num></m:f></m:oMath></m:oMathPara>`,
    ],
    ["a text box", `<w:r>${textBox("walrus")}</w:r>`],
    [
      "a text box that is a picture for other programs",
      `<w:r><mc:AlternateContent><mc:Choice Requires="wps">${textBox("walrus")}</mc:Choice><mc:Fallback><w:drawing><wp:inline/></w:drawing></mc:Fallback></mc:AlternateContent></w:r>`,
    ],
    [
      "a text box in two forms",
      `<w:r><mc:AlternateContent><mc:Choice Requires="wps">${textBox("walrus")}</mc:Choice><mc:Fallback><w:pict><v:shape><v:textbox><w:txbxContent>${paragraph(run("walrus"))}</w:txbxContent></v:textbox></v:shape></w:pict></mc:Fallback></mc:AlternateContent></w:r>`,
    ],
    [
      "a sign that only its other form has as text",
      `<w:r><mc:AlternateContent><mc:Choice Requires="w16se"><w16se:symEx/></mc:Choice><mc:Fallback><w:t>walrus</w:t></mc:Fallback></mc:AlternateContent></w:r>`,
    ],
  ])("keeps the text of %s, once", async (what, inner) => {
    const file = withNamespaces(paragraph(run("Before")) + paragraph(inner));
    expect((await read(`${what}.docx`, file)).lines).toEqual(["Before", "walrus"]);
    expect(await world.search("walrus")).not.toEqual([]);
  });

  it("has headings of any style with a level in the outline", async () => {
    const styled = (style: string, text: string): string =>
      `<w:p><w:pPr><w:pStyle w:val="${style}"/></w:pPr>${run(text)}</w:p>`;
    const style = (id: string, inner: string): string =>
      `<w:style w:type="paragraph" w:styleId="${id}">${inner}</w:style>`;
    const styles = [
      style("Firm", `<w:name w:val="Firm's Chapter"/><w:pPr><w:outlineLvl w:val="0"/></w:pPr>`),
      style("Section", `<w:name w:val="Section"/><w:basedOn w:val="h2"/>`),
      style("h2", `<w:name w:val="heading 2"/><w:pPr><w:outlineLvl w:val="1"/></w:pPr>`),
      style("Loop", `<w:name w:val="Loop"/><w:basedOn w:val="Loop"/>`),
      style(
        "Toc",
        `<w:name w:val="TOC Heading"/><w:basedOn w:val="h2"/><w:pPr><w:outlineLvl w:val="9"/></w:pPr>`,
      ),
    ];
    const body = [
      styled("Firm", "Rental"),
      styled("Loop", "kelp ".repeat(200)),
      styled("Section", "Deposits"),
      styled("Loop", "A deposit is forty pounds."),
      styled("Toc", "It is returned."),
    ];
    const file = change(docx(body.join("")), (entries) => {
      entries["word/_rels/document.xml.rels"] =
        `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles" Target="styles.xml"/></Relationships>`;
      entries["word/styles.xml"] =
        `<w:styles xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">${styles.join("")}</w:styles>`;
    });
    expect((await read("styles.docx", file)).passages.slice(1)).toMatchObject([
      {
        headings: ["Rental", "Deposits"],
        text: "Deposits\n\nA deposit is forty pounds.\n\nIt is returned.",
      },
    ]);
  });

  it("from Word for the web has its text in another part", async () => {
    const file = change(docx(paragraph(run("Second part"))), (entries) => {
      entries["word/document2.xml"] = entries["word/document.xml"] ?? "";
      delete entries["word/document.xml"];
      entries["_rels/.rels"] = (entries["_rels/.rels"] ?? "").replace(
        "document.xml",
        "document2.xml",
      );
    });
    expect((await read("web.docx", file)).lines).toEqual(["Second part"]);
  });
});

it("a presentation is found by its diagrams and the speaker's notes, on the page of their slide", async () => {
  const shape = (text: string, type = ""): string =>
    `<p:sp><p:nvSpPr><p:nvPr>${type && `<p:ph type="${type}"/>`}</p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>${text}</a:t></a:r></a:p></p:txBody></p:sp>`;
  const namespaces =
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram"';
  const file = change(
    pptx({ shapes: shape("First") }, { shapes: shape("Second") }, { shapes: "", isHidden: true }),
    (entries) => {
      const notes = `<p:notes ${namespaces}>${shape("Mention the walrus")}${shape("Mention the kelp", "body")}${shape("2", "sldNum")}</p:notes>`;
      const relations = `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="a" Target="../notesSlides/notesSlide1.xml"/><Relationship Id="b" Target="../diagrams/data1.xml"/><Relationship Id="c" Target="../slideLayouts/slideLayout1.xml"/></Relationships>`;
      entries["ppt/slides/_rels/slide2.xml.rels"] = relations;
      entries["ppt/slides/_rels/slide3.xml.rels"] = relations;
      entries["ppt/notesSlides/notesSlide1.xml"] = notes;
      entries["ppt/diagrams/data1.xml"] =
        `<dgm:dataModel ${namespaces}><dgm:pt><dgm:t><a:p><a:r><a:t>Harvest</a:t></a:r></a:p></dgm:t></dgm:pt></dgm:dataModel>`;
    },
  );
  const { passages } = await read("notes.pptx", file);
  expect(passages.map(({ page, text }) => [page, text])).toEqual([
    [1, "First"],
    [2, "Second\n\nHarvest\n\nMention the kelp"],
  ]);
});

describe("a chart", () => {
  const points = (...texts: string[]): string =>
    texts.map((text, index) => `<c:pt idx="${index}"><c:v>${text}</c:v></c:pt>`).join("");
  const numbers = (format: string, ...values: string[]): string =>
    `<c:numRef><c:numCache><c:formatCode>${format}</c:formatCode>${points(...values)}</c:numCache></c:numRef>`;
  const series = (name: string, values: string, categories = points("North", "South")): string =>
    `<c:ser><c:tx>${points(name)}</c:tx><c:cat>${categories}</c:cat><c:val>${values}</c:val></c:ser>`;
  const chartOf = (title: string, ...all: string[]): string =>
    `<c:chartSpace xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><c:title><a:p><a:r><a:t>${title}</a:t></a:r></a:p></c:title><c:plotArea><c:barChart>${all.join("")}</c:barChart></c:plotArea></c:chartSpace>`;
  const chart = chartOf(
    "Boats by basin",
    series("2025", numbers("General", "4.4000000000000004", "2")),
    series("2026", numbers("General", "5")),
  );
  const lines = ["Boats by basin", " | 2025 | 2026", "North | 4.4 | 5", "South | 2"];

  it("of a slide is found by its title, its categories and its numbers", async () => {
    const file = change(pptx({ shapes: "" }), (entries) => {
      entries["ppt/slides/_rels/slide1.xml.rels"] =
        `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="a" Target="../charts/chart1.xml"/></Relationships>`;
      entries["ppt/charts/chart1.xml"] = chart;
    });
    const { passages } = await read("charts.pptx", file);
    expect(passages.map(({ page, text }) => [page, text])).toEqual([
      [1, `${lines[0]}\n${lines.slice(1).join("\n")}`],
    ]);
  });

  it("has dates and shares as it shows them", async () => {
    const dates = numbers("m/d/yyyy", "45321", "45322");
    const file = change(docx(paragraph(run("Of the harbour"))), (entries) => {
      entries["word/charts/chart1.xml"] = chartOf(
        "Boats by day",
        series("Let", numbers("0%", "0.25", "0.5"), dates),
      );
    });
    expect((await read("dates.docx", file)).lines.slice(2)).toEqual([
      " | Let",
      "2024-01-30 | 25%",
      "2024-01-31 | 50%",
    ]);
  });

  it("of a Word file is behind its text", async () => {
    const file = change(docx(paragraph(run("Of the harbour"))), (entries) => {
      entries["word/charts/chart1.xml"] = chart;
    });
    expect((await read("charts.docx", file)).lines).toEqual(["Of the harbour", ...lines]);
  });
});

it("a presentation with a workbook in it is read as a presentation", async () => {
  const shape = "<p:sp><p:txBody><a:p><a:r><a:t>Kelp sells</a:t></a:r></a:p></p:txBody></p:sp>";
  const workbook = xlsx([{ name: "Data of a chart", rows: "" }]);
  const file = zipSync({
    // As it is, not compressed again: then its names are among the bytes.
    "ppt/embeddings/sheet1.xlsx": [workbook, { level: 0 }],
    ...unzipSync(pptx({ shapes: shape })),
  });
  const { mimeType, lines } = await read("chart.pptx", file);
  expect(mimeType).toMatch(/presentation$/);
  expect(lines).toEqual(["Kelp sells"]);
});

describe("RTF", () => {
  it("of TextEdit has a paragraph behind each backslash at the end of a line", async () => {
    const rtf = String.raw`{\rtf1\ansi\ansicpg1252\cocoartf2639
\f0\fs24 \cf0 Open at nine\
\
Closed on caf\'e9 days\
}`;
    expect((await read("textedit.rtf", rtf)).lines).toEqual([
      "Open at nine",
      "Closed on café days",
    ]);
  });

  it("has text boxes once, and headings", async () => {
    const rtf = String.raw`{\rtf1\ansi\pard\outlinelevel0 Rental\par\pard\outlinelevel9 Bikes{\shp{\*\shpinst{\sp{\sn shapeType}{\sv 202}}{\shptxt \pard in the box\par}}{\shprslt{\*\do{\dptxbxtext \pard in the box\par}}}} are cheap.\par}`;
    expect((await read("box.rtf", rtf)).passages).toMatchObject([
      { headings: ["Rental"], text: "Rental\n\nBikes\n\nin the box\n\nare cheap." },
    ]);
  });
});

it.each([
  ["names with digits", "X-MS-Office365-Filtering-Correlation-Id: 7\r\n"],
  ["more than fits", "X-MS-Exchange-Organization-Score: 1\r\n".repeat(500)],
])("a mail whose fields have %s is read as one", async (what, fields) => {
  const mail = `Received: from a\r\n${fields}From: a@b.example\r\nSubject: =?iso-8859-1?Q?Gr=FC=DFe?=\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nK=FChl und lang=\r\ne her.\r\n`;
  const { mimeType, lines } = await read(`${what}.eml`, mail);
  expect(mimeType).toBe("message/rfc822");
  expect(lines).toContain("Kühl und lange her.");
});

it("Japanese in ISO-2022-JP is read, in a text and in a page that declares it", async () => {
  const word = Buffer.from([0x1b, 0x24, 0x42, 0x46, 0x7c, 0x4b, 0x5c, 0x1b, 0x28, 0x42]);
  const page = [
    '<html><head><meta charset="iso-2022-jp"></head><body><p>',
    word,
    "</p></body></html>",
  ];
  expect((await read("jis.txt", word)).lines).toEqual(["日本"]);
  expect(
    (await read("jis.html", Buffer.concat(page.map((part) => Buffer.from(part))))).lines,
  ).toEqual(["日本"]);
});

it.each([
  ["commas in quoted names", '"Name, first";Age\nKelp;4\n', ["Name, first | Age", "Kelp | 4"]],
  [
    "its separator in the first line",
    "sep=;\r\nName;Price\r\nKelp;3,50\r\n",
    ["Name | Price", "Kelp | 3,50"],
  ],
  [
    "a title above it",
    "Prices, all of them, May\nName;Price;Unit\nKelp;3,50;kg\nCod;4,50;kg\n",
    ["Prices, all of them, May", "Name | Price | Unit", "Kelp | 3,50 | kg", "Cod | 4,50 | kg"],
  ],
])("a table with %s is divided where its cells end", async (what, csv, lines) => {
  expect((await read(`${what}.csv`, csv)).lines).toEqual(lines);
});

it.each([
  ["json", '{"order":{"id":12345678901234567890,"rate":1.10}}'],
  ["jsonl", '{"order":{"id":12345678901234567890,"rate":1.10}}\n'],
])("numbers of %s have all their digits", async (ending, text) => {
  const { lines } = await read(`order.${ending}`, text);
  expect(lines.join("; ")).toBe("order.id: 12345678901234567890; order.rate: 1.10");
});

it("a long number of a workbook has all its digits", async () => {
  const rows = `<row r="1"><c r="A1"><v>4006381333931</v></c><c r="B1"><v>0.5</v></c></row>`;
  expect((await read("ean.xlsx", xlsx([{ name: "S", rows }]))).lines).toEqual([
    "S",
    "4006381333931 | 0.5",
  ]);
});

it("a page's second headings are under its first one", async () => {
  const text = "The deposit for a bicycle is forty pounds, which is returned. ".repeat(40);
  const page = `<html><head><title>Hire</title></head><body><nav>Menu</nav><article><h1>Bicycles</h1><p>${text}</p><h2>Deposits</h2><p>${text}</p></article></body></html>`;
  const { passages } = await read("hire.html", page);
  expect(passages.at(-1)?.headings).toEqual(["Bicycles", "Deposits"]);
});
