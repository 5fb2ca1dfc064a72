import { describe, expect, it } from "vitest";
import { pdf } from "./office-files.ts";
import { readPassages } from "./passages.ts";

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
    const { lines } = await readPassages("form.pdf", FORM);
    for (const line of [
      "Name of the vessel: Sea Otter",
      "Berth: North four",
      "Date of the signature: 2026-11-02",
      "☒ Insurance attached",
      "Arrives with the tide",
    ])
      expect(lines).toContain(line);
    expect(lines.join("\n")).not.toMatch(/☒ Dogs|Text\d/);
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
    const { lines } = await readPassages("pages.pdf", file);
    expect(lines).toEqual([
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
    const { lines } = await readPassages("columns.pdf", file);
    expect(lines).toEqual([
      "The left column is about tugs. Each of them has two engines and a crew of four.",
      "Nothing else is known.",
    ]);
  });

  it.each([
    ["Microsoft Word - handbook.doc", "handbook.doc"],
    ["Untitled-1", null],
    ["Rules", "Rules"],
  ])("with the title %s has the title %s", async (written, title) => {
    const file = Buffer.from(pdf([page([50, 700, "Boats wait."])])).toString("latin1");
    const info = `/Root 1 0 R /Info << /Title (${written}) >>`;
    const named = Buffer.from(file.replace("/Root 1 0 R", info), "latin1");
    expect((await readPassages("title.pdf", named)).title).toBe(title);
  });

  it("keeps words apart that are drawn from the right to the left", async () => {
    const file = pdf([page([80, 700, "shalom"], [40, 700, "olam"])]);
    expect((await readPassages("right.pdf", file)).lines).toEqual(["shalom olam"]);
  });

  it("keeps the mark of a note apart from the word before, and that of a unit with it", async () => {
    const file = pdf([
      page(
        [50, 700, "The harbour"],
        [105, 704, "1", 6],
        [110, 700, " has 5 km"],
        [150, 704, "2", 6],
        [155, 700, " of water."],
      ),
    ]);
    expect((await readPassages("notes.pdf", file)).lines).toEqual([
      "The harbour 1 has 5 km2 of water.",
    ]);
  });

  it("keeps what ends on a page apart from what begins on the next", async () => {
    const file = pdf([
      page([50, 700, "Prices of the year"], [50, 688, "Matcha"]),
      page([50, 700, "Sencha"], [50, 688, "is sold out."]),
    ]);
    const { lines } = await readPassages("ends.pdf", file);
    expect(lines).toEqual(["Prices of the year Matcha", "Sencha is sold out."]);
  });
});
