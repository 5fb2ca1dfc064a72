import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { documentsWorld, type DocumentsWorld } from "./documents.ts";

/** Reads notes: a line with `#` is a heading, `=== 2` begins a page. */
const READER = `
export default async ({ bytes, filename }) => {
  const text = new TextDecoder().decode(bytes);
  if (text.startsWith("loop")) for (;;);
  if (text.startsWith("fill")) for (const all = [];;) all.push(Buffer.alloc(64e6, 1));
  if (text.startsWith("throw")) throw new Error("canary-reader");
  let page = 1;
  const blocks = text.split("\\n").flatMap((line) => {
    if (line.startsWith("=== ")) { page = Number(line.slice(4)); return []; }
    return [{ text: line.replace(/^# /, ""), heading: line.startsWith("# "), page }];
  });
  return { title: "Notes of " + filename, blocks };
};`;

let folder: string;
let world: DocumentsWorld;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "rouse-reader-"));
  writeFileSync(join(folder, "read.mjs"), READER);
  const module = pathToFileURL(join(folder, "read.mjs")).href;
  writeFileSync(join(folder, "gone.mjs"), READER);
  const extractors = [
    { extensions: ["note", "notes"], mediaTypes: ["text/x-note"], module },
    {
      extensions: ["gone"],
      mediaTypes: ["text/x-gone"],
      module: pathToFileURL(join(folder, "gone.mjs")).href,
    },
  ];
  world = await documentsWorld({
    agents: [{ id: "ops" }, { id: "sales" }],
    files: {
      "plugins/notes.mjs": `export default { id: "notes", extractors: ${JSON.stringify(extractors)} };`,
    },
    // Memory takes long to fill on a busy machine.
    platform: { knowledge: { timeout: 8, memoryMb: 256 } },
  });
  // It was there when the gateway checked the plugin.
  rmSync(join(folder, "gone.mjs"));
});
afterAll(async () => {
  await world.close();
  rmSync(folder, { recursive: true, force: true });
});

describe("documents that a plugin reads", () => {
  it("are found, with headings, pages and title", async () => {
    const { status, body } = await world.index(
      "garden.NOTES",
      "# Beds\nThe marrow is in bed nine.\n=== 2\nThe quince is by the wall.",
    );
    expect([status, body]).toMatchObject([
      200,
      { status: "ready", mime_type: "text/x-note", title: "Notes of garden.NOTES", page_count: 2 },
    ]);
    expect(await world.search("marrow")).toEqual([expect.stringContaining("bed nine")]);
  });

  it.each([
    ["loop.note", "loop", "timeout"],
    ["fill.note", "fill", "too_large"],
    ["throw.note", "throw", "broken_document"],
    ["x.gone", "x", "missing_extractor"],
  ])("%s is held to the limits of all documents, and fails alone", async (name, content, code) => {
    const { body } = await world.index(name, content);
    expect([body.status, body.error?.code]).toEqual(["failed", code]);
    expect(JSON.stringify(body)).not.toContain("canary");
    expect((await world.index(`after-${name}.txt`, `Read after ${name}.`)).body.status).toBe(
      "ready",
    );
  });
});
