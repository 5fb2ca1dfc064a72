import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createLogger } from "../../src/core/log.ts";
import { openDatabase, type Database } from "../../src/knowledge/db/client.ts";
import { renderChunkLine } from "../../src/knowledge/db/lines.ts";
import { DocumentTokenizer } from "../../src/knowledge/tokenize.ts";
import { stageBytes } from "../../src/knowledge/upload-staging.ts";

let dir: string;
let writer: Database<"writer">;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "rouse-together-"));
  const settings = { database: join(dir, "knowledge.db"), files: join(dir, "files"), now: 0 };
  writer = await openDatabase({ role: "writer", ...settings }, { log: createLogger("silent") });
});
afterEach(async () => {
  await writer.close();
  rmSync(dir, { recursive: true, force: true });
});

const read = (sql: string): unknown[] => {
  const db = new DatabaseSync(join(dir, "knowledge.db"), { readOnly: true });
  const values = db
    .prepare(sql)
    .all()
    .map((row) => Object.values(row)[0]);
  db.close();
  return values;
};

/** Indexes documents at the same time; the chunks of the one numbered `broken` cannot be read. */
async function indexAll(count: number, broken = -1): Promise<string[]> {
  for (let n = 0; n < count; n++)
    await writer.call(
      "add",
      {
        tenant: "t",
        ...(await stageBytes(dir, Buffer.from(`document ${n}`), 100)),
        filename: `${n}.txt`,
      },
      0,
    );
  const jobs = await writer.call("take", count);
  const done = { mimeType: "text/plain", title: null, pages: null, chunks: 1 };
  const calls = jobs.map(({ id, generation }, n) => {
    const file = join(dir, `chunks-${n}`);
    const text = `Das ist der Text ${n}, und er ist nicht lang.`;
    const chunk = { text, headings: [], page: null, start: 0, end: text.length };
    writeFileSync(
      file,
      n === broken
        ? "no chunk\n"
        : renderChunkLine({ ...chunk, ...new DocumentTokenizer().toIndexForm(text) }),
    );
    return { id, generation, file, offset: 0, first: 0, done, now: 0 };
  });
  const results = await Promise.allSettled(calls.map((call) => writer.call("indexPart", call)));
  return results.map((result) => (result.status === "fulfilled" ? result.value.state : "failed"));
}

it("documents that are indexed together fail one by one", async () => {
  expect(await indexAll(4, 2)).toEqual(["ready", "ready", "failed", "ready"]);
  expect(read("SELECT status FROM documents ORDER BY seq")).toEqual([
    "ready",
    "ready",
    "extracting",
    "ready",
  ]);
  expect(read("SELECT count(*) FROM passages")).toEqual([3]);
  expect(read("SELECT count(*) FROM grams WHERE grams MATCH '\"1·text\"'")).toEqual([3]);
});

it("documents that are indexed together are in few parts of the index", async () => {
  expect(await indexAll(24)).toEqual(Array.from({ length: 24 }, () => "ready"));
  // FTS5 numbers what it writes to disk.
  for (const table of ["words", "grams"])
    expect(read(`SELECT count(DISTINCT origin) FROM ${table}_docsize`)[0]).toBeLessThan(12);
});
