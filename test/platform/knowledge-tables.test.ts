import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { unzipSync, zipSync } from "fflate";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { msg } from "../knowledge/msg-file.ts";
import { docx, odf, pdf, pptx, textRow, xlsx } from "../knowledge/office-files.ts";
import { FIXTURES } from "../knowledge/world.ts";
import { DESK, documentsWorld, type DocumentsWorld } from "./documents.ts";

let world: DocumentsWorld;
beforeAll(async () => {
  world = await documentsWorld({ agents: [{ id: "ops", knowledge: "auto" }, { id: "sales" }] });
});
afterAll(() => world.close());

interface Found {
  text: string;
  headings: string[];
  page: number | null;
}

/** Uploads a file, and returns all that is found of it. */
async function read(filename: string, content: string | Uint8Array): Promise<Found[]> {
  const { body } = await world.index(filename, content, { external_id: filename });
  expect(body).toMatchObject({ status: "ready", error: null });
  const passages: Found[] = [];
  for (let n = 0; n < body.chunk_count; n++)
    passages.push((await world.get(`documents/${body.id}/passages/${n}`)).body);
  return passages;
}
const readText = async (filename: string, content: string | Uint8Array): Promise<string> =>
  (await read(filename, content)).map(({ text }) => text).join("\n");

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
    const lines = (await readText(filename, make())).split("\n").filter((line) => line !== "");
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
    const passages = await read(
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
    expect((await readText("wide.xlsx", xlsx([{ name: "S", rows, merges }]))).length).toBeLessThan(
      200,
    );
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
    const passages = await read(name, file);
    expect(passages.map(({ headings, page }) => [headings, page])).toEqual([
      [["Cranes"], 1],
      [["Page 1"], 3],
    ]);
    expect(passages.map(({ text }) => text)).toEqual([
      expect.stringMatching(/Titan \| forty tonnes$/),
      expect.stringMatching(/Otter \| two engines$/),
    ]);
  });

  it("is named to the model and in the citation", async () => {
    await read("named.xlsx", xlsx(sheets));
    world.model.says = () => ({ text: ["Two engines [1]."] });
    const { body } = await world.call(
      "/v1/chat/completions",
      {
        model: "ops",
        messages: [{ role: "user", content: "How many engines has the tug Otter?" }],
      },
      { key: DESK },
    );
    expect(JSON.stringify(world.model.asked.at(-1)?.body.messages.at(-1))).toContain("Page 1");
    expect(body.citations[0]).toMatchObject({ page: 3 });
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
    const text = await readText("numbers.xlsx", xlsx([{ name: "N", rows }], { formats, styles }));
    expect(text.split("\n").filter(Boolean)).toEqual(["N", ...values.map(([, , shown]) => shown)]);
    const old = xlsx([{ name: "N", rows: `<row r="1">${number("A", 1, 1, 43_538)}</row>` }], {
      styles: [0, 14],
      is1904: true,
    });
    expect(await readText("old.xlsx", old)).toContain("2023-03-15");
  });

  it("say that a formula has no value, and show errors", async () => {
    const rows = `<row r="1"><c r="A1"><f>SUM(B1:B9)</f></c><c r="B1" t="e"><f>1/0</f><v>#DIV/0!</v></c><c r="C1" t="b"><v>1</v></c><c r="D1" t="str"><f>A1&amp;"x"</f><v>ox</v></c><c r="E1" t="s"><v>0</v></c></row>`;
    const texts = ["<r><t>two </t></r><r><t>parts</t></r><rPh><t>spoken</t></rPh>"];
    expect(await readText("cells.xlsx", xlsx([{ name: "C", rows }], { texts }))).toContain(
      "=SUM(B1:B9) (not calculated) | #DIV/0! | TRUE | ox | two parts",
    );
    const cells = [
      '<table:table-cell table:formula="of:=SUM([.B1:.B9])"/>',
      '<table:table-cell table:formula="of:=1/0" office:value-type="string"><text:p>#DIV/0!</text:p></table:table-cell>',
      '<table:table-cell office:value-type="percentage" office:value="0.07"/>',
      '<table:table-cell office:value-type="currency" office:currency="EUR" office:value="4.5"/>',
      '<table:table-cell office:value-type="percentage" office:value="0.07"><text:p>7.0 %</text:p></table:table-cell>',
    ].join("");
    const body = `<table:table table:name="C"><table:table-row>${cells}</table:table-row></table:table>`;
    expect(await readText("cells.ods", odf("spreadsheet", body))).toContain(
      "=SUM([.B1:.B9]) (not calculated) | #DIV/0! | 7% | 4.5 EUR | 7.0 %",
    );
  });
});

describe("headers and footers", () => {
  it("of spreadsheets and of OpenDocument texts are read once, without the page's number", async () => {
    const rest =
      '<headerFooter><oddHeader>&amp;L&amp;"Arial,Bold"&amp;12Internal walrus&amp;R&amp;D</oddHeader><oddFooter>Page &amp;P of &amp;N</oddFooter></headerFooter>';
    const book = await readText("h.xlsx", xlsx([{ name: "H", rows: textRow(1, "Kelp"), rest }]));
    expect(book.split("\n").filter(Boolean)).toEqual(["H", "Internal walrus", "Kelp"]);
    const page = (text: string): string =>
      `<style:header><text:p>${text}</text:p></style:header><style:footer><text:p>Page <text:page-number>1</text:page-number></text:p></style:footer>`;
    const master = `<style:master-page>${page("Internal walrus")}</style:master-page><style:master-page>${page("Internal walrus")}</style:master-page>`;
    const text = await readText("h.odt", odf("text", "<text:p>Kelp.</text:p>", { master }));
    expect(text.split("\n").filter(Boolean)).toEqual(["Internal walrus", "Kelp."]);
  });
});

it("a hidden slide is left out", async () => {
  const shape = (text: string): string =>
    `<p:sp><p:txBody><a:p><a:r><a:t>${text}</a:t></a:r></a:p></p:txBody></p:sp>`;
  const file = pptx({ shapes: shape("Kelp") }, { shapes: shape("Salaries"), isHidden: true });
  expect(await readText("slides.pptx", file)).toBe("Kelp");
});

describe("a PDF form", () => {
  const field = (entries: string, rect: string): string =>
    `<< /Type /Annot /Subtype /Widget /F 4 /Rect [${rect}] ${entries} >>`;
  const box = (name: string, on: string, state: string, rect: string): string =>
    field(
      `/FT /Btn /T (${name}) /V /${state} /AS /${state} /AP << /N << /${on} << >> /Off << >> >> >>`,
      rect,
    );
  const FORM = pdf(
    [
      "BT /F1 10 Tf 50 700 Td (Name of the vessel:) Tj 0 -30 Td (Berth) Tj 0 -30 Td (Signed on) Tj 20 -30 Td (Insurance attached) Tj 0 -30 Td (Dogs aboard) Tj ET",
    ],
    [
      field("/FT /Tx /T (Text1) /V (Sea Otter) /DA (/F1 10 Tf 0 g)", "160 695 300 712"),
      field(
        "/FT /Ch /Ff 131072 /T (b.2) /V (N4) /Opt [[(N4) (North four)] [(S1) (South one)]] /DA (/F1 10 Tf 0 g)",
        "160 665 300 682",
      ),
      field(
        "/FT /Tx /T (Text3) /TU (Date of the signature) /V (2026-11-02) /DA (/F1 10 Tf 0 g)",
        "160 635 300 652",
      ),
      box("c1", "Yes", "Yes", "50 605 62 617"),
      box("c2", "Yes", "Off", "50 575 62 587"),
      field("/FT /Tx /T (Text9) /DA (/F1 10 Tf 0 g)", "160 500 300 512"),
      "<< /Type /Annot /Subtype /FreeText /F 4 /Rect [50 400 300 420] /Contents (Arrives with the tide) /DA (/F1 10 Tf 0 g) >>",
    ],
  );

  it("is found by what was filled in, each value with its name", async () => {
    const text = await readText("form.pdf", FORM);
    for (const line of [
      "Name of the vessel: Sea Otter",
      "Berth: North four",
      "Date of the signature: 2026-11-02",
      "☒ Insurance attached",
      "Arrives with the tide",
    ])
      expect(text.split("\n")).toContain(line);
    expect(text).not.toMatch(/☒ Dogs|Text\d/);
    expect((await world.search("Which vessel is Sea Otter?"))[0]).toContain("Sea Otter");
  });
});

describe("a PDF", () => {
  /** Lines of text at places of a page. */
  const page = (...lines: [x: number, y: number, text: string, size?: number][]): string =>
    lines
      .map(([x, y, text, size = 10]) => `BT /F1 ${size} Tf ${x} ${y} Td (${text}) Tj ET`)
      .join("\n");
  const header = (number: number): [number, number, string][] => [
    [50, 780, "Rules of the harbour"],
    [290, 20, `Page ${number}`],
  ];

  it("has a sentence whole that begins on one page and ends on the next, on the first of them", async () => {
    const file = pdf([
      page(
        ...header(1),
        [50, 100, "The basin is deep. The harbour master keeps the"],
        [50, 88, "walrus of the town, which nobody else may feed, in a north-"],
        [50, 40, "1 As the council has decided in its second meeting of the year,", 7],
        [50, 32, "with one vote against it.", 7],
      ),
      page(
        ...header(2),
        [50, 740, "ern pond behind the customs house. It eats at noon."],
        [50, 700, "Boats wait."],
      ),
    ]);
    const [passage] = await read("pages.pdf", file);
    expect(passage?.text.split("\n").filter(Boolean)).toEqual([
      "The basin is deep. The harbour master keeps the walrus of the town, which nobody else may feed, in a northern pond behind the customs house.",
      "Rules of the harbour",
      "Page 1",
      "1 As the council has decided in its second meeting of the year, with one vote against it.",
      "It eats at noon.",
      "Boats wait.",
      "Rules of the harbour",
      "Page 2",
    ]);
  });

  it("keeps a sentence whole that continues in the next column", async () => {
    const file = pdf([
      page(
        [50, 640, "The left column is about tugs."],
        [50, 628, "Each of them has two"],
        [320, 700, "engines and a crew of four."],
        [320, 660, "Nothing else is known."],
      ),
    ]);
    const [passage] = await read("columns.pdf", file);
    expect(passage?.text.split("\n").filter(Boolean)).toEqual([
      "The left column is about tugs. Each of them has two engines and a crew of four.",
      "Nothing else is known.",
    ]);
  });

  it("keeps what ends on a page apart from what begins on the next", async () => {
    const file = pdf([
      page([50, 700, "Prices of the year"], [50, 688, "Matcha"]),
      page([50, 700, "Sencha"], [50, 688, "is sold out."]),
    ]);
    const [passage] = await read("ends.pdf", file);
    expect(passage?.text.split("\n").filter(Boolean)).toEqual([
      "Prices of the year Matcha",
      "Sencha is sold out.",
    ]);
  });
});

it("an Outlook mail is read with its attachments", async () => {
  const file = msg({
    subject: "Berths – 港口",
    text: "The tug comes on Thursday.",
    from: { name: "Ada", address: "ada@example.com" },
    to: { name: "Bo", address: "bo@example.com" },
    attachments: [
      { name: "fees.csv", content: Buffer.from("berth,fee\nNorth,12\n") },
      { name: "plan.zip", content: Buffer.from("PK\u0003\u0004 nothing") },
    ],
  });
  const { body } = await world.index("berths.msg", file);
  expect(body).toMatchObject({ status: "ready", mime_type: "application/vnd.ms-outlook" });
  const passage = (await world.get(`documents/${body.id}/passages/0`)).body;
  for (const part of [
    "Berths – 港口",
    "From: Ada <ada@example.com>",
    "To: Bo <bo@example.com>",
    "The tug comes on Thursday.",
    "Attached: fees.csv",
    "North | 12",
    "Attached: plan.zip (not read: ",
  ])
    expect(passage.text).toContain(part);
});

it("a Word file that a program wrote keeps its text beside a merged table", async () => {
  const entries = unzipSync(await readFile(join(FIXTURES, "pandoc.docx")));
  const xml = Buffer.from(entries["word/document.xml"] ?? new Uint8Array()).toString();
  const table = `<w:tbl><w:tr>${w("Kelp", '<w:gridSpan w:val="2"/>')}${w("dulse")}</w:tr></w:tbl>`;
  const file = zipSync({
    ...entries,
    "word/document.xml": Buffer.from(xml.replace("<w:sectPr", `${table}<w:sectPr`)),
  });
  const text = await readText("pandoc.docx", file);
  expect(text).toContain("Descaling takes twenty minutes");
  expect(text).toContain("Kelp | Kelp | dulse");
});
