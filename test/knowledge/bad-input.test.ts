import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { zipSync } from "fflate";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { knowledgeSchema } from "../../src/config/schema/knowledge.ts";
import { systemClock } from "../../src/core/clock.ts";
import { createLogger } from "../../src/core/log.ts";
import { createKnowledge } from "../../src/knowledge/knowledge.ts";
import { createWorld, withEntry, type KnowledgeWorld } from "./world.ts";

let world: KnowledgeWorld;
beforeAll(async () => {
  world = await createWorld();
});
afterAll(() => world.close());

const EMPTY = { chunks: 0, passages: 0, vectors: 0, words_docsize: 0 };
const cut = (content: Buffer): Buffer => content.subarray(0, Math.floor(content.length / 2));
/** Zeros shrink to a thousandth. */
const ZEROS = new Uint8Array(40 * 2 ** 20);

describe("documents that cannot be indexed", () => {
  const bytes: [
    what: string,
    filename: string,
    content: () => Promise<string | Uint8Array> | string | Uint8Array,
    code: string,
  ][] = [
    ["an empty file", "a.txt", () => "", "no_text_found"],
    ["white space", "a.txt", () => " \n\t\n ", "no_text_found"],
    ["punctuation alone", "a.md", () => "--- *** …", "no_text_found"],
    [
      "an empty page",
      "a.html",
      () => "<html><body><script>let text</script></body></html>",
      "no_text_found",
    ],
    ["a table without rows", "a.csv", () => "\n\n", "no_text_found"],
    [
      "a picture",
      "a.pdf",
      () => Buffer.from("89504e470d0a1a0a0000000d49484452", "hex"),
      "unsupported_type",
    ],
    ["a binary file", "a.txt", () => Buffer.from([1, 2, 0, 3, 4]), "unsupported_type"],
    [
      "another zip file",
      "a.docx",
      () => zipSync({ "a.txt": Buffer.from("text") }),
      "unsupported_type",
    ],
    ["XML without text", "a.xml", () => '<?xml version="1.0"?><rss/>', "no_text_found"],
    ["a PDF that is cut off", "a.pdf", () => "%PDF-1.7\n1 0 obj\n<<", "broken_document"],
    [
      "a zip file that is cut off",
      "a.docx",
      async () => (await withEntry("pandoc.docx", "word/document.xml", (x) => x)).subarray(0, 3000),
      "broken_document",
    ],
    [
      "a docx with broken XML",
      "a.docx",
      () => withEntry("pandoc.docx", "word/document.xml", cut),
      "broken_document",
    ],
    [
      "an epub with a broken list",
      "a.epub",
      () => withEntry("pandoc.epub", "EPUB/content.opf", cut),
      "broken_document",
    ],
    [
      "a zip bomb as docx",
      "a.docx",
      () => withEntry("pandoc.docx", "word/document.xml", () => Buffer.from(ZEROS)),
      "too_large",
    ],
    [
      "a docx that says that it unpacks to little",
      "a.docx",
      async () => {
        const bytes = Buffer.from(
          await withEntry("pandoc.docx", "word/document.xml", (text) =>
            Buffer.concat([text, ZEROS]),
          ),
        );
        // The sizes of the entries in the directory at the end of the archive.
        for (let at = 0; (at = bytes.indexOf("504b0102", at, "hex")) >= 0; at += 4)
          bytes.writeUInt32LE(1000, at + 24);
        return bytes;
      },
      "broken_document",
    ],
    [
      "a zip bomb beside the text",
      "a.odt",
      () => withEntry("pandoc.odt", "styles.xml", () => Buffer.from(ZEROS)),
      "too_large",
    ],
  ];
  it.each(bytes)("%s", async (what, filename, content, code) => {
    const document = await world.index(await content(), { filename, tenant: what });
    expect(document).toMatchObject({ status: "failed", error: { code }, chunkCount: 0 });
    expect(await world.rows()).toMatchObject(EMPTY);
    expect(await world.knowledge.search({ tenant: what, text: "text let Guide" })).toEqual([]);
  });

  it.each([
    ["encrypted.pdf", "encrypted_document"],
    ["encrypted.docx", "encrypted_document"],
    ["encrypted.odt", "encrypted_document"],
    ["scanned.pdf", "no_text_found"],
  ])("%s", async (file, code) => {
    expect(await world.fixture(file)).toMatchObject({ status: "failed", error: { code } });
  });
});

describe("limits", () => {
  it.each([
    ["pandoc.pptx", "the presentation has more than 1 slide"],
    ["reportlab-cid.pdf", "the document has more than 1 page"],
  ])("of pages: %s", async (file, message) => {
    const small = await createWorld({ config: { pages: 1 } });
    expect((await small.fixture(file)).error).toEqual({ code: "too_large", message });
    await small.close();
  });

  it("of text", async () => {
    const small = await createWorld({ config: { textMb: 1 } });
    expect(await small.index("Many words stand here. ".repeat(50_000))).toMatchObject({
      status: "failed",
      error: { code: "too_large" },
    });
    expect(await small.rows()).toMatchObject(EMPTY);
    await small.close();
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

  const child = async (name: string, code: string): Promise<string> => {
    const file = join(world.dir, `${name}.mjs`);
    await writeFile(
      file,
      `process.send({ kind: "started" }); process.on("message", () => { ${code} });`,
    );
    return file;
  };

  it("of time: a reader that never ends is ended, and the next document has another", async () => {
    const extractionChild = await child("loops", "for (;;);");
    const slow = await createWorld({ config: { timeout: "300ms", workers: 1 }, extractionChild });
    const both = await Promise.all([slow.index("one"), slow.index("two")]);
    for (const document of both)
      expect(document).toMatchObject({ status: "failed", error: { code: "timeout" } });
    await slow.close();
  });

  it("of memory", async () => {
    const full = await createWorld({
      config: { memoryMb: 128 },
      extractionChild: await child(
        "eats",
        "const all = []; for (;;) all.push(Math.random() + 'x');",
      ),
    });
    expect(await full.index("one")).toMatchObject({
      status: "failed",
      error: { code: "too_large" },
    });
    await full.close();
  });

  it("a reader that a large document has filled is not given the next one", async () => {
    const says = `process.send({ kind: "failed", tired: call.filename === "large", error: { code: "no_text_found", message: String(process.pid) } });`;
    const file = join(world.dir, "tired.mjs");
    await writeFile(file, `process.on("message", (call) => { ${says} });`);
    const tired = await createWorld({ config: { workers: 1 }, extractionChild: file });
    const pids: (string | undefined)[] = [];
    for (const filename of ["one", "large", "two", "three"])
      pids.push((await tired.index(filename, { filename })).error?.message);
    await tired.close();
    expect([pids[0] === pids[1], pids[1] === pids[2], pids[2] === pids[3]]).toEqual([
      true,
      false,
      true,
    ]);
  });

  it("a reader that ends by itself fails only its document", async () => {
    const gone = await createWorld({ extractionChild: await child("exits", "process.exit(1);") });
    expect(await gone.index("one")).toMatchObject({
      status: "failed",
      error: { code: "broken_document" },
    });
    await gone.close();
  });
});

describe("a database that is none", () => {
  const open = (dir: string): Promise<unknown> =>
    createKnowledge({
      dir,
      clock: systemClock,
      log: createLogger("silent"),
      config: knowledgeSchema.parse(undefined),
    });

  it("is refused, with what to do", async () => {
    const dir = await mkdtemp(join(tmpdir(), "rouse-knowledge-"));
    await writeFile(
      join(dir, "knowledge.db"),
      "this is no database, however long it may be ".repeat(500),
    );
    await expect(open(dir)).rejects.toMatchObject({ code: "store_unavailable" });
    await rm(join(dir, "knowledge.db"));
    const db = new DatabaseSync(join(dir, "knowledge.db"));
    db.exec(
      "CREATE TABLE migrations (version INTEGER PRIMARY KEY, at INTEGER NOT NULL); INSERT INTO migrations VALUES (99, 0)",
    );
    db.close();
    await expect(open(dir)).rejects.toMatchObject({
      code: "config_invalid",
      message: expect.stringContaining("knowledge.db") as string,
    });
    await rm(dir, { recursive: true });
  });
});
