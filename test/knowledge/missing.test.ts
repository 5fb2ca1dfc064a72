import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { installedFormats } from "../../src/knowledge/formats.ts";
import type { Format } from "../../src/knowledge/types.ts";
import { createWorld, FIXTURES, type KnowledgeWorld } from "./world.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const LEFT_OUT = ["pdfjs-dist", "mammoth", "postal-mime"];

/** The program's sources beside packages of which some are left out, as after `npm install --omit=optional`. */
let copy: string;
let world: KnowledgeWorld;

beforeAll(async () => {
  copy = mkdtempSync(join(tmpdir(), "rouse-missing-"));
  writeFileSync(join(copy, "package.json"), '{ "type": "module" }');
  cpSync(join(ROOT, "src"), join(copy, "src"), { recursive: true });
  const modules = join(ROOT, "node_modules");
  const names = readdirSync(modules).flatMap((name) =>
    name.startsWith("@")
      ? readdirSync(join(modules, name)).map((inner) => `${name}/${inner}`)
      : [name],
  );
  for (const name of names) {
    const link = join(copy, "node_modules", name);
    if (LEFT_OUT.includes(name) || existsSync(link)) continue;
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(modules, name), link);
  }
  world = await createWorld({ extractionChild: join(copy, "src/knowledge/extract/child.ts") });
});
afterAll(async () => {
  await world.close();
  rmSync(copy, { recursive: true, force: true });
});

it.each([
  ["libreoffice.pdf", "pdfjs-dist"],
  ["pandoc.docx", "mammoth"],
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
  const script = `const { installedFormats } = await import(${JSON.stringify(join(copy, "src/knowledge/formats.ts"))}); console.log(JSON.stringify(installedFormats()));`;
  const output = execFileSync(
    process.execPath,
    ["--no-warnings", "--input-type=module", "-e", script],
    { encoding: "utf8", cwd: copy },
  );
  const missing = Object.fromEntries(
    (JSON.parse(output) as Format[]).map((format) => [format.id, format.missing]),
  );
  expect(missing).toMatchObject({
    pdf: ["pdfjs-dist"],
    docx: ["mammoth"],
    eml: ["postal-mime"],
    odt: [],
    text: [],
    html: [],
  });
  expect(
    installedFormats()
      .flatMap((format) => format.missing)
      .filter((name) => !name.startsWith("LibreOffice")),
  ).toEqual([]);
});

it("PDF needs no canvas, which is not there for every platform", () => {
  const script = `
    import { readFileSync } from "node:fs";
    import { registerHooks } from "node:module";
    registerHooks({ resolve: (name, context, next) => { if (name.startsWith("@napi-rs/")) throw new Error("not here"); return next(name, context); } });
    const { readDocument } = await import(${JSON.stringify(join(ROOT, "src/knowledge/extract/read.ts"))});
    const bytes = readFileSync(${JSON.stringify(join(FIXTURES, "libreoffice-zh.pdf"))});
    const limits = { pages: 10, textChars: 1e6, unzipRatio: 100 };
    const { blocks } = await readDocument({ bytes, filename: "a.pdf", limits, progress() {} });
    console.log("TEXT " + [...blocks].map(({ text }) => text).join(" "));`;
  const output = execFileSync(
    process.execPath,
    ["--no-warnings", "--input-type=module", "-e", script],
    {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    },
  );
  expect(output).toMatch(/^TEXT .*除垢需要二十分钟/m);
});
