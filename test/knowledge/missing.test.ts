import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { installedFormats } from "../../src/knowledge/formats.ts";
import type { Format } from "../../src/knowledge/types.ts";
import { createWorld, FIXTURES, type KnowledgeWorld } from "./world.ts";

const KNOWLEDGE = resolve(import.meta.dirname, "../../src/knowledge");
const LEFT_OUT = ["pdfjs-dist", "saxes", "postal-mime"];

/** Code that refuses to find packages, as after `npm install --omit=optional`. */
const without = (names: readonly string[]): string => `
  import { registerHooks } from "node:module";
  const isLeftOut = (name) => ${JSON.stringify(names)}.some((one) => name.startsWith(one));
  registerHooks({ resolve(name, context, next) {
    if (isLeftOut(name)) throw Object.assign(new Error("not here"), { code: "ERR_MODULE_NOT_FOUND" });
    return next(name, context);
  } });`;

const run = (script: string): string =>
  execFileSync(process.execPath, ["--no-warnings", "--input-type=module", "-e", script], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });

let folder: string;
let world: KnowledgeWorld;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "rouse-missing-"));
  const extractionChild = join(folder, "child.mjs");
  const child = JSON.stringify(join(KNOWLEDGE, "extract/child.ts"));
  writeFileSync(extractionChild, `${without(LEFT_OUT)}\nawait import(${child});`);
  world = await createWorld({ extractionChild });
});
afterAll(async () => {
  await world.close();
  rmSync(folder, { recursive: true, force: true });
});

it.each([
  ["libreoffice.pdf", "pdfjs-dist"],
  ["pandoc.docx", "saxes"],
  ["mail.eml", "postal-mime"],
])("%s fails with the name of the package that reads it", async (file, name) => {
  const document = await world.fixture(file);
  expect(document).toMatchObject({
    status: "failed",
    error: { code: "missing_extractor", package: name },
  });
  expect(document.error?.message).toContain(name);
});

it("the list of formats says what is missing", () => {
  // No package can be found from there.
  const file = join(folder, "formats.ts");
  copyFileSync(join(KNOWLEDGE, "formats.ts"), file);
  const output = run(
    `const { installedFormats } = await import(${JSON.stringify(file)}); console.log(JSON.stringify(installedFormats()));`,
  );
  const missing = (JSON.parse(output) as Format[]).map((format) => [format.id, format.missing]);
  expect(Object.fromEntries(missing)).toMatchObject({
    pdf: ["pdfjs-dist"],
    docx: ["fflate", "saxes"],
    eml: ["postal-mime", "linkedom"],
    text: [],
  });
  expect(
    installedFormats()
      .flatMap((format) => format.missing)
      .filter((name) => !name.startsWith("LibreOffice")),
  ).toEqual([]);
});

it("PDF needs no canvas, which is not there for every platform", () => {
  const output = run(`${without(["@napi-rs/"])}
    import { readFileSync } from "node:fs";
    const { readDocument } = await import(${JSON.stringify(join(KNOWLEDGE, "extract/read.ts"))});
    const bytes = readFileSync(${JSON.stringify(join(FIXTURES, "libreoffice-zh.pdf"))});
    const limits = { pages: 10, textChars: 1e6, unzipRatio: 100 };
    const { blocks } = await readDocument({ bytes, filename: "a.pdf", limits, progress() {} });
    console.log("TEXT " + [...blocks].map(({ text }) => text).join(" "));`);
  expect(output).toMatch(/^TEXT .*除垢需要二十分钟/m);
});
