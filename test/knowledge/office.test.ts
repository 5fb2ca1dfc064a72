import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { unzipSync, zipSync } from "fflate";
import { describe, expect, it } from "vitest";
import { docx, odf, pptx, textRow, xlsx } from "./office-files.ts";
import { readPassages } from "./passages.ts";
import { FIXTURES } from "./world.ts";

const w = (text: string, properties = ""): string =>
  `<w:tc><w:tcPr>${properties}</w:tcPr><w:p><w:r><w:t>${text}</w:t></w:r></w:p></w:tc>`;
const t = (text: string, attributes = ""): string =>
  `<table:table-cell office:value-type="string" ${attributes}><text:p>${text}</text:p></table:table-cell>`;
const COVERED = "<table:covered-table-cell/>";
const a = (text: string, attributes = ""): string =>
  `<a:tc ${attributes}><a:txBody><a:p><a:r><a:t>${text}</a:t></a:r></a:p></a:txBody></a:tc>`;

const ODF_TABLE = `<table:table table:name="Fees">
  <table:table-row>${t("Harbour fees", 'table:number-columns-spanned="3"')}${COVERED}${COVERED}</table:table-row>
  <table:table-row>${t("Berth", 'table:number-rows-spanned="2"')}${t("Price", 'table:number-columns-spanned="2"')}${COVERED}</table:table-row>
  <table:table-row>${COVERED}${t("day")}${t("night")}</table:table-row>
  <table:table-row>${t("North", 'table:number-rows-spanned="2"')}${t("ten")}${t("eleven")}</table:table-row>
  <table:table-row>${COVERED}${t("twelve")}${t("thirteen")}</table:table-row></table:table>`;

const MERGED: [string, () => Uint8Array | string][] = [
  [
    "fees.xlsx",
    () =>
      xlsx([
        {
          name: "Fees",
          rows: [
            textRow(1, "Harbour fees"),
            textRow(2, "Berth", "Price"),
            textRow(3, "", "day", "night"),
            textRow(4, "North", "ten", "eleven"),
            textRow(5, "", "twelve", "thirteen"),
          ].join(""),
          merges: ["A1:C1", "A2:A3", "B2:C2", "A4:A5"],
        },
      ]),
  ],
  ["fees.ods", () => odf("spreadsheet", ODF_TABLE)],
  ["fees.odt", () => odf("text", ODF_TABLE)],
  [
    "fees.docx",
    () =>
      docx(`<w:tbl>
      <w:tr>${w("Harbour fees", '<w:gridSpan w:val="3"/>')}</w:tr>
      <w:tr>${w("Berth", '<w:vMerge w:val="restart"/>')}${w("Price", '<w:gridSpan w:val="2"/>')}</w:tr>
      <w:tr>${w("", "<w:vMerge/>")}${w("day")}${w("night")}</w:tr>
      <w:tr>${w("North", '<w:vMerge w:val="restart"/>')}${w("ten")}${w("eleven")}</w:tr>
      <w:tr>${w("", "<w:vMerge/>")}${w("twelve")}${w("thirteen")}</w:tr></w:tbl>`),
  ],
  [
    "fees.pptx",
    () =>
      pptx({
        shapes: `<p:graphicFrame><a:tbl>
      <a:tr>${a("Harbour fees", 'gridSpan="3"')}${a("", 'hMerge="1"')}${a("", 'hMerge="1"')}</a:tr>
      <a:tr>${a("Berth", 'rowSpan="2"')}${a("Price", 'gridSpan="2"')}${a("", 'hMerge="1"')}</a:tr>
      <a:tr>${a("", 'vMerge="1"')}${a("day")}${a("night")}</a:tr>
      <a:tr>${a("North", 'rowSpan="2"')}${a("ten")}${a("eleven")}</a:tr>
      <a:tr>${a("", 'vMerge="1"')}${a("twelve")}${a("thirteen")}</a:tr></a:tbl></p:graphicFrame>`,
      }),
  ],
  [
    "fees.html",
    () => `<table><caption>Of the year</caption><tr><td colspan=3>Harbour fees</td></tr>
      <tr><th rowspan=2>Berth</th><th colspan=2>Price</th></tr><tr><th>day</th><th>night</th></tr>
      <tr><td rowspan=0>North</td><td>ten</td><td>eleven</td></tr><tr><td>twelve<table><tr><td>inner</td></tr></table></td><td>thirteen</td></tr></table>`,
  ],
];

describe("a merged cell", () => {
  it.each(MERGED)("counts for every cell that it covers: %s", async (filename, make) => {
    const { lines } = await readPassages(filename, make());
    expect(lines.slice(-5).map((line) => line.replace(" inner", ""))).toEqual([
      "Harbour fees",
      "Berth | Price | Price",
      "Berth | day | night",
      "North | ten | eleven",
      "North | twelve | thirteen",
    ]);
  });

  it("names the columns of each passage together with the row below", async () => {
    const rows = Array.from({ length: 300 }, (_, index) =>
      textRow(index + 3, `Berth number ${index}`, "eight", "nine"),
    );
    const { passages } = await readPassages(
      "long.xlsx",
      xlsx([
        {
          name: "Fees",
          rows: [textRow(1, "Berth", "Price"), textRow(2, "", "day", "night"), ...rows].join(""),
          merges: ["A1:A2", "B1:C1"],
        },
      ]),
    );
    expect(passages.length).toBeGreaterThan(3);
    for (const { text } of passages.slice(1))
      expect(text).toMatch(/^Berth \| Price day \| Price night\nBerth number/);
  });

  it("that claims the whole sheet fills no cell beyond those that have text", async () => {
    const merges = ["A1:XFD1048576", "A2:B1048576"];
    const rows = textRow(1, "Kelp") + textRow(900_000, "", "", "Dulse");
    const { lines } = await readPassages("wide.xlsx", xlsx([{ name: "S", rows, merges }]));
    expect(lines.join("").length).toBeLessThan(200);
  });
});

describe("a sheet", () => {
  const sheets = [
    { name: "Cranes", rows: textRow(1, "Crane", "Load") + textRow(2, "Titan", "forty tonnes") },
    { name: "Empty", rows: "" },
    { name: "Salaries", rows: textRow(1, "Harbourmaster", "ninety"), state: "hidden" as const },
    { name: "Lists", rows: textRow(1, "Wombat"), state: "veryHidden" as const },
    { name: "Page 1", rows: textRow(1, "Tug", "Power") + textRow(2, "Otter", "two engines") },
  ];
  const ods = odf(
    "spreadsheet",
    sheets
      .map(
        ({ name, rows, state }) =>
          `<table:table table:name="${name}" table:style-name="${state ? "ta2" : "ta1"}">${rows
            .replace(/<row[^>]*>/g, "<table:table-row>")
            .replace(/<\/row>/g, "</table:table-row>")
            .replace(/<c [^>]*><is><t>/g, "<table:table-cell><text:p>")
            .replace(/<\/t><\/is><\/c>/g, "</text:p></table:table-cell>")}</table:table>`,
      )
      .join(""),
    {
      automatic: `<style:style style:name="ta1" style:family="table"><style:table-properties table:display="true"/></style:style>
        <style:style style:name="ta2" style:family="table"><style:table-properties table:display="false"/></style:style>`,
    },
  );

  it.each([
    ["sheets.xlsx", xlsx(sheets)],
    ["sheets.ods", ods],
  ])("is named by each of its passages, and left out if it is hidden: %s", async (name, file) => {
    const { passages } = await readPassages(name, file);
    expect(passages.map(({ headings, page }) => [headings, page])).toEqual([
      [["Cranes"], 1],
      [["Page 1"], 3],
    ]);
    expect(passages.map(({ text }) => text)).toEqual([
      expect.stringMatching(/Titan \| forty tonnes$/),
      expect.stringMatching(/Otter \| two engines$/),
    ]);
  });
});

describe("the cells of a workbook", () => {
  const number = (column: string, row: number, style: number, value: number): string =>
    `<c r="${column}${row}" s="${style}"><v>${value}</v></c>`;

  it("are read as people see them", async () => {
    const styles = [0, 9, 10, 164, 14, 165, 166, 4, 20, 46, 167];
    const values = [
      [0, 0.1 + 0.2, "0.3"],
      [1, 0.25, "25%"],
      [2, 0.0825, "8.25%"],
      [3, 1234.5, "1,234.50 €"],
      [4, 45_000, "2023-03-15"],
      [5, 45_000.5, "15.03.2023 12:00"],
      [6, 7, "7 berths"],
      [7, 1_000_000, "1,000,000.00"],
      [0, 123_456_789.25, "123456789.25"],
      [8, 0.75, "18:00"],
      [9, 1.5, "36:00:00"],
      [10, -5, "($5.00)"],
    ] as const;
    const rows = values
      .map(
        ([style, value], index) =>
          `<row r="${index + 1}">${number("A", index + 1, style, value)}</row>`,
      )
      .join("");
    const formats = {
      164: '#,##0.00\\ "€"',
      165: "dd.mm.yyyy hh:mm",
      166: '0" berths"',
      167: '"$"#,##0.00_);("$"#,##0.00)',
    };
    const { lines } = await readPassages(
      "numbers.xlsx",
      xlsx([{ name: "N", rows }], { formats, styles }),
    );
    expect(lines).toEqual(["N", ...values.map(([, , shown]) => shown)]);
  });
});

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

const shape = (text: string, type = ""): string =>
  `<p:sp><p:nvSpPr><p:nvPr>${type && `<p:ph type="${type}"/>`}</p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>${text}</a:t></a:r></a:p></p:txBody></p:sp>`;

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
    [
      "characters with their reading",
      `<w:r><w:ruby><w:rt>${run("reading")}</w:rt><w:rubyBase>${run("walrus")}</w:rubyBase></w:ruby></w:r>`,
    ],
  ])("keeps the text of %s, once", async (what, inner) => {
    const file = withNamespaces(paragraph(run("Before")) + paragraph(inner));
    expect((await readPassages(`${what}.docx`, file)).lines).toEqual(["Before", "walrus"]);
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
    expect((await readPassages("styles.docx", file)).passages.slice(1)).toMatchObject([
      {
        headings: ["Rental", "Deposits"],
        text: "Deposits\n\nA deposit is forty pounds.\n\nIt is returned.",
      },
    ]);
  });

  it("has headings with a level of their own in the outline", async () => {
    const levelled = (level: number, text: string): string =>
      `<w:p><w:pPr><w:outlineLvl w:val="${level}"/></w:pPr>${run(text)}</w:p>`;
    const file = docx(
      [
        levelled(0, "Pumps"),
        levelled(9, "kelp ".repeat(200)),
        levelled(1, "Noise"),
        levelled(9, "The pump is loud."),
      ].join(""),
    );
    expect((await readPassages("levels.docx", file)).passages.slice(1)).toMatchObject([
      { headings: ["Pumps", "Noise"], text: "Noise\n\nThe pump is loud." },
    ]);
  });

  it("that a program wrote keeps its text beside a merged table, and has its margins once", async () => {
    const part = (kind: string, text: string): Buffer =>
      Buffer.from(
        `<?xml version="1.0"?><w:${kind} xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">${paragraph(run(text))}</w:${kind}>`,
      );
    const table = `<w:tbl><w:tr>${w("Kelp", '<w:gridSpan w:val="2"/>')}${w("dulse")}</w:tr></w:tbl>`;
    const written = change(await readFile(join(FIXTURES, "pandoc.docx")), (entries) => {
      const xml = entries["word/document.xml"] ?? "";
      entries["word/document.xml"] = xml.replace("<w:sectPr", `${table}<w:sectPr`);
    });
    const file = zipSync({
      ...unzipSync(written),
      "word/header1.xml": part("hdr", "Confidential walrus"),
      "word/header2.xml": part("hdr", "Confidential walrus"),
      "word/footer1.xml": part("ftr", "Valid until the pelican moves"),
    });
    const text = (await readPassages("pandoc.docx", file)).lines.join("\n");
    for (const said of [
      "Descaling takes twenty minutes",
      "Kelp | Kelp | dulse",
      "Valid until the pelican moves",
    ])
      expect(text).toContain(said);
    expect(text.split("Confidential walrus")).toHaveLength(2);
  });
});

it("a presentation is found by its diagrams and the speaker's notes, on the page of their slide", async () => {
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
  const { passages } = await readPassages("notes.pptx", file);
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
    const { passages } = await readPassages("charts.pptx", file);
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
    expect((await readPassages("dates.docx", file)).lines.slice(2)).toEqual([
      " | Let",
      "2024-01-30 | 25%",
      "2024-01-31 | 50%",
    ]);
  });
});

describe("of an Office file", () => {
  const row = (cells: string): string => `<row r="1">${cells}</row>`;
  const headed = (text: string): string =>
    `<style:master-page><style:header><text:p>${text}</text:p></style:header><style:footer><text:p>Page <text:page-number>1</text:page-number></text:p></style:footer></style:master-page>`;

  it.each<[what: string, filename: string, content: Uint8Array, lines: string[]]>([
    [
      "a date that counts from 1904",
      "old.xlsx",
      xlsx([{ name: "N", rows: row('<c r="A1" s="1"><v>43538</v></c>') }], {
        styles: [0, 14],
        is1904: true,
      }),
      ["N", "2023-03-15"],
    ],
    [
      "a long number",
      "ean.xlsx",
      xlsx([
        { name: "S", rows: row(`<c r="A1"><v>4006381333931</v></c><c r="B1"><v>0.5</v></c>`) },
      ]),
      ["S", "4006381333931 | 0.5"],
    ],
    [
      "a text with escaped characters, and a boolean in words",
      "escapes.xlsx",
      xlsx([
        {
          name: "E",
          rows: row(
            `<c r="A1" t="inlineStr"><is><t>one_x000D_\ntwo</t></is></c><c r="B1" t="str"><v>_x005F_x000D_</v></c><c r="C1" t="b"><v>true</v></c>`,
          ),
        },
      ]),
      ["E", "one two | _x000D_ | TRUE"],
    ],
    [
      "the list of texts under a name in capitals, with backslashes in the names",
      "names.xlsx",
      change(
        xlsx([{ name: "N", rows: row('<c r="A1" t="s"><v>0</v></c>') }], {
          texts: ["<t>Kelp</t>"],
        }),
        (entries) => {
          for (const [name, text] of Object.entries(entries)) {
            delete entries[name];
            entries[name.replace("xl/shared", "xl/Shared").replaceAll("/", "\\")] = text;
          }
        },
      ),
      ["N", "Kelp"],
    ],
    [
      "a text box",
      "box.xlsx",
      change(xlsx([{ name: "B", rows: "" }]), (entries) => {
        entries["xl/worksheets/_rels/sheet1.xml.rels"] =
          `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="a" Target="../drawings/drawing1.xml"/></Relationships>`;
        entries["xl/drawings/drawing1.xml"] =
          `<xdr:wsDr xmlns:xdr="http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><xdr:sp><xdr:txBody><a:p><a:r><a:t>Kelp </a:t></a:r><a:r><a:t>first</a:t></a:r></a:p><a:p/></xdr:txBody></xdr:sp></xdr:wsDr>`;
      }),
      ["B", "Kelp first"],
    ],
    [
      "a footer with a text box in two forms, and an account's number",
      "footer.docx",
      change(docx(paragraph(run("Kelp"))), (entries) => {
        const box = `<w:r><mc:AlternateContent><mc:Choice Requires="wps">${textBox("Harbour")}</mc:Choice><mc:Fallback>${textBox("Harbour")}</mc:Fallback></mc:AlternateContent></w:r>`;
        const lines = [
          run("Letter of ") + box + run("the board"),
          run("IBAN DE89 3704 0044"),
          run("Page 1 of 3"),
        ];
        entries["word/footer1.xml"] =
          `<w:ftr xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" ${NAMESPACES}>${lines.map(paragraph).join("")}</w:ftr>`;
      }),
      ["Kelp", "Letter of the board", "Harbour", "IBAN DE89 3704 0044"],
    ],
    [
      "a page that a program has put into it",
      "chunk.docx",
      change(withNamespaces(`<w:altChunk r:id="a"/>`), (entries) => {
        entries["word/document.xml"] = (entries["word/document.xml"] ?? "").replace(
          "<w:document ",
          '<w:document xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" ',
        );
        entries["word/_rels/document.xml.rels"] =
          `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="a" Target="/word/afchunk.html"/></Relationships>`;
        entries["word/afchunk.html"] = "<html><body><h1>Fees</h1><p>Kelp</p></body></html>";
      }),
      ["Fees", "Kelp"],
    ],
    [
      "its text under another prefix, without what was moved away, and its notes",
      "prefix.docx",
      change(
        docx(paragraph(`<w:moveFrom>${run("gone")}</w:moveFrom>${run("Kelp")}`)),
        (entries) => {
          const text = (entries["word/document.xml"] ?? "").replaceAll("w:", "ns0:");
          entries["word/document.xml"] = text.replace("xmlns:w=", "xmlns:ns0=");
          entries["word/footnotes.xml"] = entries["word/document.xml"].replace("Kelp", "A note");
        },
      ),
      ["Kelp", "A note"],
    ],
    [
      "signs of fonts, parts of formulas and text behind a tab, without text that Word hides",
      "signs.docx",
      docx(
        paragraph(
          `${run("5")}<w:r><w:sym w:font="Symbol" w:char="F0B0"/></w:r>${run("C ")}<w:r><w:sym w:font="Symbol" w:char="f06d"/></w:r>${run("m")}<w:r><w:ptab/></w:r><w:r><w:sym w:font="Arial" w:char="20AC"/></w:r><w:r><w:rPr><w:vanish/></w:rPr><w:t>gone</w:t></w:r><w:r><w:rPr><w:vanish w:val="0"/></w:rPr><w:t> r</w:t></w:r><w:sup>${run("1")}</w:sup><w:den>${run("2")}</w:den>`,
        ),
      ),
      ["5°C μm € r^1/2"],
    ],
    [
      "which box is ticked",
      "boxes.docx",
      change(
        docx(
          paragraph(
            ["1", "0"]
              .map(
                (on) =>
                  `<w:sdt><w:sdtPr><w14:checkbox><w14:checked w14:val="${on}"/></w14:checkbox></w:sdtPr><w:sdtContent>${run("")}</w:sdtContent></w:sdt>${run(`dogs ${on} `)}`,
              )
              .join(""),
          ),
        ),
        (entries) => {
          entries["word/document.xml"] = (entries["word/document.xml"] ?? "").replace(
            "<w:document ",
            '<w:document xmlns:w14="http://schemas.microsoft.com/office/word/2010/wordml" ',
          );
        },
      ),
      ["☒dogs 1 ☐dogs 0"],
    ],
    [
      "words without the marks of their notes",
      "notes.odt",
      odf(
        "text",
        "<text:p>The harbour<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>Built in 1900.</text:p></text:note-body></text:note> is deep.</text:p>",
      ),
      ["The harbour Built in 1900. is deep."],
    ],
    [
      "a book whose chapters are in another folder, with elements that close themselves",
      "book.epub",
      zipSync({
        mimetype: [Buffer.from("application/epub+zip"), { level: 0 }],
        "META-INF/container.xml": Buffer.from(
          '<container><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>',
        ),
        "OPS/book.opf": Buffer.from(
          '<package><manifest><item id="a" href="../Text/a.xhtml" media-type="application/xhtml+xml"/></manifest><spine><itemref idref="a"/></spine></package>',
        ),
        "Text/a.xhtml": Buffer.from(
          '<html xmlns="http://www.w3.org/1999/xhtml"><body><a id="page1"/><h1>Fees</h1><p>Kelp</p></body></html>',
        ),
      }),
      ["Fees", "Kelp"],
    ],
    [
      "one of two forms of a shape, with its formula",
      "forms.pptx",
      pptx({
        shapes: `<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"><mc:Choice Requires="a14">${shape("Kelp").replace("</a:p>", "<m:oMath><m:r><m:t>=1</m:t></m:r></m:oMath></a:p>")}</mc:Choice><mc:Fallback>${shape("Kelp")}</mc:Fallback></mc:AlternateContent>`,
      }),
      ["Kelp=1"],
    ],
    [
      "a formula without a value, and errors",
      "cells.xlsx",
      xlsx(
        [
          {
            name: "C",
            rows: row(
              `<c r="A1"><f>SUM(B1:B9)</f></c><c r="B1" t="e"><f>1/0</f><v>#DIV/0!</v></c><c r="C1" t="b"><v>1</v></c><c r="D1" t="str"><f>A1&amp;"x"</f><v>ox</v></c><c r="E1" t="s"><v>0</v></c>`,
            ),
          },
        ],
        { texts: ["<r><t>two </t></r><r><t>parts</t></r><rPh><t>spoken</t></rPh>"] },
      ),
      ["C", "=SUM(B1:B9) (not calculated) | #DIV/0! | TRUE | ox | two parts"],
    ],
    [
      "a formula without a value, and amounts",
      "cells.ods",
      odf(
        "spreadsheet",
        `<table:table table:name="C"><table:table-row>${[
          '<table:table-cell table:formula="of:=SUM([.B1:.B9])"/>',
          '<table:table-cell table:formula="of:=1/0" office:value-type="string"><text:p>#DIV/0!</text:p></table:table-cell>',
          '<table:table-cell office:value-type="percentage" office:value="0.07"/>',
          '<table:table-cell office:value-type="currency" office:currency="EUR" office:value="4.5"/>',
          '<table:table-cell office:value-type="percentage" office:value="0.07"><text:p>7.0 %</text:p></table:table-cell>',
        ].join("")}</table:table-row></table:table>`,
      ),
      ["C", "=SUM([.B1:.B9]) (not calculated) | #DIV/0! | 7% | 4.5 EUR | 7.0 %"],
    ],
    [
      "a header, without the page's number",
      "h.xlsx",
      xlsx([
        {
          name: "H",
          rows: textRow(1, "Kelp"),
          rest: '<headerFooter><oddHeader>&amp;L&amp;"Arial,Bold"&amp;12Internal walrus&amp;R&amp;D</oddHeader><oddFooter>Page &amp;P of &amp;N</oddFooter><evenHeader>R&amp;&amp;D</evenHeader></headerFooter>',
        },
      ]),
      ["H", "Internal walrus", "R&D", "Kelp"],
    ],
    [
      "a header of two kinds of pages",
      "h.odt",
      odf("text", "<text:p>Kelp.</text:p>", { master: headed("Internal walrus").repeat(2) }),
      ["Internal walrus", "Kelp."],
    ],
    [
      "all slides but a hidden one",
      "slides.pptx",
      pptx({ shapes: shape("Kelp") }, { shapes: shape("Salaries"), isHidden: true }),
      ["Kelp"],
    ],
    [
      "a presentation with a workbook in it",
      "chart.pptx",
      zipSync({
        // As it is, not compressed again: then its names are among the bytes.
        "ppt/embeddings/sheet1.xlsx": [xlsx([{ name: "Data", rows: "" }]), { level: 0 }],
        ...unzipSync(pptx({ shapes: shape("Kelp sells") })),
      }),
      ["Kelp sells"],
    ],
    [
      "the text in another part, as Word for the web writes it",
      "web.docx",
      change(docx(paragraph(run("Second part"))), (entries) => {
        entries["word/document2.xml"] = entries["word/document.xml"] ?? "";
        delete entries["word/document.xml"];
        entries["_rels/.rels"] = (entries["_rels/.rels"] ?? "").replace(
          "document.xml",
          "document2.xml",
        );
      }),
      ["Second part"],
    ],
  ])("%s is read", async (_what, filename, content, lines) => {
    expect((await readPassages(filename, content)).lines).toEqual(lines);
  });
});
