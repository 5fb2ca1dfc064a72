import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { openCatalog, type DocumentCatalog } from "../../src/knowledge/catalog/catalog.ts";
import { Vectors } from "../../src/knowledge/index/vectors.ts";
import { normalized } from "../../src/knowledge/models/embed.ts";

const DIMENSION = 48;
const MODEL = "m";

let dir: string;
let catalog: DocumentCatalog;
let vectors: Vectors;
let state = 7;
/** The same numbers in every run. */
const random = (): number => {
  state = (state * 48271) % 2147483647;
  return state / 2147483647 - 0.5;
};
const some = (): Float32Array => normalized(Float32Array.from({ length: DIMENSION }, random));
const dot = (a: Float32Array, b: Float32Array): number =>
  a.reduce((sum, value, index) => sum + value * (b[index] as number), 0);

interface Put {
  seq: number;
  vector: Float32Array;
  doc?: number;
  generation?: number;
  model?: string;
}

/** Puts passages with their vectors there. */
const put = (...all: Put[]): Promise<void> =>
  catalog.write(async (sql) => {
    for (const { seq, vector, doc = 1, generation = 1, model = MODEL } of all) {
      await sql.query(
        `INSERT INTO knowledge_passages (seq, doc, generation, n, start_at, end_at, gram_count, headings, text, words, grams)
          VALUES ($1, $2, $3, 0, 0, 0, 0, '[]', '', '', '')`,
        [seq, doc, generation],
      );
      await sql.query(
        "INSERT INTO knowledge_vectors (seq, model, dimension, vector) VALUES ($1, $2, $3, $4)",
        [seq, model, vector.length, new Uint8Array(vector.buffer)],
      );
    }
  });
const drop = (condition: string): Promise<void> =>
  catalog.write(async (sql) => {
    for (const table of ["vectors", "passages"])
      await sql.query(`DELETE FROM knowledge_${table} WHERE ${condition}`);
  });
const ALL = new Map([[1, 1]]);

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "rouse-vectors-"));
  catalog = await openCatalog({ database: join(dir, "knowledge.db"), now: 0 }, true);
  vectors = new Vectors(catalog);
});
afterEach(async () => {
  await catalog.close();
  await rm(dir, { recursive: true, force: true });
});

it("vectors: the ranking is that of an exact comparison", async () => {
  const all = new Map<number, Float32Array>();
  for (let seq = 1; seq <= 6000; seq++) all.set(seq, some());
  await put(...[...all].map(([seq, vector]) => ({ seq, vector })));
  for (let i = 0; i < 10; i++) {
    const question = some();
    const exact = [...all]
      .map(([seq, vector]) => ({ seq, score: dot(vector, question) }))
      .toSorted((a, b) => b.score - a.score);
    const found = await vectors.nearest(ALL, MODEL, question, 20);
    expect(found.map(({ seq }) => seq)).toEqual(exact.slice(0, 20).map(({ seq }) => seq));
    expect(found[0]?.score).toBeCloseTo(exact[0]?.score ?? 0, 5);
  }
});

it("vectors: only visible passages are compared, new ones included", async () => {
  const question = some();
  await put(
    { seq: 1, vector: question },
    { seq: 2, vector: some(), doc: 2 },
    { seq: 3, vector: some(), doc: 2, generation: 2 },
    { seq: 4, vector: question, model: "another" },
  );
  const seen = async (visible: Map<number, number>): Promise<number[]> =>
    (await vectors.nearest(visible, MODEL, question, 10)).map(({ seq }) => seq);
  expect(await seen(ALL)).toEqual([1]);
  expect(await seen(new Map([[2, 1]]))).toEqual([2]);
  expect(await seen(new Map([[2, 2]]))).toEqual([3]);
  expect(await seen(new Map())).toEqual([]);
  await put({ seq: 5, vector: some() });
  expect(await seen(ALL)).toEqual([1, 5]);
  await drop("seq = 1");
  expect(await seen(ALL)).toEqual([5]);
});

it("vectors: another model, or another length of the same one, has vectors of its own", async () => {
  const question = some();
  await put({ seq: 1, vector: question });
  expect(await vectors.nearest(ALL, MODEL, question, 10)).toHaveLength(1);
  expect(await vectors.nearest(ALL, "another", question, 10)).toEqual([]);
  expect(await vectors.nearest(ALL, MODEL, question.slice(0, 8), 10)).toEqual([]);
  expect(await vectors.nearest(ALL, MODEL, question, 10)).toHaveLength(1);
});

it("vectors: the results stay the same after most vectors were deleted", async () => {
  const question = some();
  for (let round = 0; round < 4; round++) {
    await drop("1 = 1");
    await put(
      ...Array.from({ length: 900 }, (_, n) => ({ seq: round * 1000 + n + 1, vector: some() })),
    );
    const found = await vectors.nearest(ALL, MODEL, question, 5);
    expect(found).toHaveLength(5);
    for (const { seq } of found) expect(Math.floor(seq / 1000)).toBe(round);
  }
});
