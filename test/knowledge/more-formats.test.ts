import { spawnSync } from "node:child_process";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { unzipSync, zipSync } from "fflate";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { installedFormats } from "../../src/knowledge/formats.ts";
import { readDocument } from "../../src/knowledge/extract/read.ts";
import { docx } from "./office-files.ts";
import { createWorld, FIXTURES, type KnowledgeWorld } from "./world.ts";

/** Programs of the system: the tests that need them say so. */
const [SOFFICE, PGREP] = ["soffice", "pgrep"] as const;

let world: KnowledgeWorld;
beforeAll(async () => {
  world = await createWorld();
});
afterAll(() => world.close());

const read = async (content: string | Uint8Array, filename: string) => {
  const document = await world.index(content, { tenant: filename, filename });
  const texts =
    (await world.knowledge.passages(filename, document.id, { limit: 100 }))?.passages.map(
      ({ text }) => text,
    ) ?? [];
  return { document, text: texts.join("\n") };
};
const utf16 = (text: string, isBigEndian: boolean): Buffer => {
  const bytes = Buffer.from(text, "utf16le");
  return isBigEndian ? bytes.swap16() : bytes;
};

it("a paragraph of Word with a level of its own in the outline is a heading", async () => {
  const paragraph = (text: string, level: number): string =>
    `<w:p><w:pPr><w:outlineLvl w:val="${level}"/></w:pPr><w:r><w:t>${text}</w:t></w:r></w:p>`;
  const { blocks } = await readDocument({
    bytes: Buffer.from(docx(paragraph("Pumps", 1) + paragraph("The pump is loud.", 9))),
    filename: "a.docx",
    limits: { pages: 10, textChars: 1e6, unzipRatio: 100 },
    depth: 0,
    programs: "",
    progress: () => undefined,
  });
  expect([...blocks]).toEqual([
    { kind: "heading", text: "Pumps", level: 2 },
    { kind: "text", text: "The pump is loud." },
  ]);
});

it("a table whose quote is not closed keeps its rows, and says where", async () => {
  const { text } = await read('name,price\nMatcha,4.2\n"Sencha,3\nGenmaicha,5\n', "open.csv");
  for (const said of ["Matcha | 4.2", "Sencha | 3", "Genmaicha | 5", "quote in line 3"])
    expect(text).toContain(said);
});

describe("UTF-16 without a byte order mark", () => {
  const TEXTS = [
    ["English", "Descaling takes twenty minutes.\nThe café opens at seven.", "descaling"],
    ["Chinese", "订单已经发货了，请等待。除垢需要二十分钟和柠檬酸。", "除垢需要多长时间"],
    ["Chinese with its ones", "一个星期一次。每一台咖啡机都要除垢。", "咖啡机除垢"],
    ["Japanese", "傘は九十日間、青い棚に保管されます。", "青い棚"],
    ["Korean", "커피 머신은 한 달에 한 번 청소합니다.", "커피 머신"],
    ["Russian", "Очистка занимает двадцать минут.", "очистка"],
    ["Arabic", "تنظيف الترسبات يستغرق عشرين دقيقة", "تنظيف"],
    ["several scripts", "Opening hours 营业时间 Часы работы\nMonday 星期一 ☕😀", "营业时间"],
    ["Thai", "ร้านกาแฟเปิดเวลาเจ็ดโมงเช้า และปิดสามทุ่ม", "ร้านกาแฟ"],
  ] as const;
  it.each(
    TEXTS.map(
      ([language, text, question], index) =>
        [language, index % 2 === 0 ? "big" : "little", text, question] as const,
    ),
  )("%s, %s endian", async (language, endian, text, question) => {
    const tenant = `${language}-${endian}`;
    const document = await world.index(utf16(text, endian === "big"), {
      tenant,
      filename: "a.txt",
    });
    expect(document).toMatchObject({ status: "ready", mimeType: "text/plain" });
    expect((await world.knowledge.search({ tenant, text: question }))[0]?.text).toBe(text);
  });

  it("a table and a page are still known for what they are", async () => {
    expect((await read(utf16("id,name\n1,Matcha\n", false), "wide.csv")).text).toContain(
      "1 | Matcha",
    );
    expect(
      (await read(utf16("<!doctype html><body><p>Beans.</p>", true), "wide.html")).document
        .mimeType,
    ).toBe("text/html");
  });

  it("bytes that are no text in any encoding fail, and are not indexed as garbage", async () => {
    const noise = Buffer.from(
      Array.from({ length: 4000 }, (_, index) => 128 + ((index * index * 37 + index * 11) % 32)),
    );
    expect((await read(noise, "noise.txt")).document).toMatchObject({
      status: "failed",
      error: { code: "broken_document" },
    });
  });
});

describe("RTF", () => {
  it("is read without its fonts, styles and pictures, in its code page and in Unicode", async () => {
    const rtf = String.raw`{\rtf1\ansi\ansicpg1251\uc1{\fonttbl{\f0 Times New Roman;}}{\stylesheet{\s1 heading 1;}}{\info{\title Secret}}{\*\generator Writer;}
\f0\pard \'cf\'f0\'e8\'e2\'e5\'f2 \b harbour\b0  caf\u233?!\par Price:\tab \u8364? 5 \{net\}\par{\pict\wmetafile8 010009}\trowd Matcha\cell 4.2\cell\row {\field{\*\fldinst HYPERLINK "http://a"}{\fldrslt the list}}}`;
    const { document, text } = await read(rtf, "a.rtf");
    expect(document).toMatchObject({ status: "ready", mimeType: "application/rtf" });
    expect(text).toBe("Привет harbour café!\n\nPrice:\t€ 5 {net}\nMatcha | 4.2\n\nthe list");
  });

  it("has characters of two bytes", async () => {
    const rtf = String.raw`{\rtf1\ansi\ansicpg936 \'b3\'fd\'b9\'b8\'d0\'e8\'d2\'aa\par}`;
    expect((await read(rtf, "zh.rtf")).text).toBe("除垢需要");
  });

  it("has merged cells in all that they cover, headers and footers apart, and no hidden text", async () => {
    const rtf = String.raw`{\rtf1\ansi{\header \pard Internal walrus}{\footer\pard Until the tide}\pard Body{\v hidden} text.\par
\trowd\clvmgf\cellx1\clmgf\cellx2\clmrg\cellx3 Berth\cell Price\cell\cell\row\trowd\clvmrg\cellx1\cellx2\cellx3 \cell day\cell night\cell\row\pard End.\par}`;
    expect((await read(rtf, "merged.rtf")).text.split("\n").filter(Boolean)).toEqual([
      "Internal walrus",
      "Until the tide",
      "Body text.",
      "Berth | Price | Price",
      "Berth | day | night",
      "End.",
    ]);
  });

  it("has fonts with character sets of their own", async () => {
    const rtf = String.raw`{\rtf1\ansi{\fonttbl{\f0\fcharset204 Arial;}{\f1\fcharset0 Arial;}}\f0 \'cf\'f0\'e8\f1  caf\'e9\par}`;
    expect((await read(rtf, "fonts.rtf")).text).toBe("При café");
  });

  it("with 100,000 groups in each other fails alone", async () => {
    const { document } = await read(`{\\rtf1 ${"{".repeat(100_000)}`, "deep.rtf");
    expect(document).toMatchObject({ status: "failed", error: { code: "broken_document" } });
  });
});

describe("XML", () => {
  it("is read by its elements, in the encoding that it declares", async () => {
    const xml = `<?xml version="1.0" encoding="ISO-8859-1"?><m:menu xmlns:m="http://menu.example" xml:lang="en"><title>Caf\u00e9</title>
<drink id="7" price="4.2"><name>Matcha</name></drink><p>Served <b>hot</b> &amp; cold.</p><![CDATA[Closed on Mondays]]></m:menu>`;
    const { document, text } = await read(Buffer.from(xml, "latin1"), "a.xml");
    expect(document).toMatchObject({ status: "ready", mimeType: "application/xml", title: "Café" });
    for (const line of [
      "title: Café",
      "name: Matcha",
      "drink id=7 price=4.2",
      "p: Served hot & cold.",
      "Closed on Mondays",
    ])
      expect(text).toContain(line);
    expect(text).not.toContain("menu.example");
  });

  it.each([
    [
      "entities in entities",
      '<!DOCTYPE a [<!ENTITY x "lol"><!ENTITY y "&x;&x;&x;&x;">]><a>&y;</a>',
    ],
    ["a file of the machine", '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>'],
    ["100,000 elements in each other", "<a>".repeat(100_000)],
    ["an end that is missing", "<a><b>text</b>"],
  ])("with %s is refused", async (what, body) => {
    const { document } = await read(`<?xml version="1.0"?>${body}`, `${what}.xml`);
    expect(document).toMatchObject({ status: "failed", error: { code: "broken_document" } });
  });
});

it("Word's headers, footers and footnotes are found", async () => {
  const entries = unzipSync(await readFile(join(FIXTURES, "pandoc.docx")));
  const W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"';
  const part = (kind: string, ...texts: string[]) =>
    Buffer.from(
      `<?xml version="1.0"?><w:${kind} ${W}>${texts.map((text) => `<w:p><w:r><w:t>${text}</w:t></w:r></w:p>`).join("")}</w:${kind}>`,
    );
  const docx = zipSync({
    ...entries,
    "word/header1.xml": part("hdr", "Confidential walrus"),
    "word/header2.xml": part("hdr", "Confidential walrus"),
    "word/footer1.xml": part("ftr", "Valid until the pelican moves"),
  });
  const { text } = await read(docx, "margins.docx");
  expect(text.split("Confidential walrus")).toHaveLength(2);
  expect(text).toContain("Valid until the pelican moves");
});

describe("mail with attachments", () => {
  const part = (type: string, name: string, content: string | Uint8Array, encoding = "base64") =>
    `--HERE\r\nContent-Type: ${type}\r\nContent-Disposition: attachment; filename="${name}"\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n${encoding === "base64" ? Buffer.from(content).toString("base64").replaceAll(/.{76}/g, "$&\r\n") : content.toString()}\r\n`;
  let mails = 0;
  const mail = (subject: string, ...parts: string[]) => {
    const boundary = `of-${mails++}`;
    return `From: ann@example.com\r\nSubject: ${subject}\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="${boundary}"\r\n\r\n--${boundary}\r\nContent-Type: text/plain\r\n\r\nSee what is attached.\r\n${parts.join("").replaceAll("--HERE", `--${boundary}`)}--${boundary}--\r\n`;
  };

  it("is read with what they say, each by its own reader", async () => {
    const inner = mail(
      "The inner one",
      part("text/plain", "deep.txt", "The axolotl is in the inner mail."),
    );
    const { document, text } = await read(
      mail(
        "The outer one",
        part("text/csv", "drinks.csv", "name,price\nMatcha,4.2\n"),
        part(
          "application/octet-stream",
          "list.docx",
          await readFile(join(FIXTURES, "pandoc.docx")),
        ),
        part("message/rfc822", "inner.eml", inner, "8bit"),
        part("image/png", "photo.png", Buffer.from("89504e470d0a1a0a", "hex")),
        part("application/pdf", "broken.pdf", "%PDF-1.7 cut"),
      ),
      "outer.eml",
    );
    expect(document).toMatchObject({ status: "ready", title: "The outer one" });
    for (const said of [
      "See what is attached",
      "Matcha | 4.2",
      "Descaling takes twenty minutes",
      "The axolotl is in the inner mail",
    ])
      expect(text).toContain(said);
    expect(text).toMatch(/Attached: photo\.png \(not read: a picture cannot be read\)/);
    expect(text).toMatch(/Attached: broken\.pdf \(not read: .*damaged/);
    const [best] = await world.knowledge.search({ tenant: "outer.eml", text: "matcha price" });
    expect(best?.text).toContain("Attached: drinks.csv");
  });

  it("is read with those who get a copy", async () => {
    const { text } = await read(
      "From: ann@example.com\r\nTo: bob@example.com\r\nCc: Vera Stone <vera@example.com>\r\nSubject: Hi\r\n\r\nNoon.\r\n",
      "copy.eml",
    );
    expect(text).toContain("Cc: Vera Stone <vera@example.com>");
  });

  it("of a mailbox is a section", async () => {
    const one = (subject: string, words: string): string =>
      `From ann@example.com Fri Jul  8 12:08:34 2011\nFrom: ann@example.com\nSubject: ${subject}\n\n${words}\n\n`;
    const box = one("Pumps", "The pump is loud.\n>From noon on it is off.") + one("", "Lunch?");
    const { document, text } = await read(box, "archive");
    expect(document).toMatchObject({ status: "ready", mimeType: "application/mbox" });
    expect(text).toMatch(
      /Pumps[^]*The pump is loud\.\nFrom noon on it is off\.[^]*no subject[^]*Lunch\?/,
    );
  });

  it("in each other are read three deep, and 50 of one mail", async () => {
    let nested = mail("0", part("text/plain", "secret.txt", "The pelican is too deep."));
    for (let depth = 1; depth < 5; depth++)
      nested = mail(String(depth), part("message/rfc822", `mail-${depth}.eml`, nested, "8bit"));
    const { text } = await read(nested, "nested.eml");
    expect(text).not.toContain("pelican");
    expect(text).toContain("not read: it is nested too deeply");
    const many = mail(
      "many",
      ...Array.from({ length: 52 }, (_, index) =>
        part("text/plain", `n${index}.txt`, `Number ${index}.`),
      ),
    );
    expect((await read(many, "many.eml")).text.match(/not read: only 50 are read/g)).toHaveLength(
      2,
    );
  });
});

it(
  "a table of eight columns that is nearly as long as a text may be is within the limits",
  { timeout: 300_000 },
  async () => {
    const small = await createWorld({ config: { textMb: 1 } });
    const row = Array.from({ length: 8 }, (_, index) => `c${index}`).join(",");
    const csv = `${row}\n`.repeat(Math.floor(950_000 / (row.length + 1)));
    const document = await small.index(csv, { filename: "wide.csv" });
    await small.close();
    expect(document).toMatchObject({ status: "ready" });
  },
);

describe("Office files of before 2007", () => {
  let folder: string | undefined;
  afterEach(async () => {
    if (folder !== undefined) await rm(folder, { recursive: true });
    folder = undefined;
  });
  /** A world whose `soffice` is this script of a shell; without one, there is none. */
  async function withOffice(script?: string, timeout = "50s"): Promise<KnowledgeWorld> {
    folder = await mkdtemp(join(tmpdir(), "rouse-soffice-"));
    if (script !== undefined) {
      await writeFile(join(folder, "soffice"), `#!/bin/sh\n${script}\n`);
      await chmod(join(folder, "soffice"), 0o755);
    }
    const PATH = script === undefined ? folder : `${folder}${delimiter}${process.env["PATH"]}`;
    return createWorld({ config: { timeout }, env: { PATH } });
  }
  const doc = () => readFile(join(FIXTURES, "libreoffice.doc"));
  const OUT = 'while [ $# -gt 1 ]; do [ "$1" = --outdir ] && out="$2"; shift; done';

  it("are converted by LibreOffice and read as what it makes of them", async () => {
    const office = await withOffice(
      `${OUT}\ncp ${join(FIXTURES, "libreoffice.docx")} "$out/document.docx"`,
    );
    const document = await office.index(await doc(), { filename: "a.doc" });
    expect(document).toMatchObject({ status: "ready", mimeType: "application/msword" });
    expect((await office.found("How long does descaling take?"))[0]).toContain(
      "Descaling takes twenty minutes",
    );
    await office.close();
  });

  it("say what to install if LibreOffice is not there, and the list of formats says so too", async () => {
    const office = await withOffice();
    const { error } = await office.index(await doc(), { filename: "a.doc" });
    expect(error).toMatchObject({
      code: "missing_extractor",
      message: expect.stringContaining("install LibreOffice"),
    });
    expect(installedFormats([], folder).find(({ id }) => id === "doc")?.missing).toEqual([
      "LibreOffice (soffice)",
    ]);
    await office.close();
  });

  it("that it cannot read fail", async () => {
    const office = await withOffice("exit 1");
    expect((await office.index(await doc(), { filename: "a.doc" })).error).toMatchObject({
      code: "broken_document",
    });
    await office.close();
  });

  it("on which it hangs are given up, and its process ends", async () => {
    const office = await withOffice("exec sleep 4711.25", "3s");
    expect((await office.index(await doc(), { filename: "a.doc" })).error).toMatchObject({
      code: "timeout",
    });
    await office.close();
    expect(spawnSync(PGREP, ["-f", "sleep 4711.25"]).stdout.toString()).toBe("");
  });

  it.skipIf(spawnSync(SOFFICE, ["--version"]).error !== undefined)(
    "are read by the real program",
    async () => {
      const office = await createWorld({ config: { timeout: "60s" }, env: process.env });
      expect(await office.fixture("libreoffice.doc")).toMatchObject({
        status: "ready",
        title: "Harbour café handbook",
      });
      expect((await office.found("How long does descaling take?"))[0]).toContain(
        "Descaling takes twenty minutes",
      );
      await office.close();
    },
  );
});
