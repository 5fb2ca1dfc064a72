import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readPassages } from "./passages.ts";
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

  it("a web page is read without its menu, and a page that is all lists with all of it", async () => {
    const story =
      "<p>The lighthouse keeper counts the ships that pass the northern reef, and writes each of them into a book of grey linen.</p>".repeat(
        8,
      );
    const page = `<html><head><title>News</title></head><body><nav><a href=/>Subscribe to everything</a></nav><article>${story}</article></body></html>`;
    const text = (await readPassages("page.html", page)).lines.join("\n");
    expect(text).toContain("lighthouse");
    expect(text).not.toContain("Subscribe");
    const list = "<html><body><ul><li>Zinc</li><li>Copper</li></ul></body></html>";
    expect((await readPassages("list.html", list)).lines).toEqual(["Zinc", "Copper"]);
  });

  it.each([
    ["libreoffice.pdf", "notes.txt", "application/pdf"],
    ["pandoc.docx", "x.pdf", `${OOXML}.wordprocessingml.document`],
    ["guide.md", "report.pdf", "text/plain"],
    ["guide.md", "a.json", "application/json"],
  ])("the bytes decide, not the name: %s as %s", async (file, filename, mimeType) => {
    const bytes = await readFile(join(FIXTURES, file));
    expect((await readPassages(filename, bytes)).mimeType).toBe(mimeType);
  });
});
