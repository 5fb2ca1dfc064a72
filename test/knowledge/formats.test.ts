import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { msg } from "./msg-file.ts";
import { createWorld, FIXTURES, type KnowledgeWorld } from "./world.ts";

let world: KnowledgeWorld;
beforeAll(async () => {
  world = await createWorld();
});
afterAll(() => world.close());

const OOXML = "application/vnd.openxmlformats-officedocument";
const OASIS = "application/vnd.oasis.opendocument";

interface Expected {
  file: string;
  mimeType: string;
  title: string | null;
  pages: number | null;
  question: string;
  /** Words of the best passage. */
  says: string;
  /** The page it is said on. */
  page?: number;
}

const handbook = {
  title: "Harbour café handbook",
  pages: null,
  question: "How long does descaling take?",
  says: "Descaling takes twenty minutes",
};
const drinks = { title: null, question: "matcha powder", says: "Matcha latte | 4.2" };

const FILES: Expected[] = [
  { ...handbook, file: "libreoffice.pdf", mimeType: "application/pdf", pages: 1, page: 1 },
  { ...handbook, file: "owner-password.pdf", mimeType: "application/pdf", pages: 1, page: 1 },
  {
    file: "libreoffice-zh.pdf",
    mimeType: "application/pdf",
    title: null,
    pages: 1,
    question: "除垢需要多长时间？",
    says: "除垢需要二十分钟和一包柠檬酸",
    page: 1,
  },
  // Fonts that are not in the file, with the encodings UniGB-UCS2-H and UniJIS-UCS2-H: only character maps make text of them.
  {
    file: "reportlab-cid.pdf",
    mimeType: "application/pdf",
    title: null,
    pages: 2,
    question: "青い棚",
    says: "傘は九十日間、青い棚に保管されます。",
    page: 1,
  },
  { ...handbook, file: "pandoc.docx", mimeType: `${OOXML}.wordprocessingml.document` },
  { ...handbook, file: "libreoffice.docx", mimeType: `${OOXML}.wordprocessingml.document` },
  { ...handbook, file: "pandoc.odt", mimeType: `${OASIS}.text` },
  { ...handbook, file: "libreoffice.odt", mimeType: `${OASIS}.text` },
  {
    ...handbook,
    file: "pandoc.pptx",
    mimeType: `${OOXML}.presentationml.presentation`,
    pages: 4,
    page: 3,
  },
  {
    ...handbook,
    file: "libreoffice.pptx",
    mimeType: `${OOXML}.presentationml.presentation`,
    pages: 4,
    page: 3,
  },
  { ...handbook, file: "libreoffice.odp", mimeType: `${OASIS}.presentation`, pages: 4, page: 3 },
  { ...handbook, file: "pandoc.epub", mimeType: "application/epub+zip" },
  { ...handbook, file: "pandoc.html", mimeType: "text/html" },
  { ...handbook, file: "libreoffice.html", mimeType: "text/html" },
  { ...handbook, file: "guide.md", mimeType: "text/markdown" },
  {
    ...handbook,
    file: "windows-1252.txt",
    mimeType: "text/plain",
    title: null,
    question: "harbour café",
    says: "harbour café opens at seven",
  },
  { ...drinks, file: "drinks.xlsx", mimeType: `${OOXML}.spreadsheetml.sheet`, pages: 1, page: 1 },
  { ...drinks, file: "drinks.ods", mimeType: `${OASIS}.spreadsheet`, pages: 1, page: 1 },
  {
    ...drinks,
    file: "drinks.csv",
    mimeType: "text/csv",
    pages: null,
    says: 'Ceremonial powder from Uji, "first harvest"',
  },
  { ...drinks, file: "drinks-utf16.csv", mimeType: "text/csv", pages: null },
  {
    file: "mail.eml",
    mimeType: "message/rfc822",
    title: "Re: Lieferung für Café – 港口咖啡馆",
    pages: null,
    question: "When do the naïve beans arrive?",
    says: "arrives on Thursday at the harbour gate",
  },
  {
    file: "mail-html-gb2312.eml",
    mimeType: "message/rfc822",
    title: "咖啡豆",
    pages: null,
    question: "咖啡豆什么时候到达？",
    says: "咖啡豆星期四到达港口大门",
  },
  {
    file: "zh-gb18030.txt",
    mimeType: "text/plain",
    title: null,
    pages: null,
    question: "雨伞放在哪里",
    says: "雨伞和其他失物在地窖门旁边的蓝色柜子",
  },
];

describe("files that other programs made", () => {
  it.each(FILES)("$file", async ({ file, mimeType, title, pages, question, says, page }) => {
    // A tenant for each: no file is found in another's place.
    const document = await world.fixture(file, { tenant: file });
    expect(document).toMatchObject({
      status: "ready",
      error: null,
      mimeType,
      title,
      pageCount: pages,
      progress: 1,
    });
    const [best] = await world.knowledge.search({ tenant: file, text: question });
    expect(best?.text.replace(/\s+/g, " ")).toContain(says);
    expect(best).toMatchObject({ documentId: document.id, filename: file, page: page ?? null });
  });

  it.each<[filename: string, mimeType: string, content: string | Uint8Array]>([
    ["a.rtf", "application/rtf", String.raw`{\rtf1\ansi The walrus sleeps.\par}`],
    ["a.xml", "application/xml", '<?xml version="1.0"?><a>The walrus sleeps.</a>'],
    [
      "archive",
      "application/mbox",
      "From ann@example.com Fri Jul  8 12:08:34 2011\nFrom: ann@example.com\n\nThe walrus sleeps.\n",
    ],
    [
      "a.msg",
      "application/vnd.ms-outlook",
      msg({
        subject: "Sea",
        text: "The walrus sleeps.",
        from: { name: "Ada", address: "ada@example.com" },
        to: { name: "Bo", address: "bo@example.com" },
        attachments: [],
      }),
    ],
    ["wide.txt", "text/plain", Buffer.from("The walrus sleeps.", "utf16le")],
  ])("and files made by hand: %s", async (filename, mimeType, content) => {
    const document = await world.index(content, { tenant: filename, filename });
    expect(document).toMatchObject({ status: "ready", mimeType });
    expect((await world.found("walrus", { tenant: filename }))[0]).toContain("walrus sleeps");
  });

  it("the headings above a passage come with it", async () => {
    const html = "<h1>Handbook</h1><h2>Deliveries</h2><p>Beans come on Thursday.</p>";
    await world.index(html, { tenant: "headings", filename: "a.html" });
    const text =
      "# One\n\nIntroduction.\n\n## Two\n\n" +
      "Filler words stand here again and again. ".repeat(60) +
      "\n\n### Three\n\nThe axolotl sleeps.";
    await world.index(text, { tenant: "headings", filename: "a.md" });
    const [best] = await world.knowledge.search({ tenant: "headings", text: "axolotl" });
    expect(best?.headings).toEqual(["One", "Two", "Three"]);
  });

  it("the rows of a table stay whole, under the names of its columns", async () => {
    const rows = Array.from(
      { length: 300 },
      (_, index) => `${index},Name ${index},"Some words about item number ${index}, kept together"`,
    );
    await world.index(`id,name,note\n${rows.join("\n")}\n`, {
      tenant: "rows",
      filename: "long.csv",
    });
    const passages = await world.knowledge.search({
      tenant: "rows",
      text: "item number words",
      limit: 100,
    });
    expect(passages.length).toBeGreaterThan(5);
    for (const { text } of passages) {
      expect(text.startsWith("id | name | note\n")).toBe(true);
      for (const line of text.split("\n").slice(1))
        expect(line).toMatch(
          /^(\d+) \| Name \1 \| Some words about item number \1, kept together$/,
        );
    }
  });

  it("JSON by its members, and lines of JSON", async () => {
    await world.index(
      JSON.stringify([
        { sku: "A-1", tags: ["red", "wool"] },
        { sku: "B-2", name: "Blue kettle" },
      ]),
      { tenant: "json", filename: "a.json" },
    );
    expect(await world.found("kettle", { tenant: "json" })).toEqual([
      "sku: A-1; tags.0: red; tags.1: wool\nsku: B-2; name: Blue kettle",
    ]);
    await world.index(
      '{"question":"Where is the tram stop?"}\n{"question":"Who waters the ferns?"}\n',
      {
        tenant: "jsonl",
        filename: "a.jsonl",
      },
    );
    expect(await world.found("tram", { tenant: "jsonl" })).toEqual([
      "question: Where is the tram stop?\nquestion: Who waters the ferns?",
    ]);
  });

  it("a web page without its menu, and a page that is all lists with all of it", async () => {
    const story =
      "<p>The lighthouse keeper counts the ships that pass the northern reef, and writes each of them into a book of grey linen.</p>".repeat(
        8,
      );
    const page = `<html><head><title>News</title></head><body><nav><a href=/>Subscribe to everything</a></nav><article>${story}</article></body></html>`;
    await world.index(page, { tenant: "page", filename: "page.html" });
    expect(await world.found("lighthouse", { tenant: "page" })).toHaveLength(1);
    expect(await world.found("subscribe", { tenant: "page" })).toEqual([]);
    await world.index("<html><body><ul><li>Zinc</li><li>Copper</li></ul></body></html>", {
      tenant: "list",
      filename: "list.html",
    });
    expect(await world.found("copper", { tenant: "list" })).toHaveLength(1);
  });

  it("the bytes decide, not the name", async () => {
    const pdf = await readFile(join(FIXTURES, "libreoffice.pdf"));
    expect(await world.index(pdf, { tenant: "wrong", filename: "notes.txt" })).toMatchObject({
      status: "ready",
      mimeType: "application/pdf",
    });
    const docx = await readFile(join(FIXTURES, "pandoc.docx"));
    expect(await world.index(docx, { tenant: "wrong", filename: "x.pdf" })).toMatchObject({
      status: "ready",
      mimeType: `${OOXML}.wordprocessingml.document`,
    });
    expect(
      await world.index("plain words", { tenant: "wrong", filename: "report.pdf" }),
    ).toMatchObject({
      status: "ready",
      mimeType: "text/plain",
    });
    expect(
      await world.index("{ no JSON at all", { tenant: "wrong", filename: "a.json" }),
    ).toMatchObject({ status: "ready" });
  });
});
